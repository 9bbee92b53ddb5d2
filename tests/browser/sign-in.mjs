// Sign-in that lasts: the card, a session in all tabs, its end everywhere, and other pages that try to use
// it. On servers that this script starts.
//
//   TOOLCRIB_PROGRAM=target/debug/toolcrib node sign-in.mjs
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, equal, finish, launch, openPage, signIn, truthy, until } from './lib.mjs';
import { openSignedIn, program, startShop } from './own-server.mjs';

const server = await startShop();
const explorer = `${server.url}/explorer`;
const KEYS = {
  ada: server.keyOf('ada', ['shop:use']),
  bob: server.keyOf('bob', ['shop:use', 'roles:read']),
  boss: server.keyOf('boss', ['*']),
};
const browser = await launch();
const complaints = [];

/** A page of a new browser, at an address. */
async function visit(address = '', url = explorer) {
  const opened = await openPage(browser);
  await opened.page.goto(`${url}${address}`);
  return { page: opened.page, close: () => (complaints.push(...opened.complaints), opened.close()) };
}

/** Another tab of the same browser. */
async function tab(page, address = '') {
  const other = await page.context().newPage();
  await other.goto(`${explorer}${address}`);
  return other;
}

/** Signs in and stays signed in. */
async function staySignedIn(page, key) {
  await page.check('#stay');
  await signIn(page, key);
}

const person = async (page) => {
  await page.waitForSelector('#account-button');
  return (await page.textContent('#account-button')).trim();
};
const card = (page) => page.waitForSelector('#signin');
const stored = (page) => page.evaluate(() => localStorage.getItem('toolcrib-session'));

async function api(key, method, path, headers = {}) {
  const reply = await fetch(`${server.url}${path}`, { method, headers: { Authorization: `Bearer ${key}`, ...headers } });
  return { status: reply.status, data: await reply.json() };
}

async function signOut(page) {
  await page.click('#account-button');
  await page.click('#sign-out');
  await card(page);
}

await check('the card says what the user came for, and has the field with the focus', async () => {
  for (const [address, text] of [
    ['', 'Sign in to see the tools of this server.'],
    ['#approval=no-such', 'Sign in to answer the request for approval no-such.'],
    ['#tool=shop__wipe', 'Sign in to see the tool shop__wipe.'],
    ['#tool=%3Cb%3Enone%3C%2Fb%3E', 'Sign in to see the tool <b>none</b>.'],
    [`#tool=${'x'.repeat(200)}`, `Sign in to see the tool ${'x'.repeat(80)}….`],
    ['#/approvals', 'Sign in to see the requests for approval.'],
    ['#/sources/shop', 'Sign in to see the source shop.'],
    ['#/record', 'Sign in to see the record.'],
    ['#/access', 'Sign in to see who may do what.'],
    ['#/connections', 'Sign in to see the accounts that your tools act with.'],
    ['#/connections/clients', 'Sign in to see the clients that act for you.'],
    [`#/connect/${'x'.repeat(43)}`, 'Sign in to connect an account.'],
    ['#/connect', 'Sign in to connect a client.'],
  ]) {
    const { page, close } = await visit(address);
    await card(page);
    equal(await page.textContent('#sign-in-purpose'), text, address);
    await page.waitForFunction(() => document.activeElement.id === 'token');
    equal(await page.locator('#signin #auth').count(), 1, 'the form in the card');
    const field = page.locator('#token');
    equal(await field.getAttribute('autocomplete'), 'current-password', 'autocomplete');
    equal(await field.getAttribute('type'), 'password', 'type');
    equal(await page.getAttribute('#auth [autocomplete=username]', 'value'), 'toolcrib', 'the name for password managers');
    equal(await page.textContent('#signin h2'), 'Sign in', 'heading');
    await close();
  }
  const { page, close } = await visit('#tool=shop__echo');
  await page.waitForFunction(() => document.activeElement.id === 'token');
  await page.keyboard.type('tc_wrong');
  await page.evaluate(() => {
    location.hash = '#/record';
  });
  await page.getByText('Sign in to see the record.').waitFor();
  equal(await page.inputValue('#token'), 'tc_wrong', 'what was typed, after another address');
  await page.keyboard.press('Enter');
  await page.getByText('This key was not accepted').waitFor();
  equal(await page.textContent('#token-badge'), 'Key rejected', 'badge');
  await page.waitForFunction(() => document.activeElement.id === 'token');
  await close();
});

await check('without the choice the key is gone after a reload', async () => {
  const { page, close } = await visit();
  await signIn(page, KEYS.ada);
  equal(await stored(page), null, 'stored');
  equal(await page.context().cookies(), [], 'cookies');
  await page.reload();
  await card(page);
  await close();
});

await check('a session survives a reload, a new tab and Ctrl-click', async () => {
  const { page, close } = await visit('#/approvals');
  await staySignedIn(page, KEYS.ada);
  equal(await person(page), 'ada@default', 'the person');
  const cookies = await page.context().cookies();
  equal(cookies.length, 1, 'cookies');
  const [{ name, httpOnly, sameSite, path }] = cookies;
  equal([name, httpOnly, sameSite, path], [`toolcrib-session-${new URL(server.url).port}`, true, 'Strict', '/'], 'the cookie');
  equal(await page.evaluate(() => document.cookie), '', 'what scripts see of it');
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href]));
  truthy(!kept.includes(KEYS.ada), 'the key is stored');
  equal(await page.inputValue('#token'), '', 'the field');
  await page.reload();
  equal(await person(page), 'ada@default', 'after a reload');
  await page.waitForSelector('.approvals-screen');
  const other = await tab(page, '#tool=shop__echo');
  equal(await person(other), 'ada@default', 'in a new tab');
  await other.waitForSelector('.tool h2');
  const [clicked] = await Promise.all([
    page.context().waitForEvent('page'),
    page.click('.section[data-section="connect"]', { modifiers: ['ControlOrMeta'] }),
  ]);
  equal(await person(clicked), 'ada@default', 'after Ctrl-click');
  equal(new URL(clicked.url()).hash, '#/connect', 'address');
  await page.click('#account-button');
  const menu = await page.textContent('.menu');
  truthy(/Signed in with\s*key\s*\S+, in all tabs of this browser/.test(menu), menu);
  truthy(/Expires\s*in \d+ (hours|minutes)/.test(menu), menu);
  equal(await page.locator('#stay-signed-in').count(), 0, 'the offer to stay');
  // A call and the MCP endpoint work without a key, too.
  const status = await other.evaluate(async () => {
    const headers = { 'Toolcrib-Session': localStorage.getItem('toolcrib-session'), 'Content-Type': 'application/json' };
    const call = await fetch('/explorer/tools/shop__echo/call', { method: 'POST', headers, body: '{"text":"hi"}' });
    return call.status;
  });
  equal(status, 200, 'a call');
  await close();
});

await check('a tab that is signed in with a key can stay signed in later', async () => {
  const { page, close } = await visit();
  await signIn(page, KEYS.ada);
  await page.click('#account-button');
  await page.click('#stay-signed-in');
  await page.getByText('in all tabs of this browser').waitFor();
  await page.reload();
  equal(await person(page), 'ada@default', 'after a reload');
  await close();
});

await check('signing out in one tab ends the session in all, and on the server', async () => {
  const { page, close } = await visit();
  await staySignedIn(page, KEYS.ada);
  const other = await tab(page, '#tool=shop__echo');
  await other.waitForSelector('.tool h2');
  const secret = await stored(page);
  const [cookie] = await page.context().cookies();
  const thief = { 'Toolcrib-Session': secret, Cookie: `${cookie.name}=${cookie.value}` };
  const steal = async () => (await fetch(`${server.url}/v1/whoami`, { headers: thief })).status;
  equal(await steal(), 200, 'a copy of both halves before the sign-out');
  await signOut(page);
  await card(other);
  equal(await other.locator('.section, .tool, button.item').count(), 0, 'what the other tab shows');
  await until('the server has ended it', async () => (await steal()) === 401);
  await until('the cookie is gone', async () => (await page.context().cookies()).length === 0);
  equal(await stored(page), null, 'stored');
  await page.reload();
  await card(page);
  equal(await page.locator('#sign-in-problem').count(), 0, 'problems');
  await close();
});

await check('another person in one tab replaces the first in all', async () => {
  const { page, close } = await visit('#/access/sessions');
  await staySignedIn(page, KEYS.boss);
  await page.waitForSelector('[data-session]');
  const other = await tab(page);
  equal(await person(other), 'boss@default', 'before');
  await signOut(page);
  await card(other);
  await staySignedIn(page, KEYS.bob);
  equal(await person(other), 'bob@default', 'in the other tab');
  await page.waitForSelector('[data-session]');
  equal(await page.locator('[data-session]').count(), 1, 'own sessions alone');
  truthy((await page.textContent('[data-session]')).includes('bob'), 'the person');
  // A tab with a key of its own keeps it.
  const own = await openSignedIn(browser, server.url, '', KEYS.ada, complaints);
  equal(await person(own.page), 'ada@default', 'another browser');
  await own.close();
  await close();
});

await check('Access lists who stays signed in, and ends it', async () => {
  const ada = await visit();
  await staySignedIn(ada.page, KEYS.ada);
  const boss = await visit('#/access/sessions');
  await staySignedIn(boss.page, KEYS.boss);
  const own = boss.page.locator('[data-session]', { hasText: 'this browser' });
  await own.waitFor();
  const row = boss.page.locator('[data-session]', { hasText: 'ada' }).last();
  const text = await row.textContent();
  truthy(/Chrome on Linux/.test(text) && /key/.test(text), text);
  const id = await row.getAttribute('data-session');
  await row.getByRole('button', { name: 'End' }).click();
  truthy(
    (await boss.page.textContent('dialog')).includes('This signs ada out at once: Chrome on Linux. The key or token stays valid.'),
    await boss.page.textContent('dialog'),
  );
  await boss.page.click('[data-confirm="end"]');
  await boss.page.waitForFunction((it) => !document.querySelector(`[data-session="${it}"]`), id);
  // At the latest with the next request, ada sees the card.
  await ada.page.click('#refresh');
  await card(ada.page);
  equal(
    await ada.page.textContent('#sign-in-problem'),
    'Your sign-in has expired or was revoked. Sign in again to continue where you were.',
    'what the card says',
  );
  equal(await stored(ada.page), null, 'stored');
  const { data } = await api(KEYS.boss, 'GET', '/v1/events?limit=100');
  const ended = data.events.map((it) => it.event ?? it).filter((it) => it.type === 'sign-in.ended');
  truthy(ended.some((it) => it.payload.by === 'boss' && it.payload.sessionId === id), JSON.stringify(ended));
  // One's own: it signs out.
  await own.getByRole('button', { name: 'End' }).click();
  truthy((await boss.page.textContent('dialog')).includes('This signs you out in all tabs of this browser.'), 'the dialog');
  await boss.page.click('[data-confirm="end"]');
  await card(boss.page);
  await ada.close();
  await boss.close();
});

await check('a revoked key ends the sessions that it made', async () => {
  const key = server.keyOf('eve', ['shop:use']);
  const { page, close } = await visit();
  await staySignedIn(page, key);
  const { data } = await api(KEYS.boss, 'GET', '/v1/keys');
  const { id } = data.keys.find((it) => it.principal === 'eve');
  equal((await api(KEYS.boss, 'DELETE', `/v1/keys/${id}`)).status, 200, 'revoked');
  // At the latest after this: the page may notice it by itself, and then hides the button.
  await page.evaluate(() => document.querySelector('#refresh')?.click());
  await card(page);
  await page.reload();
  await card(page);
  await close();
});

/** Serves `html` on another port, and counts what the page there could read. */
async function otherOrigin(html) {
  const requests = [];
  const site = createServer((request, response) => {
    requests.push(request.headers.cookie ?? '');
    response.setHeader('Content-Type', 'text/html');
    response.end(html);
  });
  await new Promise((resolve) => site.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${site.address().port}`, requests, close: () => site.close() };
}

await check('a page of another origin can neither read nor write, nor show this one', async () => {
  const { page, close } = await visit();
  await staySignedIn(page, KEYS.boss);
  const before = (await api(KEYS.boss, 'GET', '/v1/keys')).data.keys.length;
  const site = await otherOrigin(`<!doctype html><title>other</title>
    <form id="form" method="post" enctype="text/plain" action="${server.url}/v1/keys" target="sink">
      <input name='{"name":"planted","scopes":["*"],"x":"' value='"}'></form>
    <iframe name="sink"></iframe><iframe id="frame" src="${explorer}"></iframe>`);
  // Another port of the same host is the same site for cookies: the browser sends them there.
  const evil = await page.context().newPage();
  await evil.goto(site.url);
  truthy(site.requests.some((it) => it.includes('toolcrib-session')), 'the browser keeps the cookie from other ports');
  const stolen = site.requests[0];
  const replies = await evil.evaluate(async (target) => {
    const tried = [];
    for (const [method, path, headers] of [
      ['GET', '/v1/whoami', {}],
      ['GET', '/v1/whoami', { 'Toolcrib-Session': 'A'.repeat(43) }],
      ['POST', '/v1/keys', { 'Content-Type': 'application/json' }],
      ['DELETE', '/v1/sessions/current', {}],
    ]) {
      for (const mode of ['cors', 'no-cors']) {
        try {
          const body = method === 'POST' ? '{"name":"planted","scopes":["*"]}' : undefined;
          const reply = await fetch(target + path, { method, mode, headers, body, credentials: 'include' });
          tried.push(reply.type === 'opaque' ? 'opaque' : reply.status);
        } catch {
          tried.push('refused');
        }
      }
    }
    document.getElementById('form').submit();
    return [tried, localStorage.length];
  }, server.url);
  equal(replies[0].filter((it) => it !== 'refused' && it !== 'opaque'), [], 'answers that it could read');
  equal(replies[1], 0, 'what it finds in storage');
  // The program behind that port has the cookie, and can do nothing with it.
  const reply = await fetch(`${server.url}/v1/whoami`, { headers: { Cookie: stolen } });
  equal(reply.status, 401, 'the stolen cookie');
  const frame = await evil.waitForSelector('#frame');
  const inside = await frame.contentFrame();
  truthy((await inside.$('#signin, .section')) === null, 'the page is in a frame');
  await evil.close();
  equal((await api(KEYS.boss, 'GET', '/v1/keys')).data.keys.length, before, 'keys');
  await page.reload();
  equal(await person(page), 'boss@default', 'the session');
  site.close();
  await close();
});

await check('a planted cookie signs nobody in', async () => {
  const attacker = await visit();
  await staySignedIn(attacker.page, KEYS.bob);
  const [planted] = await attacker.page.context().cookies();
  const { page, close } = await visit();
  await page.context().addCookies([planted]);
  await page.reload();
  await card(page);
  // A sign-in replaces it, and only the server makes the new one.
  await staySignedIn(page, KEYS.ada);
  equal(await person(page), 'ada@default', 'the person');
  const [made] = await page.context().cookies();
  truthy(made.value !== planted.value, 'the cookie is the planted one');
  // Planted later, it ends the use of the session instead of changing the person.
  await page.context().addCookies([planted]);
  await page.reload();
  await card(page);
  await close();
  await attacker.close();
});

await check('the link of the demo signs in once, and leaves the address', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'toolcrib-browser-'));
  const env = { ...process.env };
  delete env.TOOLCRIB_URL;
  const words = ['serve', '--demo', '--listen', '127.0.0.1:0', '--no-history', '--data-dir', 'data'];
  const child = spawn(program, words, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (log += data));
  try {
    const link = await until('the link is printed', () => /sign in +(http\S+#sign-in=[\w-]{43})/.exec(log)?.[1]);
    const url = new URL(link).origin;
    const secret = link.split('=')[1];
    truthy(log.includes('as admin; the link works once, within 15 minutes'), log);
    // The root leads to the page, with its link.
    const sent = [];
    const { page, close } = await visit('', `${url}/`);
    equal(page.url(), `${url}/explorer/`, 'where the root leads');
    await card(page);
    page.on('request', (request) => sent.push(`${request.url()} ${request.headers().referer ?? ''}`));
    await page.goto(link);
    equal(await person(page), 'admin@demo', 'the person');
    equal(page.url(), `${url}/explorer/`, 'the address after it');
    truthy(sent.length > 0 && !sent.some((it) => it.includes(secret)), 'a request has the secret in its address');
    await page.reload();
    equal(await person(page), 'admin@demo', 'after a reload');
    const again = await visit('', link);
    await card(again.page);
    await again.page.waitForSelector('#sign-in-problem');
    equal(
      await again.page.textContent('#sign-in-problem'),
      'This link was used already, or it has expired. Sign in with a key.',
      'what the card says',
    );
    equal(again.page.url(), `${url}/explorer/`, 'the address');
    equal(log.split(secret).length, 2, 'how often the secret is printed');
    await again.close();
    await close();
  } finally {
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true, force: true });
  }
});

await check('a server can keep nobody signed in', async () => {
  const other = await startShop('', '[explorer]\nsession_lifetime = "0s"');
  const { page, close } = await visit('', `${other.url}/explorer`);
  await card(page);
  equal(await page.isVisible('#stay'), false, 'the choice');
  truthy((await page.textContent('#signin')).includes('This page forgets it when you close or reload it.'), 'the text');
  await close();
  await other.stop();
});

// The other origin's attempts are refused, which the browser says in its console.
await check('no page of this script complained', () => equal(complaints, [], 'complaints'));
await browser.close();
await server.stop();
await finish();

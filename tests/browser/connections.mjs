// People connect their own accounts at a service: by the link of a refused call and from the list, with a
// key that only the tab has and with a session, and the ways in which it is refused.
//
//   TOOLCRIB_PROGRAM=…/toolcrib node connections.mjs
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import { join } from 'node:path';
import { outOfSight } from './layout.mjs';
import { check, equal, finish, launch, openPage, signIn, startSession, truthy, until } from './lib.mjs';
import { startService } from './notes-service.mjs';
import { program, startServer } from './own-server.mjs';

/** The address of the server has to be known before it starts, because it is in its configuration. */
const port = await new Promise((resolve) => {
  const probe = net.createServer().listen(0, '127.0.0.1', () => {
    const { port: free } = probe.address();
    probe.close(() => resolve(free));
  });
});
const service = await startService();
const host = new URL(service.url).host;
const server = await startServer(
  `[server]
public_url = "http://127.0.0.1:${port}"

[store]
seal_key = { file = "seal.key" }

[[source]]
id = "notes"
kind = "mcp"
url = "${service.url}"
tenants = ["default"]
[source.oauth]
of = "principal"
scope_texts = { "notes:read" = "read your notes" }
[source.tools."*"]
scopes = ["notes:use"]
safety_tier = "pure"
`,
  { 'seal.key': randomBytes(32).toString('base64') },
  `127.0.0.1:${port}`,
);
const keyOf = (name, ...scopes) =>
  server.key('--name', name, '--principal', name, '--tenant', 'default', ...scopes.flatMap((it) => ['--scope', it]));
const keys = {
  olga: keyOf('olga', 'notes:use', 'connections:manage'),
  ada: keyOf('ada', 'notes:use'),
  ben: keyOf('ben', 'notes:use'),
  eve: keyOf('eve', 'notes:use'),
};

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const browser = await launch();
const all = [];
/** A page of a new browser; with `key` the person stays signed in there. */
const visit = async (address, key, options) => {
  const opened = await openPage(browser, options);
  if (key !== undefined) await startSession(opened.page, server.url, key);
  await opened.page.goto(address.startsWith('http') ? address : `${server.url}/explorer${address}`);
  return { page: opened.page, close: () => (all.push(...opened.complaints), opened.close()) };
};
const call = async (who) => {
  const reply = await fetch(`${server.url}/explorer/tools/notes__whoami/call`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${keys[who]}`, 'Content-Type': 'application/json' },
    body: '{}',
  });
  return { status: reply.status, data: await reply.json() };
};
const listed = async (who) => {
  const reply = await fetch(`${server.url}/v1/connections`, { headers: { Authorization: `Bearer ${keys[who]}` } });
  return (await reply.json()).connections;
};
const linkOf = async (who) => {
  const { status, data } = await call(who);
  equal(status, 403, 'status of a call without an account');
  const { link } = data.details;
  truthy(/#\/connect\/[\w-]{43}$/.test(link), JSON.stringify(data));
  return link;
};
/** At the service: signs in as `person` and agrees. */
const agree = async (page, person) => {
  await page.fill('#person', person);
  await page.click('#agree');
};
/** Requires that a page is accessible, in a window and on a phone. */
const accessible = async (page, what) => {
  const size = page.viewportSize();
  await page.evaluate(axe);
  for (const viewport of [{ width: 1280, height: 860 }, { width: 390, height: 800 }]) {
    await page.setViewportSize(viewport);
    const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
    equal(violations.map(({ id, nodes }) => [id, nodes[0].target]), [], `violations of ${what} at ${viewport.width} px`);
    equal(await page.evaluate(outOfSight), [], `what is out of sight of ${what} at ${viewport.width} px`);
  }
  await page.setViewportSize(size);
};
const DONE = 'Connected. You can go back to your agent.';
const done = async (page) => {
  await page.waitForSelector('#connection-done');
  equal((await page.textContent('#connection-done')).trim(), DONE, 'the last sentence');
  truthy(page.url().endsWith('/explorer#/connected'), `the address is ${page.url()}`);
  equal(await page.evaluate(() => sessionStorage.length), 0, 'what the tab keeps');
  await accessible(page, 'the end of a connection');
};

await check('an administrator connects the account of the tenant, and the tools appear', async () => {
  equal((await listed('olga')).map((it) => [it.source, it.of, it.state]).sort(), [['notes', 'principal', 'absent'], ['notes', 'tenant', 'absent']], 'connections');
  const { page, close } = await visit('#/connections', keys.olga);
  await page.click('tr[data-of="tenant"] [data-connect]');
  await page.waitForSelector('#connection-sentence');
  truthy((await page.textContent('#connection-sentence')).includes('are listed with this account'), 'the sentence is another');
  await page.click('#connect-account');
  await agree(page, 'the team');
  await done(page);
  // Not as ada: who is refused very often gets no link for a while.
  await until('the tool is listed', async () => (await call('olga')).status === 403);
  await close();
});

let connectedByAda;
await check('a person connects with the link of a call, and signs in on the way and back', async () => {
  const link = await linkOf('ada');
  connectedByAda = link;
  const { page, close } = await visit(link);
  await page.waitForSelector('#signin');
  equal(await page.textContent('#sign-in-purpose'), 'Sign in to connect an account.', 'purpose');
  await signIn(page, keys.ada);
  await page.waitForSelector('#connection-sentence');
  const sentence = (await page.textContent('#connection-sentence')).replace(/\s+/g, ' ').trim();
  equal(sentence, `The tools of notes that you or your agents call then act with your account at ${host}. Calls of other people never use it.`, 'the sentence');
  truthy((await page.textContent('[data-consent]')).includes('ada'), 'the person is not named');
  equal((await page.textContent('#connection-servers')).trim(), host, 'where the person signs in');
  equal((await page.textContent('#connection-scopes')).replace(/\s+/g, ' ').trim(), 'read your notes notes:read', 'the access');
  equal(service.seen.filter(({ path }) => path === '/authorize').length, 2, 'nothing is asked before the click');
  await page.click('#connect-account');
  await agree(page, 'ada@notes');
  // The key was in the memory of the page, which is gone.
  await page.waitForSelector('#signin');
  equal(await page.textContent('#sign-in-purpose'), 'Sign in to finish the connection of your account.', 'purpose');
  truthy(!/code|state/.test(page.url()), `the address is ${page.url()}`);
  await signIn(page, keys.ada);
  await done(page);
  const { status, data } = await call('ada');
  equal([status, data.content?.[0]?.text], [200, 'This is the account of ada@notes.'], 'the call');
  await close();
});

await check('another person connects from the list, and each call has the account of its caller', async () => {
  const { page, close } = await visit('#/connections', keys.ben);
  const row = page.locator('tr[data-connection="notes"]');
  truthy((await row.textContent()).includes('not connected'), 'the state before');
  await row.locator('[data-connect]').click();
  await page.click('#connect-account');
  await agree(page, 'ben@notes');
  await done(page);
  await page.click('text=Your connections');
  truthy((await row.textContent()).includes('connected'), 'the state after');
  for (const who of ['ada', 'ben', 'ada'])
    equal((await call(who)).data.content?.[0]?.text, `This is the account of ${who}@notes.`, `the call of ${who}`);
  equal((await listed('ben')).length, 1, 'connections that ben sees');
  // The first use shows when the list is read again.
  truthy((await row.textContent()).includes('not yet'), 'the last use before');
  await page.reload();
  await until('the last use shows', async () => !(await row.textContent()).includes('not yet'));
  await row.locator('summary').click();
  const needing = (await row.locator('[data-needing]').innerText()).replace(/\s+/g, ' ').trim();
  equal(needing, '1 tool notes__whoami', 'the tools that need the account');
  await close();
});

await check('the link of another person, and a used one, are refused with the same sentence', async () => {
  const link = await linkOf('eve');
  for (const [address, key] of [[link, keys.ben], [connectedByAda, keys.ada], [`#/connect/${'A'.repeat(43)}`, keys.ben]]) {
    const { page, close } = await visit(address, key);
    await page.waitForSelector('#connection-refused');
    equal(
      (await page.textContent('#connection-refused')).replace(/\s+/g, ' ').trim(),
      'It was used already, is older than ten minutes, or is for another person: make the same call again for a new one.',
      'the sentence',
    );
    equal(await page.locator('#connect-account').count(), 0, 'buttons to connect');
    await close();
  }
  // It still works for its owner.
  const { page, close } = await visit(link, keys.eve);
  await page.waitForSelector('#connect-account');
  await close();
});

await check('a response is finished neither by another person nor in another browser', async () => {
  for (const who of ['ben', 'eve']) {
    const { page, close } = await visit(await linkOf('eve'), keys.eve);
    await page.click('#connect-account');
    await page.waitForSelector('#agree');
    const agreed = await fetch(page.url(), { method: 'POST', redirect: 'manual', body: new URLSearchParams({ person: 'eve@notes', verdict: 'agree' }) });
    await close();
    const other = await visit(agreed.headers.get('location'), keys[who]);
    await other.page.waitForSelector('#screen .problem-box');
    const said = await other.page.textContent('#screen .problem-box');
    truthy(said.includes('belongs to no request of this browser'), said);
    truthy(!/code|state/.test(other.page.url()), `the address is ${other.page.url()}`);
    await other.close();
  }
  equal((await call('eve')).status, 403, 'the call of eve');
  equal((await call('ben')).data.content?.[0]?.text, 'This is the account of ben@notes.', 'the call of ben');
});

await check('a refusal at the service changes nothing and is said', async () => {
  const { page, close } = await visit(await linkOf('eve'), keys.eve);
  await page.click('#connect-account');
  await page.click('#refuse');
  await page.waitForSelector('#screen .problem-box');
  truthy((await page.textContent('#screen')).includes('Nothing has changed'), 'it is not said');
  await accessible(page, 'the refusal');
  equal((await listed('eve'))[0].state, 'absent', 'the state');
  await close();
});

await check('a tool that needs an account leads to the connection', async () => {
  const { page, close } = await visit('#tool=notes__whoami', keys.eve);
  await page.click('[data-action="execute"]');
  await page.click('[data-connect-account]');
  await page.waitForSelector('#connection-sentence');
  await close();
});

await check('a person disconnects, and the next call asks again', async () => {
  const { page, close } = await visit('#/connections', keys.ben);
  await page.click('[data-disconnect]');
  await page.click('[data-confirm="disconnect"]');
  await page.getByText('not connected').waitFor();
  equal((await call('ben')).status, 403, 'the call of ben');
  equal((await call('ada')).status, 200, 'the call of ada');
  await until('the tokens are revoked', () => ![...service.people.values()].includes('ben@notes'));
  await close();
});

await check('the command line makes a link, waits for the person, lists and disconnects', async () => {
  const command = (...words) => {
    const child = spawn(program, ['connections', ...words], {
      env: { ...process.env, TOOLCRIB_URL: server.url, TOOLCRIB_KEY: keys.ben },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const ran = { out: '', err: '' };
    child.stdout.on('data', (data) => (ran.out += data));
    child.stderr.on('data', (data) => (ran.err += data));
    ran.end = new Promise((resolve) => child.once('close', resolve));
    return ran;
  };
  const connect = command('connect', 'notes');
  const link = await until('the link', () => /http\S+#\/connect\/[\w-]{43}/.exec(connect.out)?.[0]);
  const { page, close } = await visit(link, keys.ben);
  await page.click('#connect-account');
  await agree(page, 'ben@notes');
  await done(page);
  equal(await connect.end, 0, `the exit code (${connect.err})`);
  truthy(connect.err.includes('the account at `notes` is connected'), connect.err);
  const list = command('list', '--json');
  equal([await list.end, JSON.parse(list.out).map((it) => [it.source, it.principal, it.state])], [0, [['notes', 'ben', 'active']]], 'the list');
  const all = command('list', '--all');
  equal(await all.end, 1, 'the exit code of --all without the scope');
  truthy(all.err.includes('connections:manage'), all.err);
  const removed = command('disconnect', 'notes');
  equal([await removed.end, removed.err], [0, 'disconnected\n'], 'the disconnection');
  const again = command('disconnect', 'notes');
  equal(await again.end, 1, 'the exit code of a second one');
  truthy(again.err.includes('no account is connected to `notes`'), again.err);
  const called = command('connect', 'nothing');
  equal(await called.end, 1, 'the exit code for another source');
  truthy(called.err.includes('connections list'), called.err);
  await close();
});

await check('an administrator sees and disconnects the accounts of all people', async () => {
  const { page, close } = await visit('#/connections/all', keys.olga);
  await page.locator('tr', { hasText: 'ada' }).waitFor();
  equal(await page.locator('tr[data-connection]').count(), 2, 'accounts');
  await page.locator('tr', { hasText: 'ada' }).locator('[data-disconnect]').click();
  await page.click('[data-confirm="disconnect"]');
  await until('the call is refused', async () => (await call('ada')).status === 403);
  await close();
  const other = await visit('#/connections/all', keys.ada);
  await other.page.waitForSelector('.screen .empty');
  truthy((await other.page.textContent('.screen')).includes('connections:manage'), 'the scope is not named');
  await other.close();
});

await check('the screens are accessible, also on a phone', async () => {
  for (const [address, ready] of [['#/connections', 'tr[data-connection]'], ['#/connections/new/notes', '#connect-account'], ['#/connected', '.empty'], [`#/connect/${'B'.repeat(43)}`, '#connection-refused']]) {
    const { page, close } = await visit(address, keys.olga);
    await page.waitForSelector(ready);
    await accessible(page, address);
    await close();
  }
});

await check('neither the log nor the store has a token, a code or a link', async () => {
  const texts = [server.log()];
  for (const file of readdirSync(server.folder, { recursive: true, withFileTypes: true }))
    if (file.isFile()) texts.push(readFileSync(join(file.parentPath, file.name), 'latin1'));
  const secret = connectedByAda.slice(-43);
  for (const text of texts) {
    truthy(!/(access|renewal|code)-[0-9a-f]{32}/.test(text), 'a secret of the service is kept');
    truthy(!text.includes(secret), 'a link is kept');
  }
  equal(service.seen.filter(({ referer }) => referer !== undefined && referer.includes('/explorer')), [], 'referers at the service');
});

await check('nothing was blocked, and no error was logged', () => equal(all, [], 'complaints'));

await browser.close();
await server.stop();
await service.stop();
finish();

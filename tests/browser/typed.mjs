// What a person has typed survives the end of the sign-in, for the same person and no other: arguments of
// a tool, and the forms of Sources, Access and Connect.
//
//   TOOLCRIB_PROGRAM=target/debug/toolcrib node typed.mjs
import { check, equal, finish, launch, signIn, truthy, until } from './lib.mjs';
import { openSignedIn, startShop } from './own-server.mjs';

const server = await startShop('', '\n[[role]]\nname = "clerk"\nscopes = ["shop:use"]\n');
const SCOPES = ['shop:use', 'config:write', 'sources:*', 'roles:read', 'keys:manage'];
const root = server.keyOf('root', ['*']);
const bob = server.keyOf('bob', SCOPES);
const browser = await launch();
const complaints = [];

async function api(key, method, path, body) {
  const reply = await fetch(`${server.url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return { status: reply.status, data: await reply.json() };
}
await until('the tools', async () => JSON.stringify((await api(root, 'GET', '/v1/tools')).data).includes('wipe'));

/** A new key of ada; `revoke` ends it. */
async function adasKey() {
  const key = server.keyOf('ada', SCOPES);
  const id = await until('the key works', async () => (await api(key, 'GET', '/v1/whoami')).data.keyId);
  return { key, revoke: () => api(root, 'DELETE', `/v1/keys/${id}`) };
}

/** Each place with a field: how it is opened there, and its field. */
const PLACES = [
  { name: 'the arguments of a tool', at: '#tool=shop__echo', field: '[data-path="/text"] textarea' },
  {
    name: 'the arguments of a tool as JSON',
    at: '#tool=shop__add',
    open: (page) => page.click('[data-mode="json"]'),
    field: 'textarea.json',
    text: '{"a": 1, "b": "half a',
  },
  { name: 'a new source', at: '#/sources', open: (page) => page.click('#add-source'), field: '#source-name', text: 'half' },
  {
    name: 'a change of a source',
    at: '#/sources/shop',
    open: (page) => page.click('[data-change]'),
    field: 'dialog [aria-label="Another key"]',
  },
  {
    name: 'a rule',
    at: '#/sources/shop',
    open: (page) => page.click('[data-add-rule]'),
    field: 'dialog [placeholder="delete_*"]',
  },
  { name: 'a toolset', at: '#/sources', open: (page) => page.click('#add-toolset'), field: 'dialog [placeholder^="files__"]' },
  { name: 'a new role', at: '#/access/roles', open: (page) => page.click('#new-role'), field: 'dialog textarea' },
  { name: 'a new key', at: '#/access', open: (page) => page.click('#new-key'), field: 'dialog [placeholder^="files"]' },
  { name: 'a key for a client', at: '#/connect/cursor', field: '.steps input' },
];

for (const { name, at, open, field, text = 'half a sentence' } of PLACES) {
  await check(`${name}: the text is there after the key was revoked and the same person has signed in again`, async () => {
    const first = await adasKey();
    const { page, close } = await openSignedIn(browser, server.url, at, first.key, complaints);
    await open?.(page);
    await page.fill(field, text);
    await first.revoke();
    await page.waitForSelector('#signin');
    equal(await page.locator(field).count(), 0, 'the field without a sign-in');
    truthy(!(await page.evaluate(() => document.documentElement.outerHTML)).includes(text), 'the text is in the document without a sign-in');
    const second = await adasKey();
    await signIn(page, second.key);
    await page.waitForSelector(field);
    equal(await page.inputValue(field), text, 'the text for the same person');

    // Somebody else finds nothing, and neither does the first person after that.
    await second.revoke();
    await page.waitForSelector('#signin');
    await signIn(page, bob);
    await page.waitForSelector('#account-button');
    const shows = async () => {
      await page.waitForFunction(() => !document.querySelector('.skeleton, .ghost'));
      if ((await page.locator(field).count()) === 0) await open?.(page);
      return page.inputValue(field);
    };
    truthy((await shows()) !== text, `somebody else sees “${text}”`);
    await page.keyboard.press('Escape');
    await page.click('#account-button');
    await page.click('#sign-out');
    await page.waitForSelector('#signin');
    await signIn(page, (await adasKey()).key);
    truthy((await shows()) !== text, 'the text is there after another person was signed in');
    await close();
  });
}

await check('the arguments of a tool survive the end of a session, too', async () => {
  const { key } = await adasKey();
  const { page, close } = await openSignedIn(browser, server.url, '#tool=shop__echo', key, complaints);
  await page.click('#account-button');
  await page.click('#stay-signed-in');
  await page.locator('#stay-signed-in').waitFor({ state: 'detached' });
  await page.keyboard.press('Escape');
  const field = '[data-path="/text"] textarea';
  await page.fill(field, 'half a sentence');
  const { sessions } = (await api(root, 'GET', '/v1/sessions')).data;
  for (const { id } of sessions) await api(root, 'DELETE', `/v1/sessions/${id}`);
  await page.getByText('Your sign-in has expired or was revoked.').waitFor();
  await signIn(page, key);
  await page.waitForSelector(field);
  equal(await page.inputValue(field), 'half a sentence', 'the text for the same person');
  await close();
});

await check('a form that is closed begins anew, and so do arguments after a sign-out', async () => {
  const { key } = await adasKey();
  const { page, close } = await openSignedIn(browser, server.url, '#/access/roles', key, complaints);
  await page.click('#new-role');
  await page.fill('dialog textarea', 'half');
  await page.keyboard.press('Escape');
  await page.click('#new-role');
  equal(await page.inputValue('dialog textarea'), '', 'the text after closing the form');
  await page.keyboard.press('Escape');
  await page.evaluate(() => (location.hash = '#tool=shop__echo'));
  await page.fill('[data-path="/text"] textarea', 'half');
  await page.click('#account-button');
  await page.click('#sign-out');
  await page.waitForSelector('#signin');
  await signIn(page, key);
  await page.waitForSelector('[data-path="/text"] textarea');
  equal(await page.inputValue('[data-path="/text"] textarea'), '', 'the argument after a sign-out');
  await close();
});

await check('no page of this script complained', () => equal(complaints.filter((it) => !/status of 401/.test(it)), [], 'complaints'));
await browser.close();
await server.stop();
await finish();

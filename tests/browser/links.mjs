// Links: names lead to what they name, where the reader may open it; and a link to something that is gone,
// of another tenant or unknown says the same to a reader who may not know which of these it is.
//
//   TOOLCRIB_PROGRAM=target/debug/toolcrib node links.mjs
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { check, equal, finish, launch, openPage, signIn, truthy, until } from './lib.mjs';
import { openSignedIn, program, startServer } from './own-server.mjs';

const source = (id, tenant, role) => `
[[source]]
id = "${id}"
kind = "mcp"
command = [${JSON.stringify(program)}, "demo-upstream"]
tenants = ["${tenant}"]

[source.tools."*"]
scopes = ["${id}:use"]

[source.tools."wipe"]
scopes = ["${id}:use"]
approval = "always"

[[role]]
name = "${role}"
scopes = ["${id}:use"]
`;
const LASTING = source('shop', 'default', 'clerk') + source('depot', 'other', 'packer');
const server = await startServer(LASTING + source('former', 'default', 'veteran'));
const keyOf = (name, scopes, tenant = 'default') =>
  server.key('--name', name, '--principal', name, '--tenant', tenant, ...scopes.flatMap((it) => ['--scope', it]));
/** The roles of the demo. */
const KEYS = {
  caller: keyOf('caller', ['shop:use']),
  approver: keyOf('approver', ['approvals:respond']),
  auditor: keyOf('auditor', ['audit:read', 'sources:read']),
  admin: keyOf('admin', ['*']),
  other: keyOf('other', ['*'], 'other'),
};
const ROLES = [...Object.keys(KEYS), 'anonymous'];
const browser = await launch();
const complaints = [];

async function api(role, method, path, body) {
  const headers = { Authorization: `Bearer ${KEYS[role]}`, 'Content-Type': 'application/json' };
  const reply = await fetch(`${server.url}${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  return { status: reply.status, data: await reply.json() };
}
const as = (role, address) => openSignedIn(browser, server.url, address, KEYS[role], complaints);
const names = async (role) => JSON.stringify((await api(role, 'GET', '/v1/tools')).data);
const ask = async (role, tool) => (await api(role, 'POST', `/explorer/tools/${tool}/call`, { target: 'x' })).data.details.approvalId;
const runOf = async (role) => (await api(role, 'GET', '/v1/events?limit=1')).data.events[0].event.runId;
const newKey = async (role, name) => (await api(role, 'POST', '/v1/keys', { name, scopes: ['x:y'] })).data.id;

await until('the tools', async () =>
  (await names('admin')).includes('former') && (await names('admin')).includes('shop') && (await names('other')).includes('depot'),
);
const NONE = 'aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee';
const asked = await ask('caller', 'shop__wipe');
const answered = await ask('caller', 'shop__wipe');
await api('approver', 'POST', `/v1/approvals/${answered}`, { verdict: 'reject', comment: 'no' });
const revoked = await newKey('admin', 'revoked');
await api('admin', 'DELETE', `/v1/keys/${revoked}`);
/** For each kind: its address, and one that is there, one of another tenant, and one that is gone. */
const KINDS = {
  request: { at: (id) => `#/approvals/${id}`, own: asked, foreign: await ask('other', 'depot__wipe'), gone: answered },
  run: { at: (id) => `#/record/run/${id}`, own: await runOf('admin'), foreign: await runOf('other') },
  tool: { at: (id) => `#tool=${id}`, own: 'shop__echo', foreign: 'depot__echo', gone: 'former__echo' },
  source: { at: (id) => `#/sources/${id}`, own: 'shop', foreign: 'depot', gone: 'former' },
  key: { at: (id) => `#/access/keys/${id}`, own: await newKey('admin', 'own'), foreign: await newKey('other', 'foreign'), gone: revoked },
  role: { at: (id) => `#/access/roles/${id}`, own: 'clerk', foreign: 'packer', gone: 'veteran' },
};
const UNKNOWN = { request: NONE, run: NONE, tool: 'storey__echo', source: 'storey', key: NONE, role: 'stranger' };
// Objects that were removed after the link was written.
writeFileSync(join(server.folder, 'toolcrib.toml'), LASTING);
await until('the source is gone', async () => !(await names('admin')).includes('former'));

const MISSING = {
  request: 'Request not found',
  run: 'Run not found',
  tool: 'Tool not found',
  source: 'Source not found',
  key: 'Key not found',
  role: 'Role not found',
};
const CLOSED = 'Your key does not open this screen';
/** Who may open the screen of a kind. */
const OPENS = {
  request: ['caller', 'approver', 'auditor', 'admin', 'other'],
  run: ['auditor', 'admin', 'other'],
  tool: ['caller', 'approver', 'auditor', 'admin', 'other'],
  source: ['auditor', 'admin', 'other'],
  key: ['admin', 'other'],
  role: ['admin', 'other'],
};
/** Kinds whose past ones some may know, by those who may. */
const KNOWS_GONE = { request: ['caller', 'approver', 'admin'], key: ['admin'] };

/** Counted in the background at any time, for the navigation. */
const COUNTS = ['/v1/changes', '/v1/sources', '/v1/approvals?state=pending', '/explorer/tools', '/v1/whoami'];

/** What the open page says at an address, and what it requests for that, with the id replaced. */
async function visit(page, kind, id) {
  const requests = [];
  const waiting = [];
  const bare = (text) => text.replaceAll(id, 'ID').replaceAll(id.replace('__', '.'), 'ID').replaceAll(encodeURIComponent(id), 'ID');
  const timeless = (text) => text.replace(/"lastUsedAt":"[^"]*"/g, '');
  const note = (response) => {
    const path = response.url().slice(server.url.length);
    if (COUNTS.includes(path) || path.startsWith('/explorer/assets/')) return;
    waiting.push(response.text().catch(() => '').then((text) => requests.push(`${bare(path)} ${response.status()} ${timeless(bare(text))}`)));
  };
  await page.evaluate(() => (location.hash = '#/connect'));
  page.on('response', note);
  await page.evaluate((it) => (location.hash = it), KINDS[kind].at(id));
  const place = kind === 'tool' ? '#detail' : '#screen';
  await page.waitForFunction(
    ([place, kind]) => {
      const host = document.querySelector('#signin') ?? document.querySelector(place);
      const isHere = document.querySelector('#signin') || (document.body.dataset.section === 'tools') === (kind === 'tool') || document.querySelector('#screen .empty');
      return isHere && host.querySelector('h2') && !host.querySelector('.skeleton, .ghost') && !/Connect$|Loading/.test(host.querySelector('h2').textContent) && !/Loading/.test(host.textContent);
    },
    [place, kind],
  );
  await page.waitForTimeout(150);
  await Promise.all(waiting);
  page.off('response', note);
  const text = await page.evaluate((it) => (document.querySelector('#signin') ?? document.querySelector(it)).innerText, place);
  return { text: bare(text).replace(/\s+/g, ' '), requests: [...new Set(requests)].sort() };
}

const opened = {};
for (const role of ROLES) {
  if (role === 'anonymous') {
    const { page, close, complaints: own } = await openPage(browser);
    await page.goto(`${server.url}/explorer`);
    await page.waitForSelector('#signin');
    opened[role] = { page, close: () => (complaints.push(...own), close()) };
  } else opened[role] = await as(role, '#/connect');
}

await Promise.all(
  ROLES.map(async (role) => {
    const { page } = opened[role];
    for (const [kind, { own, foreign, gone }] of Object.entries(KINDS)) {
      await check(`${role}: a link to a ${kind} that is unknown, of another tenant or gone says one thing`, async () => {
        const unknown = await visit(page, kind, UNKNOWN[kind]);
        const opens = OPENS[kind].includes(role);
        const said = role === 'anonymous' ? 'Sign in' : opens ? MISSING[kind] : CLOSED;
        truthy(unknown.text.includes(said), `it says “${unknown.text}”`);
        if (!opens) equal(unknown.requests, [], 'requests for a screen that is closed');
        // For the other tenant, what is foreign to the first one is its own.
        equal(await visit(page, kind, role === 'other' ? own : foreign), unknown, 'the link to another tenant');
        if (gone === undefined) return;
        const past = await visit(page, kind, gone);
        if (KNOWS_GONE[kind]?.includes(role)) truthy(!past.text.includes(MISSING[kind]), past.text);
        else equal(past, unknown, 'the link to what is gone');
      });
    }
  }),
);

await check('the same links show to their readers what is there, and how it ended', async () => {
  const { page } = opened.admin;
  for (const [kind, words] of Object.entries({
    request: 'wants to run',
    run: 'Started',
    tool: 'Try it',
    source: 'Health',
    key: 'active',
    role: 'It sees',
  })) {
    const { text } = await visit(page, kind, KINDS[kind].own);
    truthy(text.includes(words), `${kind}: ${text}`);
  }
  truthy((await visit(page, 'key', revoked)).text.includes('revoked'), 'the state of the key');
  const approver = await visit(opened.approver.page, 'request', answered);
  truthy(/Rejected by approver (now|\d+ \w+ ago)\. The tool does not run\./.test(approver.text), approver.text);
});

await check('a link to a part of Access that a key does not open names the scope', async () => {
  const roles = await server.key('--name', 'reads', '--principal', 'reads', '--scope', 'roles:read');
  const { page, close } = await openSignedIn(browser, server.url, `#/access/keys/${NONE}`, roles, complaints);
  await page.getByRole('heading', { name: CLOSED }).waitFor();
  truthy((await page.innerText('#screen')).includes('It requires the scope keys:manage.'), await page.innerText('#screen'));
  await close();
});

/** The addresses of the links in an element, by their texts. */
const linksOf = (locator) =>
  locator.locator('a').evaluateAll((all) => Object.fromEntries(all.map((it) => [it.innerText, it.getAttribute('href')])));

await check('names in a request are links for those who may open what they name', async () => {
  const { page } = opened.admin;
  await visit(page, 'request', asked);
  const title = page.locator('.approval h3');
  equal(await linksOf(title), { caller: '#/record?q=actor%3Acaller', shop__wipe: '#tool=shop__wipe' }, 'links for an administrator');
  await title.getByRole('link', { name: 'caller' }).click();
  await page.waitForFunction(() => document.querySelector('#record-query')?.value === 'actor:caller');
  await visit(opened.approver.page, 'request', asked);
  equal((await opened.approver.page.innerText('.approval h3')).replace(/\s+/g, ' ').includes('caller wants to run'), true, 'the title');
  equal(await linksOf(opened.approver.page.locator('.approval h3')), {}, 'links for an approver');
});

await check('names in the record, in a run, in a role and in the keys are links', async () => {
  const { page } = opened.admin;
  await page.goto(`${server.url}/explorer#/record?q=tool%3Ashop__wipe`);
  await page.reload();
  await signIn(page, KEYS.admin);
  const row = page.locator('#screen tbody tr', { hasText: 'caller' }).filter({ hasText: 'shop__wipe' }).first();
  await row.waitFor();
  await row.locator('a[data-tool-link]').waitFor();
  const inRow = await linksOf(row);
  equal([inRow.caller, inRow.shop__wipe], ['#/record?q=tool%3Ashop__wipe+actor%3Acaller', '#tool=shop__wipe'], 'links of a row');
  await row.locator('button[aria-label^="Only tool"]').click();
  await page.waitForFunction(() => /^tool:mcp:shop.wipe$/.test(document.querySelector('#record-query').value));
  await row.locator('a[href*="/run/"]').click();
  await page.locator('.timeline a').first().waitFor();
  const inRun = await linksOf(page.locator('.timeline'));
  equal([inRun.caller, inRun.shop__wipe], ['#/record?q=actor%3Acaller', '#tool=shop__wipe'], 'links of a run');
  await visit(page, 'role', 'clerk');
  const inRole = await linksOf(page.locator('tr[data-tool="shop__echo"]'));
  equal(inRole, { shop__echo: '#tool=shop__echo', shop: '#/sources/shop' }, 'links of a role');
  await api('admin', 'POST', '/v1/keys', { name: 'of-clerk', roles: ['clerk'] });
  await page.evaluate(() => (location.hash = '#/access/keys'));
  const key = page.locator('tr[data-key]', { hasText: 'of-clerk' });
  await key.waitFor();
  equal(await linksOf(key), { 'of-clerk': '#/record?q=actor%3Aof-clerk', clerk: '#/access/roles/clerk' }, 'links of a key');
});

for (const { close } of Object.values(opened)) await close();
await check('no page of this script complained', () => equal(complaints, [], 'complaints'));
await browser.close();
await server.stop();
await finish();

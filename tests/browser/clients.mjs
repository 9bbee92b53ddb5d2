// A person signs in with an MCP client by the page that asks, and sees and ends the access in the console: with
// the keyboard alone, on a phone, with refusals, and as an administrator. A call of the client that needs an
// account of the person leads to a link, and the same call succeeds after the person has followed it.
//
//   TOOLCRIB_PROGRAM=…/toolcrib node clients.mjs
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import { join } from 'node:path';
import { outOfSight } from './layout.mjs';
import { check, equal, finish, launch, openPage, startSession, truthy, until } from './lib.mjs';
import { startClient } from './mcp-client.mjs';
import { startService } from './notes-service.mjs';
import { SECRET, startProvider } from './oidc-provider.mjs';
import { program, startServer } from './own-server.mjs';

/** The address of the server has to be known before it starts, because it is in its configuration. */
const port = await new Promise((resolve) => {
  const probe = net.createServer().listen(0, '127.0.0.1', () => {
    const { port: free } = probe.address();
    probe.close(() => resolve(free));
  });
});
const own = `http://127.0.0.1:${port}`;
const provider = await startProvider();
const service = await startService();
const host = new URL(service.url).host;
const server = await startServer(
  `[server]
public_url = "${own}"

[store]
seal_key = { file = "seal.key" }

[[role]]
name = "reader"
scopes = ["try:it"]

[[source]]
id = "shop"
kind = "mcp"
command = [${JSON.stringify(program)}, "demo-upstream"]
[source.tools."*"]
scopes = ["try:it"]
safety_tier = "pure"

[[source]]
id = "notes"
kind = "mcp"
url = "${service.url}"
tenants = ["default"]
[source.oauth]
of = "principal"
[source.tools."*"]
scopes = ["try:it"]
safety_tier = "pure"

[auth.resource]
resource = "${own}"

[[auth.jwt]]
issuer = "${provider.issuer}"
audiences = ["https://crib.example/tools"]
tenant = "default"
principal_prefix = "acme."
claims = { roles = "groups" }
roles = ["reader"]
[auth.jwt.sign_in]
client_id = "console"
name = "Acme"
resource = "https://crib.example/tools"
scopes = ["try:it"]

[auth.bridge]
issuer = "${provider.issuer}"
client_id = "server"
client_secret = { file = "provider.secret" }
registration = true
`,
  { 'seal.key': randomBytes(32).toString('base64'), 'provider.secret': SECRET },
  `127.0.0.1:${port}`,
);
provider.allow(`${own}/oauth/callback`, `${own}/explorer/signed-in`);
const keyOf = (name, ...scopes) =>
  server.key('--name', name, '--principal', name, '--tenant', 'default', ...scopes.flatMap((it) => ['--scope', it]));
const keys = { olga: keyOf('olga', 'try:it', 'keys:manage', 'connections:manage'), ben: keyOf('ben', 'try:it') };

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const PHONE = { viewport: { width: 390, height: 800 } };
const browser = await launch();
const all = [];
/** A page of a new browser at an address; with `key` the person stays signed in there. */
const visit = async (address, key, options) => {
  const opened = await openPage(browser, options);
  if (key !== undefined) await startSession(opened.page, server.url, key);
  await opened.page.goto(address.startsWith('http') ? address : `${server.url}/explorer${address}`);
  return { page: opened.page, close: () => (all.push(...opened.complaints), opened.close()) };
};
const accessible = async (page, what) => {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
  equal(violations.map(({ id, nodes }) => [id, nodes[0].target]), [], `violations of ${what}`);
  equal(await page.evaluate(outOfSight), [], `what is out of sight of ${what}`);
};
const focused = (page) => page.evaluate(() => document.activeElement.textContent);
/** At the provider: signs in, and agrees. */
const login = async (page) => {
  await page.click('#login');
  await page.click('#consent');
};
/** A client with the access of the person. */
const signedIn = async (name) => {
  const client = await startClient(`${own}/mcp`, name);
  const { page, close } = await visit(client.address);
  await page.click('[value="allow"]');
  await login(page);
  await page.waitForSelector('#back');
  await close();
  return { ...client, mcp: await client.connected() };
};
const words = async (page, selector) => (await page.textContent(selector)).replace(/\s+/g, ' ').trim();
/** On the page of an account: connects it at the service, as `person`. */
const connect = async (page, person) => {
  await page.click('#connect-account');
  await page.fill('#person', person);
  await page.click('#agree');
};
const status = async (token) => {
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
  return (await fetch(`${own}/mcp`, { method: 'POST', headers, body })).status;
};
const listed = async (key, query = '') => {
  const reply = await fetch(`${own}/v1/clients${query}`, { headers: { Authorization: `Bearer ${key}` } });
  return (await reply.json()).clients;
};

let first;
await check('a person signs in with the keyboard alone, and the client lists and calls', async () => {
  first = await startClient(`${own}/mcp`, 'Notes helper');
  const { page, close } = await visit(first.address);
  equal(await page.textContent('h1'), 'Allow Notes helper to use your tools?', 'the question');
  const facts = (await page.locator('dd').allTextContents()).map((it) => it.trim());
  equal(
    facts,
    ['Notes helper', first.id, 'The client itself: it registered here, and can call itself anything', first.redirect],
    'what the page says about the client',
  );
  await accessible(page, 'the question');
  equal(provider.settings.seen.filter(({ path }) => path === '/auth').length, 0, 'requests at the provider before the answer');
  await page.keyboard.press('Tab');
  equal(await focused(page), 'Allow', 'the first stop of the focus');
  await page.keyboard.press('Tab');
  equal(await focused(page), 'Cancel', 'the second stop');
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Enter');
  for (const step of ['login', 'consent']) {
    await page.waitForSelector(`#${step}`);
    await page.keyboard.press('Tab');
    equal(await focused(page), step, 'the button of the provider');
    await page.keyboard.press('Enter');
  }
  await page.waitForSelector('#back');
  await close();
  const back = await first.back;
  equal([back.state, back.iss], ['the state of the client', own], 'what comes back');
  const asked = provider.settings.seen.find(({ path }) => path === '/auth');
  const query = new URLSearchParams(asked.search);
  equal([query.get('client_id'), query.get('resource'), query.get('scope')], ['server', null, 'openid'], 'the request at the provider');
  const mcp = await first.connected();
  const { tools } = await mcp.listTools();
  truthy(tools.some(({ name }) => name === 'shop__echo'), `the tools are ${tools.map(({ name }) => name)}`);
  const result = await mcp.callTool({ name: 'shop__echo', arguments: { text: 'through the client' } });
  truthy(JSON.stringify(result.content).includes('through the client'), JSON.stringify(result));
  await mcp.close();
});

await check('a person who does not agree is sent back, and nothing happens at the provider', async () => {
  const client = await startClient(`${own}/mcp`, 'Unwanted');
  const before = provider.settings.seen.length;
  const { page, close } = await visit(client.address);
  await page.click('[value="deny"]');
  await page.waitForSelector('#back');
  const back = await client.back;
  equal([back.error, back.code, back.state], ['access_denied', undefined, 'the state of the client'], 'what comes back');
  equal(provider.settings.seen.length, before, 'requests at the provider');
  await close();
  client.stop();
});

await check('a refusal at the provider is one for the client', async () => {
  const client = await startClient(`${own}/mcp`, 'Refused');
  const { page, close } = await visit(client.address);
  await page.click('[value="allow"]');
  await page.click('#abort');
  await page.waitForSelector('#back');
  equal([(await client.back).error, (await client.back).code], ['access_denied', undefined], 'what comes back');
  truthy(!(await client.back).error_description?.includes('<b>'), 'the words of the provider are passed on');
  await close();
  client.stop();
  equal((await listed(keys.olga, '?all=true')).map(({ name }) => name), ['Notes helper'], 'clients');
});

await check('a request that cannot continue is said on a page, and no one is redirected', async () => {
  const address = new URL(first.address);
  address.searchParams.set('redirect_uri', 'https://evil.example/callback');
  const { page, close } = await visit(address.href);
  equal(await page.textContent('h1'), 'This sign-in cannot continue', 'the heading');
  truthy(page.url().startsWith(`${own}/oauth/authorize`), `the address is ${page.url()}`);
  await accessible(page, 'the refusal');
  await close();
});

await check('the pages fit a phone', async () => {
  const { page, close } = await visit(first.address, undefined, PHONE);
  await accessible(page, 'the question on a phone');
  for (const name of ['Allow', 'Cancel']) {
    const { height } = await page.getByRole('button', { name }).boundingBox();
    truthy(height >= 44, `${name} is ${height} px high`);
  }
  await close();
});

await check('a person sees the client in the console, and ends its access with the keyboard', async () => {
  const { page, close } = await visit('#/connections/clients');
  await page.waitForSelector('#signin');
  equal(await page.textContent('#sign-in-purpose'), 'Sign in to see the clients that act for you.', 'purpose');
  await page.click('#signin >> text=Sign in with Acme');
  await login(page);
  const row = page.locator('tr[data-client-grant]');
  await row.waitFor();
  const cells = (await row.locator('td').allTextContents()).map((it) => it.replace(/\s+/g, ' ').trim());
  equal(cells.slice(0, 3), ['Notes helper', first.id, 'itself'], 'the client');
  truthy(cells.slice(3, 5).every((it) => /second|minute|now/.test(it)), `since and last use: ${cells.slice(3, 5)}`);
  equal(await page.locator('nav[aria-label="Parts of this screen"] a').allTextContents(), ['Accounts', 'Clients'], 'parts');
  await accessible(page, 'the list');
  equal(await status(first.tokens().access_token), 200, 'the status before');
  await row.getByRole('button', { name: 'End access of Notes helper' }).focus();
  await page.keyboard.press('Enter');
  await page.waitForSelector('dialog[open]');
  await accessible(page, 'the dialog');
  truthy((await page.textContent('dialog')).includes('stops acting for you'), 'whom it acts for');
  await page.locator('[data-confirm="end-client"]').focus();
  await page.keyboard.press('Enter');
  await page.waitForSelector('#no-clients');
  // The focus was in the row, which is gone.
  await page.waitForFunction(() => document.activeElement.matches('[tabindex="-1"]:has(#no-clients)'));
  equal(await status(first.tokens().access_token), 401, 'the status after');
  await close();
});

await check('an administrator sees the clients of all people, and others do not', async () => {
  const client = await signedIn('Reader of cards');
  await client.mcp.close();
  client.stop();
  const { page, close } = await visit('#/connections/clients/all', keys.olga, PHONE);
  const row = page.locator('tr[data-client-grant]', { hasText: 'Reader of cards' });
  await row.waitFor();
  truthy((await row.textContent()).includes('acme.ada'), 'the person is not named');
  await accessible(page, 'everyone’s clients on a phone');
  await row.locator('[data-end]').click();
  truthy((await page.textContent('dialog')).includes('stops acting for acme.ada'), 'whom it acts for');
  await page.click('[data-confirm="end-client"]');
  await page.waitForSelector('#no-clients');
  equal(await listed(keys.olga, '?all=true'), [], 'clients');
  await close();
  const other = await visit('#/connections/clients/all', keys.ben);
  await other.page.waitForSelector('.screen .empty');
  truthy((await other.page.textContent('.screen')).includes('keys:manage'), 'the scope is not named');
  await other.close();
});

await check('the command line lists clients and ends them', async () => {
  const client = await signedIn('For the command line');
  await client.mcp.close();
  const command = (who, ...words) => {
    const child = spawn(program, ['clients', ...words], {
      env: { ...process.env, TOOLCRIB_URL: own, TOOLCRIB_KEY: keys[who] ?? who },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const ran = { out: '', err: '' };
    child.stdout.on('data', (data) => (ran.out += data));
    child.stderr.on('data', (data) => (ran.err += data));
    return new Promise((resolve) => child.once('close', (code) => resolve({ code, ...ran })));
  };
  const none = await command('olga', 'list');
  equal([none.code, none.out], [0, ''], 'the own list of a key');
  truthy(none.err.includes('no client acts for the principal of this key'), none.err);
  const list = await command('olga', 'list', '--all', '--json');
  const [grant] = JSON.parse(list.out);
  equal([grant.name, grant.principal, grant.vouchedBy], ['For the command line', 'acme.ada', 'itself'], 'the list');
  const refused = await command('ben', 'list', '--all');
  equal(refused.code, 1, 'the exit code without the scope');
  truthy(refused.err.includes('keys:manage'), refused.err);
  const foreign = await command('ben', 'end', grant.id);
  equal(foreign.code, 1, 'the exit code for a client of another person');
  truthy(foreign.err.includes('clients list'), foreign.err);
  equal(await status(client.tokens().access_token), 200, 'the status before');
  const ended = await command('olga', 'end', grant.id);
  equal([ended.code, ended.err], [0, 'the access has ended\n'], 'the end');
  equal(await status(client.tokens().access_token), 401, 'the status after');
  client.stop();
});

let link;
await check('a call of a client that needs an account succeeds after its person has followed the link', async () => {
  const admin = await visit('#/connections', keys.olga);
  await admin.page.click('tr[data-of="tenant"] [data-connect]');
  await connect(admin.page, 'the team');
  await admin.page.waitForSelector('#connection-done');
  await admin.close();
  const client = await signedIn('Keeper of notes');
  const call = async () => (await client.mcp.callTool({ name: 'notes__whoami', arguments: {} })).content[0].text;
  const listsIt = async () => (await client.mcp.listTools()).tools.some(({ name }) => name === 'notes__whoami');
  await until('the tool is listed', listsIt);
  const refused = await call();
  const sentence = /^connect your account first: this tool acts with your own account at `notes`\. Open (\S+) in a browser before \d\d:\d\d UTC, then make the same call again$/;
  link = sentence.exec(refused)?.[1];
  truthy(link?.startsWith(`${own}/explorer#/connect/`), refused);

  // A browser in which nobody is signed in.
  const { page, close } = await visit(link);
  await page.waitForSelector('#signin');
  equal(await page.textContent('#sign-in-purpose'), 'Sign in to connect an account.', 'purpose');
  await page.click('#signin >> text=Sign in with Acme');
  await login(page);
  await page.waitForSelector('#connect-account');
  equal(page.url(), link, 'the address after the sign-in');
  equal(await words(page, '[data-consent] h2'), `Connect your account at ${host}?`, 'the question');
  equal(
    await words(page, '#connection-sentence'),
    `The tools of notes that you or your agents call then act with your account at ${host}. Calls of other people never use it.`,
    'the sentence',
  );
  const facts = await page.locator('[data-consent] dt, [data-consent] dd').allTextContents();
  equal(
    facts.map((it) => it.trim()),
    ['Service', host, 'You sign in at', host, 'Access', 'notes:read', 'For', 'acme.ada'],
    'what the page says about the account',
  );
  await accessible(page, 'the page of the account');
  await connect(page, 'ada@notes');
  // The tab alone had the sign-in, and it was away.
  await page.waitForSelector('#signin');
  equal(await page.textContent('#sign-in-purpose'), 'Sign in to finish the connection of your account.', 'purpose');
  await page.click('#signin >> text=Sign in with Acme');
  // The provider knows the person by now.
  await page.click('#consent');
  await page.waitForSelector('#connection-done');
  equal(await words(page, '#connection-done'), 'Connected. You can go back to your agent.', 'the last sentence');
  equal(page.url(), `${own}/explorer#/connected`, 'the address at the end');
  equal(await page.evaluate(() => Object.keys(sessionStorage)), [], 'what the tab keeps');
  await accessible(page, 'the end of the connection');
  equal(await call(), 'This is the account of ada@notes.', 'the same call');
  await close();

  const again = await visit(link);
  await again.page.waitForSelector('#signin');
  await again.page.click('#signin >> text=Sign in with Acme');
  await login(again.page);
  await again.page.waitForSelector('#connection-refused');
  equal(
    await words(again.page, '#connection-refused'),
    'It was used already, is older than ten minutes, or is for another person: make the same call again for a new one.',
    'the sentence about the used link',
  );
  await again.close();
  await client.mcp.close();
  client.stop();
});

await check('the record has each sign-in and each end, with the client’s id and no token', async () => {
  const key = keyOf('audit', 'audit:read');
  const events = await until('the events', async () => {
    const reply = await fetch(`${own}/v1/events?limit=100`, { headers: { Authorization: `Bearer ${key}` } });
    // The server does not know a new key at once.
    const { events: all = [] } = await reply.json();
    const found = all.map((it) => it.event ?? it).filter(({ type }) => type.startsWith('client.'));
    return found.length >= 7 && found;
  });
  const kinds = events.map(({ type }) => type).sort();
  equal(kinds, [...Array(4).fill('client.signed-in'), ...Array(3).fill('client.signed-out')], 'the events');
  truthy(events.some(({ payload }) => payload.clientId === first.id), 'the client is not named');
});

await check('neither the log nor the store nor an address has a token, a code or a link', async () => {
  const texts = [server.log()];
  for (const file of readdirSync(server.folder, { recursive: true, withFileTypes: true }))
    if (file.isFile()) texts.push(readFileSync(join(file.parentPath, file.name), 'latin1'));
  for (const text of texts) {
    truthy(!/tc[adr]_[\w.-]{40,}|eyJ[\w-]{20,}\.eyJ|(access|renewal|code)-[0-9a-f]{32}/.test(text), 'a secret is kept');
    truthy(!text.includes(link.slice(-43)), 'a link is kept');
  }
  const requests = [...provider.settings.seen, ...service.seen];
  equal(requests.filter(({ referer }) => /\/oauth\/|\/explorer/.test(referer)), [], 'referers elsewhere');
  equal(requests.filter((it) => JSON.stringify(it).includes(link.slice(-43))), [], 'requests elsewhere with the link');
});

await check('nothing was blocked, and no error was logged', () => equal(all, [], 'complaints'));

first.stop();
await browser.close();
await server.stop();
await provider.stop();
await service.stop();
finish();

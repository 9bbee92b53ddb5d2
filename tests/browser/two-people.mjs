// Two people in two browsers connect their accounts, at the same time, at MCP servers that others wrote and that
// protect themselves by OAuth: one of the TypeScript SDK and one of fastmcp. Each person's calls have the own
// account only.
//
//   TOOLCRIB_PROGRAM=…/toolcrib TOOLCRIB_PYTHON_FASTMCP=…/python node two-people.mjs
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { tabTo } from './focus.mjs';
import { check, equal, finish, launch, openPage, signIn, startSession, truthy, until } from './lib.mjs';
import { startServer } from './own-server.mjs';

const drivers = join(import.meta.dirname, '../clients');
const axePath = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const axe = readFileSync(axePath, 'utf8');
const packages = axePath.split('/node_modules/')[0];
const SERVICES = [
  ['the TypeScript SDK', process.execPath, join(drivers, 'oauth-server.mjs'), packages],
  ['fastmcp', process.env.TOOLCRIB_PYTHON_FASTMCP, join(drivers, 'oauth_server.py')],
];
const TOOL = 'notes__whoami';
const DONE = 'Connected. You can go back to your agent.';

/** A person's browser is a program of its own. */
const browsers = { hanna: await launch(), mirko: await launch() };
const other = { hanna: 'mirko', mirko: 'hanna' };
const all = [];

/** Starts a protected server. `tell` sends it a line, and returns its answer. */
async function startService(program, ...words) {
  truthy(program !== undefined, 'TOOLCRIB_PYTHON_FASTMCP is not set');
  const child = spawn(program, words, { stdio: ['pipe', 'pipe', 'ignore'] });
  const ended = new Promise((resolve) => child.once('close', resolve));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    truthy(!done, 'the service has ended');
    return value;
  };
  let first = await next();
  while (!first.startsWith('listening on ')) first = await next();
  return {
    url: first.replace('listening on ', ''),
    tell: (line) => {
      child.stdin.write(`${line}\n`);
      return next();
    },
    stop: () => {
      child.stdin.end();
      return ended;
    },
  };
}

/** The address of a server has to be known before it starts, because it is in its configuration. */
const freePort = () =>
  new Promise((resolve) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });

async function startGateway(service) {
  const port = await freePort();
  const server = await startServer(
    `[server]
public_url = "http://127.0.0.1:${port}"

[store]
seal_key = { file = "seal.key" }

[[source]]
id = "notes"
kind = "mcp"
url = "${service.url}/mcp"
tenants = ["default"]
[source.oauth]
of = "principal"
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
    hanna: keyOf('hanna', 'notes:use'),
    mirko: keyOf('mirko', 'notes:use'),
  };
  /** The status of a call and its text. */
  const call = async (who) => {
    const reply = await fetch(`${server.url}/explorer/tools/${TOOL}/call`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${keys[who]}`, 'Content-Type': 'application/json' },
      body: '{}',
    });
    const data = await reply.json();
    return [reply.status, data.content?.[0]?.text];
  };
  return { ...server, keys, call };
}

const textOf = async (page, selector) => {
  await page.waitForSelector(selector);
  return (await page.textContent(selector)).replace(/\s+/g, ' ').trim();
};
const namesOnly = (text, who, what) => truthy(!text.includes(other[who]), `${what} of ${who} names ${other[who]}: ${text}`);
const accessible = async (page, what) => {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
  equal(violations.map(({ id, nodes }) => [id, nodes[0].target]), [], `violations of ${what}`);
};
const done = async (page) => {
  equal(await textOf(page, '#connection-done'), DONE, 'the last sentence');
  truthy(page.url().endsWith('/explorer#/connected'), `the address is ${page.url()}`);
  await accessible(page, 'the end of a connection');
};
/** Goes to an element with Tab alone, and activates it. */
const activate = async (page, selector) => {
  await page.waitForSelector(selector);
  await tabTo(page, selector);
  await page.keyboard.press('Enter');
};
/** At the service: types the name of an account, and agrees, with the keyboard alone. */
const agree = async (page, account) => {
  await page.waitForSelector('[name="person"]');
  await page.keyboard.press('Tab');
  await page.keyboard.type(account);
  equal(await page.inputValue('[name="person"]'), account, 'what is typed');
  await page.keyboard.press('Tab');
  equal(await page.evaluate(() => document.activeElement.textContent), 'Agree', 'the button of the service');
  await page.keyboard.press('Enter');
};
/** Agrees at the service as `account`, but keeps the address at which the browser would come back. */
const addressBack = async (page, service, account) => {
  const id = await page.inputValue('[name="id"]');
  const agreed = await fetch(`${service.url}/agree`, {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ id, person: account }),
  });
  return agreed.headers.get('location');
};

/** A person at the page. Hanna stays signed in; mirko types a key, which a page forgets when it is left. */
async function arrive(server, who) {
  const { page, complaints, close } = await openPage(browsers[who]);
  if (who === 'hanna') await startSession(page, server.url, server.keys.hanna);
  const signedIn = async (wanted) => {
    if (who === 'hanna') return;
    await page.waitForSelector('#signin');
    if (wanted) equal(await textOf(page, '#sign-in-purpose'), wanted, 'why the page asks for a key');
    await signIn(page, server.keys.mirko);
  };
  await page.goto(`${server.url}/explorer#tool=${TOOL}`);
  await signedIn();
  return {
    page,
    signedIn,
    show: (address) => page.goto(`${server.url}/explorer${address}`),
    close: () => (all.push(...complaints), close()),
  };
}

async function tryService([name, ...command]) {
  const service = await startService(...command);
  const server = await startGateway(service);
  const { call } = server;
  const host = new URL(service.url).host;

  await check(`${name}: an administrator connects the account that lists the tools`, async () => {
    const { page, complaints, close } = await openPage(browsers.hanna);
    await startSession(page, server.url, server.keys.olga);
    await page.goto(`${server.url}/explorer#/connections`);
    await activate(page, 'tr[data-of="tenant"] [data-connect]');
    await activate(page, '#connect-account');
    await agree(page, 'the team');
    await done(page);
    // Not as hanna: who is refused very often gets no link for a while.
    await until('the tool is listed', async () => (await call('olga'))[0] === 403);
    all.push(...complaints);
    await close();
  });

  const people = { hanna: await arrive(server, 'hanna'), mirko: await arrive(server, 'mirko') };
  const both = Object.entries(people);

  await check(`${name}: the refused call of each person leads to the own connection`, async () => {
    for (const [who, { page }] of both) {
      await activate(page, '[data-action="execute"]');
      await page.waitForSelector('[data-connect-account]');
      const refused = await textOf(page, '.outcome');
      truthy(
        refused.includes('Needs an account') &&
          refused.includes('The tool did not run: it acts with an account that is not connected'),
        refused,
      );
      await accessible(page, 'a call that needs an account');
      await activate(page, '[data-connect-account]');
      equal(
        await textOf(page, '#connection-sentence'),
        `The tools of notes that you or your agents call then act with your account at ${host}. Calls of other people never use it.`,
        'the sentence',
      );
      const question = await textOf(page, '[data-consent]');
      truthy(question.includes(`Connect your account at ${host}?`) && new RegExp(`For ?${who}`).test(question), question);
      namesOnly(question, who, 'the question');
      await accessible(page, 'the question');
    }
  });

  await check(`${name}: both are at the service at the same time, and come back to their own browser`, async () => {
    for (const [, { page }] of both) {
      await activate(page, '#connect-account');
      await page.waitForSelector('[name="person"]');
    }
    const [first, second] = await Promise.all(both.map(([, { page }]) => page.inputValue('[name="id"]')));
    truthy(first !== second, 'both have the same request');
    for (const [who, { page, signedIn }] of both.toReversed()) {
      await agree(page, `${who}@notes`);
      await signedIn('Sign in to finish the connection of your account.');
      await done(page);
      // The other person is not back yet.
      equal((await call('hanna'))[0], who === 'hanna' ? 200 : 403, `the call of hanna after ${who}`);
    }
  });

  await check(`${name}: each person runs the tool with the own account alone`, async () => {
    for (const [who, { page, show }] of both) {
      await show(`#tool=${TOOL}`);
      await page.click('[data-action="execute"]');
      await page.waitForSelector('.outcome[data-tone="good"]');
      const result = await textOf(page, '.outcome');
      truthy(result.includes('Succeeded') && result.includes(`${who}@notes`), result);
      namesOnly(result, who, 'the result');
      await show('#/connections');
      const row = await textOf(page, 'tr[data-connection="notes"]');
      truthy(row.includes('connected') && !row.includes('not connected') && row.includes('yours'), row);
      equal(await page.locator('tr[data-connection]').count(), 1, `the accounts that ${who} sees`);
      namesOnly(await textOf(page, '#screen'), who, 'the list');
    }
    const calls = Array.from({ length: 20 }, async (_, number) => {
      const who = number % 2 === 0 ? 'hanna' : 'mirko';
      equal(await call(who), [200, `${who}@notes`], `the call of ${who}`);
    });
    await Promise.all(calls);
  });

  await check(`${name}: a response for one person is refused in the browser of the other, and used up`, async () => {
    const { hanna, mirko } = people;
    await hanna.show('#/connections/new/notes');
    truthy((await textOf(hanna.page, '#connection-sentence')).endsWith('It replaces the account that is connected now.'), 'it is not said');
    await hanna.page.click('#connect-account');
    await hanna.page.waitForSelector('[name="person"]');
    const back = await addressBack(hanna.page, service, 'somebody@notes');
    for (const [who, { page, signedIn }] of [['mirko', mirko], ['hanna', hanna]]) {
      await page.goto(back);
      await signedIn('Sign in to finish the connection of your account.');
      const said = await textOf(page, '#screen .consent');
      truthy(said.includes('The account is not connected') && said.includes('Nothing has changed'), said);
      truthy(said.includes('belongs to no request of this browser'), said);
      namesOnly(said, who, 'the refusal');
      await accessible(page, 'the refusal');
      truthy(!/code|state/.test(page.url()), `the address is ${page.url()}`);
    }
    for (const who of ['hanna', 'mirko']) equal(await call(who), [200, `${who}@notes`], `the call of ${who}`);
    equal(await service.tell('tokens somebody@notes'), '0', 'the tokens that the code gave');
  });

  await check(`${name}: a refusal at the end leads back to the list with the keyboard`, async () => {
    const { page } = people.hanna;
    await activate(page, '#screen .consent a');
    await page.waitForSelector('tr[data-connection="notes"]');
  });

  await check(`${name}: one person disconnects, and the calls of the other go on`, async () => {
    const { page, show } = people.hanna;
    await show('#/connections');
    await page.click('[data-disconnect]');
    truthy((await textOf(page, 'dialog[aria-label="Disconnect the account"]')).includes(`stop acting with your account at ${host}`), 'the question is another');
    await page.click('[data-confirm="disconnect"]');
    await page.getByText('not connected').waitFor();
    equal((await call('hanna'))[0], 403, 'the status of a call of hanna');
    equal(await call('mirko'), [200, 'mirko@notes'], 'the call of mirko');
    await until('the tokens are revoked', async () => (await service.tell('tokens hanna@notes')) === '0');
    truthy((await service.tell('tokens mirko@notes')) !== '0', 'the tokens of mirko are gone');
    equal(await service.tell('mixed'), '0', 'requests in the session of another account');
  });

  for (const [, { close }] of both) await close();
  await server.stop();
  await service.stop();
}

for (const service of SERVICES) await tryService(service);
await check('nothing was blocked, and no error was logged', () => equal(all, [], 'complaints'));
for (const browser of Object.values(browsers)) await browser.close();
finish();

// Sign-in to the console with a real OpenID Connect provider, and the ways in which it fails.
//
//   TOOLCRIB_PROGRAM=…/toolcrib node oidc.mjs
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { check, equal, finish, launch, openPage, truthy } from './lib.mjs';
import { startProvider } from './oidc-provider.mjs';
import { startServer } from './own-server.mjs';

const provider = await startProvider();
const elsewhere = await startProvider();
const away = await startProvider();
const node = process.execPath;
const issuer = ({ at, audience, name, prefix, more = '' }) => `
[[auth.jwt]]
issuer = "${at}"
audiences = ["${audience}"]
tenant = "default"
principal_prefix = "${prefix}"
clock_skew = "1s"
[auth.jwt.sign_in]
client_id = "console"
name = "${name}"
resource = "https://crib.example/tools"
scopes = ["try:it"]
${more}
`;
const server = await startServer(`
[[source]]
id = "asking"
kind = "mcp"
command = [${JSON.stringify(node)}, ${JSON.stringify(join(import.meta.dirname, 'asking.mjs'))}, "notes"]
[source.tools."*"]
scopes = ["try:it"]
safety_tier = "pure"
[toolset.all]
allow = ["*"]
${issuer({ at: provider.issuer, audience: 'https://crib.example/tools', name: 'Acme', prefix: 'acme.' })}
${issuer({ at: elsewhere.issuer, audience: 'https://other.example/', name: 'Elsewhere', prefix: 'elsewhere.' })}
${issuer({ at: away.issuer, audience: 'https://crib.example/tools', name: 'Away', prefix: 'away.' })}
`);
const callback = `${server.url}/explorer/signed-in`;
for (const it of [provider, elsewhere, away]) it.allow(callback);
await away.stop();

const browser = await launch();
const all = [];
/** A page of a new person, at an address of the console. */
const visit = async (address = '/explorer') => {
  const opened = await openPage(browser);
  all.push(opened.complaints);
  await opened.page.goto(server.url + address);
  return opened;
};
const start = async (page, name) => {
  await page.click(`#signin >> text=Sign in with ${name}`);
};
const login = async (page) => {
  await page.click('#login');
  await page.click('#consent');
};
const problem = async (page, text) => {
  await page.waitForSelector('#sign-in-problem');
  const said = await page.textContent('#sign-in-problem');
  truthy(said.includes(text), `it says: ${said}`);
  truthy(!page.url().includes('code='), `the code stays in the address ${page.url()}`);
  return said;
};

await check('a person signs in, and comes back to the link', async () => {
  const { page, close } = await visit('/explorer#tool=asking__ask');
  const leaks = [];
  page.on('request', (request) => {
    if ((request.headers().referer ?? '').includes('code=')) leaks.push(request.url());
  });
  await start(page, 'Acme');
  await login(page);
  await page.waitForFunction(() => document.querySelector('.tool h2')?.textContent === 'asking__ask');
  equal(page.url(), `${server.url}/explorer#tool=asking__ask`, 'address');
  equal(leaks, [], 'requests that carry the code');
  await page.click('#account-button');
  const account = await page.textContent('.menu');
  truthy(account.includes('acme.ada') && account.includes('identity provider'), account);
  truthy(/Expires\s*in \d+ (minutes|hours)/.test(account), `no expiry: ${account}`);
  equal(await page.evaluate(() => Object.keys(sessionStorage)), [], 'what the tab keeps');
  // The token is one of the server's own callers, on every protocol.
  await page.click('[data-action="execute"]');
  await page.waitForSelector('.question');
  await page.click('[data-action="cancel"]');
  // By choice it survives a reload, as a key does, and the token is nowhere.
  await page.click('#account-button').catch(() => {});
  if (!(await page.isVisible('.menu'))) await page.click('#account-button');
  await page.click('#stay-signed-in');
  await page.getByText('in all tabs of this browser').waitFor();
  await page.reload();
  await page.waitForSelector('#account-button');
  await page.click('#account-button');
  await page.click('#sign-out');
  await page.waitForSelector('#signin');
  equal(await page.evaluate(() => Object.keys(sessionStorage)), [], 'what the tab keeps after a sign-out');
  await close();
});

await check('a filter of a screen survives the sign-in', async () => {
  const { page, close } = await visit('/explorer?toolset=all#/connect?client=curl');
  await start(page, 'Acme');
  await login(page);
  await page.waitForSelector('#account-button, #signin');
  equal(page.url(), `${server.url}/explorer?toolset=all#/connect?client=curl`, 'address');
  await close();
});

await check('declined consent is said in words, and the words of the provider are text', async () => {
  const { page, close } = await visit();
  await start(page, 'Acme');
  await page.click('#abort');
  const said = await problem(page, 'The sign-in was declined');
  truthy(said.includes('The <b>person</b> declined.'), said);
  equal(await page.locator('#sign-in-problem b').count(), 0, 'elements of the provider');
  await start(page, 'Acme');
  await login(page);
  await page.waitForSelector('#account-button');
  await close();
});

await check('an answer with another state is refused, and its words are not shown', async () => {
  const { page, close } = await visit();
  await page.goto(`${callback}?error=access_denied&error_description=Call+555&state=x`);
  const said = await problem(page, 'does not belong to a sign-in of this tab');
  truthy(!said.includes('555'), said);
  // Also while a sign-in runs, and then that one is over.
  await start(page, 'Acme');
  await page.waitForSelector('#login');
  await page.goto(`${callback}?code=stolen&state=wrong`);
  await problem(page, 'does not belong');
  await close();
});

await check('a code that has expired, or was used, leads to another sign-in', async () => {
  const { page, close } = await visit();
  await page.route('**/sign-in/token', async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 2500));
    await route.continue();
  });
  provider.settings.codeTTL = 1;
  await start(page, 'Acme');
  await login(page);
  await problem(page, 'The sign-in took too long');
  provider.settings.codeTTL = 60;
  await page.unroute('**/sign-in/token');
  await close();
});

await check('a provider that is down is said to be', async () => {
  const { page, close } = await visit();
  await start(page, 'Away');
  await problem(page, 'does not answer');
  await close();
});

await check('a token for another audience is refused with what the operator has to change', async () => {
  const { page, close } = await visit();
  await start(page, 'Elsewhere');
  await login(page);
  await problem(page, 'a token for another server');
  truthy(await page.isVisible('#signin'), 'somebody is signed in');
  await close();
});

await check('the end of a token ends the session, and the address stays', async () => {
  provider.settings.tokenTTL = 4;
  const { page, close } = await visit('/explorer#tool=asking__steps');
  await start(page, 'Acme');
  await login(page);
  await page.waitForSelector('#account-button');
  await problem(page, 'Your sign-in expired');
  equal(page.url(), `${server.url}/explorer#tool=asking__steps`, 'address');
  provider.settings.tokenTTL = 300;
  await close();
});

await check('the exchange takes nothing but the callback of this page', async () => {
  const { page, close } = await visit();
  const secret = 'a'.repeat(43);
  const statuses = await page.evaluate(
    async ({ issuer, secret, uris }) => {
      const post = (redirectUri) =>
        fetch('/explorer/sign-in/start', {
          method: 'POST',
          headers: { 'Content-Type': 'application/json' },
          body: JSON.stringify({ issuer, state: secret, nonce: secret, challenge: secret, redirectUri }),
        }).then((it) => it.status);
      return Promise.all(uris.map(post));
    },
    {
      issuer: provider.issuer,
      secret,
      uris: [callback, `${callback}?x`, `${callback}/`, 'https://evil.example/explorer/signed-in', `${server.url}/explorer`],
    },
  );
  equal(statuses, [200, 400, 400, 400, 400], 'statuses');
  await close();
});

await check('neither the log nor the store has a code or a token', async () => {
  const codes = provider.settings.seen.filter((it) => it.search.includes('code='));
  equal(codes, [], 'requests of the browser with a code to the provider');
  const files = readdirSync(server.folder, { recursive: true, withFileTypes: true });
  const texts = [server.log()];
  for (const file of files)
    if (file.isFile()) texts.push(readFileSync(join(file.parentPath, file.name), 'latin1'));
  for (const text of texts)
    truthy(!/eyJ[\w-]{20,}\.eyJ|[?&]code=/.test(text), 'a secret of a sign-in is kept');
});

await check('nothing was blocked, and no error was logged', async () => {
  equal(all.flat(), [], 'complaints');
});

await browser.close();
await server.stop();
await provider.stop();
await elsewhere.stop();
finish();

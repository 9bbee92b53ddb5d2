// The first steps of an empty server, against servers that this script starts.
//
//   TOOLCRIB_PROGRAM=target/debug/toolcrib node first-run.mjs
//
// With SCREENSHOTS=FOLDER it also saves pictures of them.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, equal, finish, launch, openPage, signIn, truthy } from './lib.mjs';

const program = process.env.TOOLCRIB_PROGRAM;
if (!program) {
  console.error('TOOLCRIB_PROGRAM is not set');
  process.exit(2);
}
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const folder = mkdtempSync(join(tmpdir(), 'first-run-'));
const home = join(folder, 'home');
const work = join(folder, 'work');
mkdirSync(join(home, '.cursor'), { recursive: true });
mkdirSync(work);
// The program refuses itself as a source, so it has another name here. Its path has the random part
// of a temporary folder, which could be a secret, so it is found by its name.
mkdirSync(join(folder, 'bin'));
symlinkSync(program, join(folder, 'bin', 'notes-server'));
const servers = { notes: { command: 'notes-server', args: ['demo-upstream'] } };
writeFileSync(join(home, '.cursor', 'mcp.json'), JSON.stringify({ mcpServers: servers }));

const env = { PATH: `${join(folder, 'bin')}:${process.env.PATH}`, HOME: home };
const options = { cwd: work, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] };
const run = (...args) => execFileSync(program, args, options).trim();
const key = (principal, tenant, ...scopes) =>
  run('keys', 'create', '--name', principal, '--principal', principal, '--tenant', tenant,
    ...scopes.flatMap((it) => ['--scope', it]));
const KEYS = {
  admin: key('admin', 'default', '*'),
  other: key('other', 'elsewhere', '*'),
  viewer: key('viewer', 'team', 'sources:read'),
  reader: key('reader', 'team', 'notes:read'),
};

const server = spawn(program, ['serve', '--listen', '127.0.0.1:0'], { cwd: work, env });
const url = await new Promise((resolve, reject) => {
  let text = '';
  server.stdout.on('data', (data) => {
    text += data;
    const found = /listening on (\S+)/.exec(text);
    if (found) resolve(found[1]);
  });
  server.stderr.on('data', (data) => (text += data));
  server.on('exit', () => reject(new Error(`the server ended: ${text}`)));
});
const browser = await launch();
const complaints = [];

async function as(role, options = {}) {
  const opened = await openPage(browser, options);
  const { page } = opened;
  await page.goto(`${url}/explorer`);
  await signIn(page, KEYS[role]);
  return { page, close: () => (complaints.push(...opened.complaints), opened.close()) };
}
const done = (page) =>
  page.locator('.first-steps > li').evaluateAll((all) =>
    all.map((it) => [it.dataset.step, it.dataset.done === 'true']),
  );
const step = (page, name, state) =>
  page.waitForSelector(`.first-steps [data-step="${name}"][data-done="${state}"]`);

await check('without a key the page says how to get one', async () => {
  const { page, complaints: own, close } = await openPage(browser);
  await page.goto(`${url}/explorer`);
  await page.waitForSelector('#signin');
  truthy(/toolcrib keys create/.test(await page.textContent('#signin')), 'no command');
  equal(await page.locator('.first-run').count(), 0, 'steps before the sign-in');
  complaints.push(...own);
  await close();
});

await check('a caller that cannot read the sources sees no steps', async () => {
  const { page, close } = await as('reader');
  await page.waitForSelector('.why-empty');
  equal(await page.locator('.first-run').count(), 0, 'steps');
  await close();
});

await check('a caller sees only the steps that its key can take', async () => {
  const { page, close } = await as('viewer');
  await page.waitForSelector('.first-run');
  equal(await page.locator('.first-run a[href="#/access"]').count(), 0, 'links to Access');
  const text = await page.textContent('.first-run');
  truthy(/keys:manage/.test(text) && !/keys create/.test(text), text);
  truthy(/toolcrib init/.test(text), text);
  await close();
});

await check('the steps are of the own tenant', async () => {
  const { page, close } = await as('other');
  await page.waitForSelector('.first-run');
  truthy(/elsewhere/.test(await page.textContent('.first-run')), 'the tenant is not named');
  await close();
});

await check('the steps can be hidden', async () => {
  const { page, close } = await as('viewer');
  await page.click('#first-run-close');
  await page.waitForSelector('.first-run', { state: 'detached' });
  await page.waitForSelector('.why-empty');
  await close();
});

for (const theme of ['light', 'dark']) {
  for (const width of [1280, 390]) {
    await check(`no accessibility problem, ${theme}, ${width} px`, async () => {
      const options = { colorScheme: theme, viewport: { width, height: 860 }, bypassCSP: true };
      const { page, close } = await as('admin', options);
      await page.waitForSelector('.first-run');
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run());
      equal(violations.map((it) => `${it.id}: ${it.nodes[0].target}`), [], 'violations');
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      truthy(wide <= 0, `the page is ${wide} px too wide`);
      if (process.env.SCREENSHOTS)
        await page.screenshot({ path: `${process.env.SCREENSHOTS}/first-run-${theme}-${width}.png` });
      await close();
    });
  }
}

await check('from an empty server to the first call, each step is ticked off by itself', async () => {
  const { page, close } = await as('admin');
  await page.waitForSelector('.first-run');
  equal(await done(page), [['source', false], ['key', false], ['client', false]], 'steps');
  equal(await page.textContent('[data-step="source"] code'), 'toolcrib init', 'command');
  run('init', '--yes');
  await step(page, 'source', true);
  await page.waitForSelector('button.item[data-name="notes__echo"]');
  truthy(await page.isVisible('.first-run'), 'the steps went away');

  await page.click('[data-step="client"] a');
  await page.click('[data-client="cursor"]');
  await page.fill('.steps input', 'tools:*');
  await page.click('.steps .button.primary');
  await page.waitForFunction(() => /Bearer tc_/.test(document.querySelector('[data-snippet]').textContent));
  const { headers } = JSON.parse(await page.textContent('[data-snippet]')).mcpServers.toolcrib;
  await page.click('.section[data-section="tools"]');
  await step(page, 'key', true);
  await step(page, 'client', false);
  const request = { tool_id: 'notes.echo', input: { text: 'first' } };
  const reply = await fetch(`${url}/tools/call`, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: JSON.stringify({ request }),
  });
  equal((await reply.json()).result.success, true, 'the first call');
  await step(page, 'client', true);
  await page.getByText('Everything is in place').waitFor();
  if (process.env.SCREENSHOTS)
    await page.screenshot({ path: `${process.env.SCREENSHOTS}/first-run-done.png` });
  await page.click('#first-run-close');
  await page.waitForSelector('.overview dl.tiles');
  await close();
});

await check('a server with sources shows no steps', async () => {
  const { page, close } = await as('admin');
  await page.waitForSelector('button.item');
  await page.waitForSelector('.overview dl.tiles');
  equal(await page.locator('.first-run').count(), 0, 'steps');
  await close();
});

await check('no error, exception or policy violation was reported', async () => {
  equal(complaints, [], 'complaints');
});

await browser.close();
server.removeAllListeners('exit');
const ended = new Promise((resolve) => server.on('exit', resolve));
server.kill('SIGTERM');
await ended;
rmSync(folder, { recursive: true, force: true });
finish();

// Takes pictures: those of the documentation, or of every state of every screen. All of them are
// taken in light, in dark and at the width of a phone.
//
//   TOOLCRIB_URL=… TOOLCRIB_KEY_…=… TOOLCRIB_PROGRAM=… DOCUMENTATION=docs/images node picture.mjs
//   TOOLCRIB_URL=… TOOLCRIB_KEY_…=… PICTURES=FOLDER node picture.mjs [STATE]
import { join } from 'node:path';
import { launch, openPage, signIn, until } from './lib.mjs';
import { as, ask, askForApproval, startRoles } from './screens.mjs';
import { STATES, openState, startStates } from './states.mjs';

const { DOCUMENTATION, PICTURES } = process.env;
const LOOKS = [
  { name: '', colorScheme: 'light', width: 1280, height: 800 },
  { name: '-dark', colorScheme: 'dark', width: 1280, height: 800 },
  { name: '-phone', colorScheme: 'light', width: 390, height: 844 },
];
/** The calls that a demo makes at its start, about. */
const HISTORY = 300;

const browser = await launch();
if (DOCUMENTATION) await documentation();
if (PICTURES) await states();
await browser.close();

/** Saves the page in each look. */
async function save(page, folder, file) {
  for (const { name, colorScheme, width, height } of LOOKS) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height });
    await page.waitForTimeout(200); // lists draw their rows for the new size
    await page.screenshot({ path: join(folder, `${file}${name}.png`) });
  }
}

async function documentation() {
  const { startServer } = await import('./own-server.mjs');
  await startRoles();
  for (let tries = 0; ; tries += 1) {
    const { data } = await ask('admin', '/v1/events/summary?from=1h');
    if (data.totals.ok >= HISTORY / 2) break;
    if (tries === 120) throw new Error('the demo makes no history');
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  await askForApproval('caller', 'the staging database');
  await askForApproval('admin', 'the test database');
  const shots = {
    tools: ['admin', '#tool=library__find_books', async (page) => {
      await page.click('[data-action="execute"]');
      await page.locator('.outcome').waitFor();
    }],
    approvals: ['approver', '#/approvals', (page) => page.waitForSelector('.approval .answer button')],
    record: ['admin', '#/record?range=1h', (page) => page.waitForSelector('tr[data-type]')],
    run: ['admin', '#/record?q=status%3Aok%20tool%3Alibrary__*&range=1h', async (page) => {
      await page.click('tr[data-type] td:last-child a');
      await page.waitForSelector('.timeline');
    }],
    sources: ['admin', '#/sources', (page) => page.waitForSelector('tr[data-source]')],
    access: ['admin', '#/access', (page) => page.waitForSelector('tr[data-key]')],
    connect: ['admin', '#/connect/claude-code', async (page) => {
      await page.fill('.steps input', 'library:read');
      await page.click('.steps .button.primary');
      await page.waitForSelector('.steps .done');
    }],
  };
  for (const [name, [role, address, act]] of Object.entries(shots)) {
    const { page, close } = await as(browser, role, address);
    await act(page);
    await page.waitForFunction(() => !document.querySelector('.skeleton'));
    await save(page, DOCUMENTATION, `console-${name}`);
    await close();
  }
  const empty = await startServer('');
  const key = empty.key('--name', 'admin', '--principal', 'admin', '--scope', '*');
  // The server reads new keys of its store within a second.
  await until('the key', async () => {
    const reply = await fetch(`${empty.url}/v1/whoami`, { headers: { Authorization: `Bearer ${key}` } });
    return reply.status === 200;
  });
  const { page, close } = await openPage(browser);
  await page.goto(`${empty.url}/explorer`);
  await signIn(page, key);
  await page.waitForSelector('.first-run');
  await save(page, DOCUMENTATION, 'console-first-run');
  await close();
  await empty.stop();
}

async function states() {
  await startRoles();
  await startStates();
  const only = process.argv[2];
  for (const state of STATES.filter(({ name }) => only === undefined || name === only)) {
    const { page, close } = await openState(browser, state);
    await save(page, PICTURES, state.name.replaceAll(' ', '-'));
    await close();
  }
}

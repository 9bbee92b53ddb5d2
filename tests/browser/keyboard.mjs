// The journeys of the console by keyboard alone: no pointer, focus that is always visible and in the
// window, no trap, and a focus that comes back after dialogs.
//
//   TOOLCRIB_URL=http://127.0.0.1:8808 TOOLCRIB_KEY_ADMIN=tc_… TOOLCRIB_KEY_READER=tc_… \
//     TOOLCRIB_KEY_APPROVER=tc_… TOOLCRIB_KEY_OTHER_TENANT=tc_… node keyboard.mjs
import { MOST_STOPS, stop, tabTo } from './focus.mjs';
import { check, equal, finish, launch, truthy } from './lib.mjs';
import {
  SCREENS,
  as,
  ask,
  askForApproval,
  callTool,
  checkComplaints,
  goTo,
  keyOf,
  settled,
  startRoles,
} from './screens.mjs';
import { STATES, openState, startStates } from './states.mjs';

const browser = await launch();
await startRoles();
await startStates();

const screen = (id) => SCREENS.find((it) => it.id === id);
const active = (page) =>
  page.evaluate(() => {
    const it = document.activeElement;
    return it.id || it.dataset.name || it.dataset.verdict || it.textContent.trim().slice(0, 40) || it.tagName;
  });

const press = (page, ...keys) => keys.reduce((last, key) => last.then(() => page.keyboard.press(key)), Promise.resolve());
const type = (page, text) => page.keyboard.type(text);
const hasFocus = (page, selector) =>
  page.waitForFunction((it) => document.activeElement?.matches(it) === true, selector);
/** Requires that the focus is not lost, when what had it is gone. */
const keepsFocus = async (page, what) => {
  await page.waitForTimeout(100);
  const at = await page.evaluate(() => document.activeElement?.tagName);
  truthy(at && at !== 'BODY' && at !== 'HTML', `${what}: the focus is lost`);
};

/** Signs in without a pointer. */
async function byKeyboard(role, address) {
  const { page, close } = await as(browser, 'anonymous', address);
  await page.waitForSelector('#signin');
  await tabTo(page, '#token');
  await type(page, keyOf(role));
  await press(page, 'Enter');
  await page.waitForSelector('.section');
  return { page, close };
}

/** The next Tab goes to the first element of the page. */
const atStart = (page) =>
  page.evaluate(() => {
    document.body.tabIndex = -1;
    document.body.focus();
    document.body.removeAttribute('tabindex');
  });

await check('sign in, open a section, and sign out', async () => {
  const { page, close } = await byKeyboard('admin');
  await keepsFocus(page, 'after the sign-in');
  await tabTo(page, '.section[data-section="sources"]');
  await press(page, 'Enter');
  await settled(page, screen('sources'));
  await tabTo(page, '#account-button');
  await press(page, 'Enter');
  await page.waitForSelector('.menu');
  await tabTo(page, '#stay-signed-in');
  await press(page, 'Escape');
  await page.waitForFunction(() => !document.querySelector('.menu'));
  await hasFocus(page, '#account-button');
  await press(page, 'Enter');
  await tabTo(page, '#sign-out');
  await press(page, 'Enter');
  await page.waitForSelector('#signin');
  await keepsFocus(page, 'after the sign-out');
  await close();
});

await check('skip links lead to the content of each screen', async () => {
  const { page, close } = await as(browser, 'admin');
  for (const { id, address, ...more } of SCREENS) {
    await goTo(page, address);
    await settled(page, { id, ...more });
    await atStart(page);
    await press(page, 'Tab');
    const first = await page.evaluate(() => document.activeElement.className);
    equal(first, 'skip', `the first stop of ${id}`);
    await press(page, 'Enter');
    await hasFocus(page, id === 'tools' ? '#search' : '#screen');
    await press(page, 'Tab');
    truthy(
      await page.evaluate((it) => document.querySelector(it).contains(document.activeElement), id === 'tools' ? 'main' : '#screen'),
      `the stop after the skip link of ${id} is ${await active(page)}`,
    );
  }
  await close();
});

await check('find a tool, run it, read the result, and go back to the list', async () => {
  const { page, close } = await byKeyboard('caller');
  await page.waitForSelector('button.item');
  await page.evaluate(() => document.activeElement.blur());
  await press(page, '/');
  await type(page, 'demo__echo');
  await press(page, 'ArrowDown', 'Enter');
  await hasFocus(page, '[data-path="/text"] textarea');
  await type(page, 'hello');
  await press(page, 'Control+Enter');
  await page.waitForSelector('.outcome[data-tone="good"]');
  await tabTo(page, '.outcome [data-tab]');
  await press(page, 'ArrowRight');
  await hasFocus(page, '.outcome [data-tab="raw"]');
  await tabTo(page, '.tool .tabs [data-tab="try"]', 'Shift+Tab');
  for (const tab of ['about', 'schema', 'history', 'snippets', 'why']) {
    await press(page, 'ArrowRight');
    await hasFocus(page, `[data-tab="${tab}"]`);
  }
  await press(page, 'Escape');
  await hasFocus(page, 'button.item[data-name="demo__echo"]');
  await close();
});

await check('filter the list of tools', async () => {
  const { page, close } = await byKeyboard('caller');
  await page.waitForSelector('button.item');
  await tabTo(page, '#filter-toggle');
  await press(page, 'Enter');
  await tabTo(page, '#filters .chip');
  await press(page, 'Space');
  await page.waitForSelector('.chip[aria-pressed="true"]');
  await keepsFocus(page, 'after choosing a filter');
  await tabTo(page, '#group-by');
  await press(page, 'ArrowDown');
  await page.waitForSelector('.group-head');
  await keepsFocus(page, 'after grouping');
  await tabTo(page, 'button.item, .group-head');
  await press(page, 'End', 'Home');
  await close();
});

await check('the palette opens, closes, and gives the focus back', async () => {
  const { page, close } = await byKeyboard('admin');
  await tabTo(page, '.search-button');
  await press(page, 'Enter');
  await hasFocus(page, '.palette input');
  await press(page, 'Escape');
  await hasFocus(page, '.search-button');
  await press(page, 'Control+k');
  await hasFocus(page, '.palette input');
  await type(page, 'rec');
  await press(page, 'Enter');
  await settled(page, screen('record'));
  await press(page, 'Control+k');
  await hasFocus(page, '.palette input');
  await type(page, 'demo__ad');
  await press(page, 'ArrowDown', 'ArrowUp', 'Enter');
  await hasFocus(page, '[data-path="/a"] input');
  await close();
});

await check('an approver answers a request, and the focus stays on its card', async () => {
  const id = await askForApproval('admin', `keyboard ${Date.now()}`);
  const { page, close } = await byKeyboard('approver', `#approval=${id}`);
  await hasFocus(page, `[data-approval="${id}"]`);
  await tabTo(page, `[data-approval="${id}"] [aria-label="Comment"]`);
  await type(page, 'by keyboard');
  await tabTo(page, `[data-approval="${id}"] [data-verdict="grant"]`);
  await press(page, 'Enter');
  await page.locator(`[data-approval="${id}"]`).getByText('You approved it.').waitFor();
  await keepsFocus(page, 'after the answer');
  truthy(
    await page.evaluate((it) => document.querySelector(`[data-approval="${it}"]`).contains(document.activeElement), id),
    `the focus went to ${await active(page)}`,
  );
  await tabTo(page, '#tab-pending', 'Shift+Tab');
  await press(page, 'ArrowRight');
  await hasFocus(page, '#tab-history');
  await page.waitForSelector('#screen tbody tr');
  equal((await ask('approver', `/v1/approvals/${id}`)).data.state, 'granted', 'state');
  await close();
});

await check('an auditor filters the record and opens a run', async () => {
  await callTool('admin', 'demo__fail', {});
  const { page, close } = await byKeyboard('auditor');
  await page.evaluate(() => document.activeElement.blur());
  await press(page, 'g', 'r');
  await settled(page, screen('record'));
  await tabTo(page, '#record-query');
  await type(page, 'status:failed');
  await page.waitForFunction(() => /q=status/.test(location.hash));
  await page.waitForSelector('#screen tbody td a[href*="/run/"]');
  await tabTo(page, '#screen tbody td a[href*="/run/"]');
  await press(page, 'Enter');
  await page.waitForSelector('.timeline li');
  await keepsFocus(page, 'after opening a run');
  await tabTo(page, '.timeline summary');
  await press(page, 'Enter');
  await page.waitForSelector('.timeline details[open]');
  await close();
});

await check('an auditor reads why a call was denied, finds the slowest call, and saves who called what as CSV', async () => {
  await callTool('approver', 'demo__echo', { text: 'without the scope' });
  const { page, close } = await byKeyboard('auditor', '#/record');
  await page.waitForSelector('#screen tbody tr');
  await page.evaluate(() => document.activeElement.blur());
  await press(page, '/');
  await hasFocus(page, '#record-query');
  await type(page, 'type:authorization.decided actor:approver');
  await page.waitForFunction(() => /q=type%3Aauthorization.decided\+actor/.test(location.hash));
  await page.waitForSelector('#screen tbody [data-why]');
  await tabTo(page, '#screen tbody [data-why]');
  await press(page, 'Enter');
  await page.getByText('lacked').first().waitFor();
  await keepsFocus(page, 'after the explanation');
  await press(page, '/');
  await press(page, 'Control+a', 'Delete');
  await page.waitForFunction(() => !/q=/.test(location.hash));
  await tabTo(page, '#record-range');
  await type(page, 'the last 7');
  await page.waitForFunction(() => /range=7d/.test(location.hash));
  await tabTo(page, 'button[data-sort="took"]', 'Tab');
  await press(page, 'Enter');
  await page.waitForSelector('th[aria-sort="descending"] [data-sort="took"]');
  await keepsFocus(page, 'after sorting');
  await tabTo(page, '[aria-label="Format of the export"]', 'Shift+Tab');
  await type(page, 'CSV');
  await tabTo(page, '#record-export');
  const saved = page.waitForEvent('download');
  await press(page, 'Enter');
  truthy(/\.csv$/.test((await saved).suggestedFilename()), 'the file is no table');
  await close();
});

await check('an operator opens a source', async () => {
  const { page, close } = await byKeyboard('auditor');
  await page.evaluate(() => document.activeElement.blur());
  await press(page, 'g', 's');
  await settled(page, screen('sources'));
  await tabTo(page, 'tr[data-source="demo"] a');
  await press(page, 'Enter');
  await page.getByText('Limits', { exact: true }).waitFor();
  await keepsFocus(page, 'after opening a source');
  await close();
});

await check('an admin creates, rotates and revokes a key', async () => {
  const name = `keys of ${Date.now()}`;
  const { page, close } = await byKeyboard('admin', '#/access');
  await settled(page, screen('access'));
  await tabTo(page, '#new-key');
  await press(page, 'Enter');
  await hasFocus(page, 'dialog input');
  await type(page, name);
  await tabTo(page, 'dialog input[placeholder^="files"]');
  await type(page, 'demo:read');
  await press(page, 'Enter');
  await page.waitForSelector('[data-new-key]');
  await keepsFocus(page, 'after creating the key');
  // The focus stays in the dialog.
  for (let stops = 0; stops < 6; stops += 1) {
    await press(page, 'Tab');
    truthy(
      await page.evaluate(() => document.activeElement === document.body || !!document.activeElement.closest('dialog')),
      `the focus left the dialog: ${await active(page)}`,
    );
  }
  await press(page, 'Escape');
  await hasFocus(page, '#new-key');
  await page.waitForFunction((it) => document.querySelector('#screen tbody').textContent.includes(it), name);
  const row = page.locator('tr[data-key]', { hasText: name });
  const id = await row.getAttribute('data-key');
  await tabTo(page, `[data-key="${id}"] button:first-of-type`);
  await press(page, 'Enter');
  await hasFocus(page, 'dialog :is(select, button)');
  await press(page, 'Escape');
  await hasFocus(page, `[data-key="${id}"] button`);
  await tabTo(page, `[data-key="${id}"] button:last-of-type`);
  await press(page, 'Enter');
  await page.waitForSelector('[data-confirm="revoke"]');
  await tabTo(page, '[data-confirm="revoke"]');
  await press(page, 'Enter');
  await page.waitForFunction((it) => !document.querySelector(`[data-key="${it}"]`), id);
  await keepsFocus(page, 'after revoking the key');
  await close();
});

await check('a client is connected', async () => {
  const { page, close } = await byKeyboard('admin', '#/connect');
  await settled(page, screen('connect'));
  await tabTo(page, '[data-client="cursor"]');
  await press(page, 'Enter');
  await page.waitForSelector('.steps');
  await keepsFocus(page, 'after choosing a client');
  await tabTo(page, '.steps input');
  await type(page, 'demo:read');
  await press(page, 'Enter');
  await page.waitForSelector('.steps .done');
  await keepsFocus(page, 'after making the key');
  await tabTo(page, '.snippet-box button');
  await close();
});

await check('a dangerous tool asks before it runs, and Escape goes back to the button', async () => {
  const { page, close } = await byKeyboard('admin', '#tool=demo__wipe');
  await page.waitForSelector('[data-action="execute"]');
  await tabTo(page, '[data-action="execute"]');
  await press(page, 'Enter');
  await page.waitForSelector('dialog[open]');
  await press(page, 'Escape');
  await hasFocus(page, '[data-action="execute"]');
  await press(page, 'Enter');
  await tabTo(page, '[data-confirm="run"]');
  await press(page, 'Enter');
  await page.waitForSelector('.outcome.waiting');
  await keepsFocus(page, 'after running');
  await tabTo(page, 'a[data-approval]');
  await press(page, 'Enter');
  await settled(page, screen('approvals'));
  await close();
});

/** Everything that a pointer could use; rows and tabs that the arrows reach have a tabindex of -1. */
const unvisited = () => {
  const inside = document.querySelector('dialog[open]') ?? document;
  return [...inside.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
    .filter((it) => it.tabIndex >= 0 && !it.disabled && !it.dataset.visited && it.checkVisibility())
    .filter((it) => !(it.type === 'radio' && document.querySelector(`[name="${it.name}"][data-visited]`)))
    .map((it) => `${it.tagName.toLowerCase()} “${(it.textContent || it.getAttribute('aria-label') || it.id).trim().slice(0, 30)}”`);
};

for (const name of [
  'sign-in',
  'tools filters',
  'tool schema',
  'tool code',
  'form',
  'result table',
  'waiting',
  'approvals',
  'approvals decided',
  'record query problem',
  'record run',
  'source changes',
  'approvals linked, decided',
  'record slowest',
  'record why denied',
  'access role',
  'access sessions',
  'connections clients',
  'connections end client',
  'keys',
  'access new key',
  'access key shown',
  'connect key made',
  'palette',
  'account',
  'forbidden',
]) {
  await check(`Tab reaches everything, and leaves: ${name}`, async () => {
    const { page, close } = await openState(browser, STATES.find((it) => it.name === name));
    const problems = new Set();
    // From the start of the page, or of the dialog.
    if ((await page.locator('dialog[open]').count()) === 0) await atStart(page);
    let left;
    for (let stops = 0; stops < MOST_STOPS; stops += 1) {
      await page.keyboard.press('Tab');
      const at = await page.evaluate(stop);
      if (at.problem) problems.add(at.problem);
      if (at.body || stops % 8 === 7) {
        left = await page.evaluate(unvisited);
        if (left.length === 0 && (at.body || stops > 8)) break;
      }
    }
    equal([...problems], [], 'problems of the focus');
    equal(left, [], 'what the focus does not reach');
    await close();
  });
}

await checkComplaints();
await browser.close();
await finish();

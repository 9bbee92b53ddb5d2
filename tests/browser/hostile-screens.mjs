// All screens against a gateway whose every name and text is hostile: markup, a word of 10 KB,
// characters that change directions or are not seen. No script may run, nothing may break out of its
// box or turn the text around it. No toolcrib server is needed.
import { check, equal, finish, launch, openPage, truthy } from './lib.mjs';
import { NASTY, startHostile } from './hostile.mjs';
import { outOfSight, planted, unisolated, unseen } from './layout.mjs';

const browser = await launch();
const WIDTHS = [1280, 390];

/** Opens the page of a hostile gateway, signed in. */
async function openHostile(nasty) {
  const server = await startHostile({ nasty });
  const opened = await openPage(browser, { permissions: ['notifications', 'clipboard-read', 'clipboard-write'] });
  const { page } = opened;
  await page.addInitScript(() => {
    window.notes = [];
    window.Notification = class {
      static permission = 'granted';
      static requestPermission = async () => 'granted';
      constructor(title, options) {
        window.notes.push(JSON.stringify([title, options]));
      }
    };
  });
  await page.goto(server.url);
  await page.fill('#token', 'tc_hostile');
  await page.press('#token', 'Enter');
  await page.waitForSelector('.section');
  return { ...opened, server };
}

const click = (selector) => async (page) => {
  await page.click(selector);
};
const all = (selector) => async (page) => {
  await page.waitForSelector(selector);
  for (const it of await page.locator(selector).elementHandles()) await it.click();
};
const address = (...parts) => `#/${parts.map(encodeURIComponent).join('/')}`;

/** Runs the open tool, and confirms it where the page asks for that. */
const run = [
  click('[data-action="execute"]'),
  (page) => page.locator('[data-confirm="run"], .outcome, .question').first().waitFor(),
  async (page) => {
    if (await page.locator('[data-confirm="run"]').count()) await page.click('[data-confirm="run"]');
  },
];

/** What is opened, in this order; a new screen adds a line. `act` may be several steps. */
const VISITS = [
  { name: 'tools', at: '#', ready: 'button.item' },
  { name: 'filters', act: [click('#filter-toggle'), (page) => page.selectOption('#group-by', 'source')] },
  { name: 'filters closed', act: [click('#filter-toggle')] },
  ...['about', 'schema', 'history', 'snippets', 'why'].map((tab) => ({
    name: `tool ${tab}`,
    at: (nasty) => `#tool=${encodeURIComponent(`${nasty}1`)}`,
    ready: '.tool .tabs',
    act: [click(`.tool [data-tab="${tab}"]`)],
  })),
  { name: 'changes of a tool', act: [click('.tool [data-tab="about"]'), click('text=Show what changed')], ready: '.tool' },
  { name: 'schema as JSON', act: [click('.tool [data-tab="schema"]'), click('[data-schema="input-json"]')] },
  { name: 'confirm', act: [click('.tool [data-tab="try"]'), click('[data-action="execute"]')] },
  { name: 'waiting', act: [click('[data-confirm="run"]'), (page) => page.waitForSelector('.outcome.waiting')] },
  {
    name: 'result',
    at: (nasty) => `#tool=${encodeURIComponent(`${nasty}2`)}`,
    ready: '.tool .tabs',
    act: [...run, (page) => page.waitForSelector('.outcome')],
  },
  {
    name: 'question',
    at: (nasty) => `#tool=${encodeURIComponent(`${nasty}3`)}`,
    ready: '.tool .tabs',
    act: [...run, (page) => page.getByRole('heading', { name: 'Your answer' }).waitFor()],
  },
  { name: 'question cancelled', act: [click('[data-action="cancel"]')] },
  { name: 'another result', at: (nasty) => `#tool=${encodeURIComponent(`${nasty}2`)}`, ready: '.outcome' },
  { name: 'result raw', act: [click('.outcome [data-tab="raw"]')] },
  { name: 'palette', act: [(page) => page.keyboard.press('Control+k'), (page) => page.waitForSelector('#palette-list li')] },
  { name: 'palette closed', act: [(page) => page.keyboard.press('Escape')] },
  { name: 'account', act: [click('#account-button')] },
  { name: 'approvals', at: '#/approvals', ready: '.approval', act: [all('.approval summary')] },
  { name: 'an approval', at: (nasty) => address('approvals', `${nasty}1`), ready: '.approval.marked' },
  { name: 'answered', act: [click('[data-verdict="reject"] >> nth=0'), (page) => page.waitForTimeout(150)] },
  { name: 'decided', at: '#/approvals/history', ready: '#screen tbody tr' },
  { name: 'record', at: '#/record', ready: '#screen tbody tr' },
  { name: 'record filtered', act: [click('#screen tbody td:nth-child(3) a >> nth=0')] },
  { name: 'record as table', at: '#/record', ready: '#screen tbody tr', act: [click('text=Show as a table')] },
  { name: 'run', at: (nasty) => address('record', 'run', nasty), ready: '.timeline li', act: [all('.timeline summary')] },
  { name: 'sources', at: '#/sources', ready: '#screen tbody tr' },
  { name: 'a source', at: (nasty) => address('sources', `${nasty}1`), ready: '#screen .lines', act: [all('#screen [aria-expanded="false"]'), (page) => page.waitForSelector('.diff')] },
  { name: 'a change that is refused', act: [click('[data-approve] >> nth=0'), (page) => page.waitForSelector('.problem-box')] },
  { name: 'access', at: '#/access', ready: '#screen tbody tr' },
  { name: 'roles', at: '#/access/roles', ready: 'tr[data-role]' },
  { name: 'a role', at: (nasty) => address('access', 'roles', nasty), ready: 'tr[data-tool]' },
  { name: 'a change of a role', act: [click('[data-change]'), click('dialog [data-continue]'), (page) => page.waitForSelector('[data-proposal]')] },
  { name: 'a change that is not written', act: [click('[data-write]'), (page) => page.waitForSelector('[data-proposal] .problem-box >> nth=2')] },
  { name: 'a change closed', act: [(page) => page.keyboard.press('Escape')] },
  { name: 'rotate', at: '#/access', ready: 'tr[data-key]', act: [click('text=Rotate >> nth=0'), click('dialog .button.primary'), (page) => page.waitForSelector('dialog .problem-box')] },
  { name: 'rotate closed', act: [(page) => page.keyboard.press('Escape')] },
  {
    name: 'a new key',
    act: [
      click('#new-key'),
      (page) => page.fill('dialog input >> nth=0', 'x'),
      (page) => page.fill('dialog input[placeholder^="files"]', 'x:y'),
      click('dialog .button.primary'),
      (page) => page.waitForSelector('[data-new-key]'),
    ],
  },
  { name: 'a new key closed', act: [(page) => page.keyboard.press('Escape')] },
  {
    name: 'connect',
    at: '#/connect/claude-code',
    ready: '.steps input',
    act: [(page) => page.fill('.steps input', 'x:y'), click('.steps .button.primary'), (page) => page.waitForSelector('.steps .done')],
  },
  { name: 'no screen', at: (nasty) => address(nasty), ready: '#screen .empty' },
];

/** Where the page has to be clean: everywhere, after each visit. */
async function problems(page) {
  const found = [];
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 860 });
    for (const it of await page.evaluate(outOfSight)) found.push(`${width} px: ${it}`);
  }
  await page.setViewportSize({ width: WIDTHS[0], height: 860 });
  await page.evaluate(() => (document.documentElement.dir = 'rtl'));
  for (const it of await page.evaluate(outOfSight)) found.push(`right to left: ${it}`);
  for (const it of await page.evaluate(unisolated)) found.push(`right to left: ${it}`);
  await page.evaluate(() => document.documentElement.removeAttribute('dir'));
  found.push(...(await page.evaluate(planted)), ...(await page.evaluate(unseen)));
  if (await page.evaluate(() => window.pwned === 1)) found.push('a script from the server has run');
  return found;
}

await check('the checks of this script find what they look for', async () => {
  const { page, close } = await openPage(browser);
  const server = await startHostile();
  await page.goto(server.url);
  await page.waitForSelector('button.item');
  await page.evaluate(() => {
    const box = document.createElement('div');
    box.append('a \u202e name', ' and what follows', document.createElement('iframe'));
    const link = document.createElement('a');
    link.setAttribute('href', 'javascript:void 0');
    const wide = document.createElement('p');
    wide.textContent = 'W'.repeat(2000);
    wide.className = 'nowrap';
    box.append(link, wide, ' \u05e9\u05dc\u05d5\u05dd ');
    document.querySelector('#detail').append(box);
  });
  const found = (await problems(page)).join('\n');
  for (const part of ['IFRAME', 'javascript:', 'hidden character', 'sideways', 'among other texts'])
    truthy(found.includes(part), `${part} is not found: ${found}`);
  await close();
  await server.close();
});

const complaints = [];
for (const [kind, nasty] of Object.entries(NASTY)) {
  const { page, server, close, complaints: said } = await openHostile(nasty);
  for (const { name, at, ready, act = [] } of VISITS) {
    await check(`${kind}: ${name}`, async () => {
      if (at !== undefined) {
        await page.keyboard.press('Escape');
        const target = typeof at === 'function' ? at(nasty) : at;
        // The same address again would open nothing.
        await page.evaluate((it) => {
          if (location.hash !== it) location.hash = it;
        }, target);
      }
      if (ready) await page.waitForSelector(ready);
      for (const step of act) await step(page);
      await page.waitForTimeout(60); // gives an error handler of an image time to run
      equal(await problems(page), [], 'problems');
    });
  }
  await check(`${kind}: a notification names nothing`, async () => {
    await page.evaluate(() => {
      location.hash = '#/approvals';
    });
    await page.waitForSelector('.approvals-screen');
    await page.getByText('Notify me of new requests').click();
    await page.getByText('Notifications are on').waitFor();
    await page.waitForTimeout(200); // the page counts what is pending now
    await page.evaluate(async () => {
      Object.defineProperty(document, 'hidden', { get: () => true });
      const { state, emit } = await window.moduleOf('state.js');
      state.pending += 1;
      emit('counts');
    });
    const notes = await page.evaluate(() => window.notes);
    equal(notes.length, 1, 'notifications');
    truthy(!notes[0].includes(JSON.stringify(nasty).slice(1, 20)), `it says ${notes[0].slice(0, 200)}`);
    truthy(/^\(\d+\) /.test(await page.title()), 'the title');
  });
  await check(`${kind}: a signed out page keeps nothing`, async () => {
    await page.click('#account-button');
    await page.click('#sign-out');
    await page.waitForSelector('#token:visible');
    equal(await page.evaluate(() => [localStorage.length, sessionStorage.length]), [0, 0], 'stored');
  });
  complaints.push(...said);
  await close();
  await server.close();
}

await check('no error or exception was reported', () =>
  equal(complaints.filter((it) => !/422/.test(it)), [], 'complaints'),
);
await browser.close();
await finish();

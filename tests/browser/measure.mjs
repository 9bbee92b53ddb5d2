// Figures of the page with 5 000 tools and a large record, for docs/reference/benchmarks.md. Not a test.
//
//   TOOLCRIB_URL=… TOOLCRIB_KEY_ADMIN=… node measure.mjs
import { launch, openPage, startSession } from './lib.mjs';
import { manyTools, serveTools } from './catalogs.mjs';
import { keystrokes, tasks, traced } from './trace.mjs';

const { TOOLCRIB_URL, TOOLCRIB_KEY_ADMIN } = process.env;
const explorer = `${TOOLCRIB_URL}/explorer`;
const TOOLS_OF_PAGE = manyTools(5000);
/** How much slower the processor of a slow machine is. */
const SLOW = 4;
const REPEATS = 5;
/** Pages of older events that are loaded before the page is scrolled to its end. */
const PAGES = 10;

const SCREENS = [
  { name: 'Tools', address: '', ready: 'button.item' },
  { name: 'Approvals', address: '#/approvals', ready: '.approvals-screen :is(.approval, .empty)' },
  { name: 'Record, the last 7 days', address: '#/record?range=7d', ready: 'tr[data-type]', more: '.chart svg' },
  { name: 'Record, all time', address: '#/record?range=all', ready: 'tr[data-type]', more: '.chart svg' },
  { name: 'Sources', address: '#/sources', ready: 'tr[data-source]' },
  { name: 'Access', address: '#/access', ready: 'tr[data-key]' },
  { name: 'Connect', address: '#/connect', ready: '.client' },
];

const browser = await launch();
const median = (all) => [...all].sort((a, b) => a - b)[Math.floor(all.length / 2)];
const ms = (value) => (value === undefined ? '–' : `${Math.round(value)} ms`);

/** Opens a page that is signed in and notes when the first frame with `ready` (and `more`) was painted. */
async function open({ address, ready, more }, slow = 1) {
  const { page, close } = await openPage(browser);
  await serveTools(page, () => TOOLS_OF_PAGE);
  await startSession(page, new URL(explorer).origin, TOOLCRIB_KEY_ADMIN);
  await page.addInitScript(
    (wanted) => {
      window.painted = {};
      const look = () => {
        for (const [name, selector] of wanted)
          if (!(name in window.painted) && document.querySelector(selector)) {
            window.painted[name] = undefined;
            requestAnimationFrame(() => setTimeout(() => (window.painted[name] = performance.now())));
          }
        // A loop that goes on would be part of what is measured.
        if (Object.keys(window.painted).length < wanted.length) requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    },
    Object.entries({ ready, more }).filter(([, it]) => it),
  );
  if (slow > 1) {
    const client = await page.context().newCDPSession(page);
    await client.send('Emulation.setCPUThrottlingRate', { rate: slow });
  }
  await page.goto(`${explorer}${address}`);
  await page.waitForFunction(
    (names) => names.every((name) => window.painted[name] !== undefined),
    more ? ['ready', 'more'] : ['ready'],
  );
  return { page, close, times: await page.evaluate(() => window.painted) };
}

async function memory(page) {
  const client = await page.context().newCDPSession(page);
  await client.send('HeapProfiler.collectGarbage');
  await client.send('Performance.enable');
  const { metrics } = await client.send('Performance.getMetrics');
  const of = (name) => metrics.find((it) => it.name === name).value;
  return `${(of('JSHeapUsedSize') / 2 ** 20).toFixed(1)} MiB, ${of('Nodes')} nodes`;
}

console.log('| Screen | First rows | Charts | First rows, slow processor | Charts, slow processor |');
console.log('|---|---|---|---|---|');
for (const screen of SCREENS) {
  const cells = [];
  for (const slow of [1, SLOW]) {
    const all = [];
    for (let at = 0; at < REPEATS; at += 1) {
      const { close, times } = await open(screen, slow);
      all.push(times);
      await close();
    }
    cells.push(ms(median(all.map((it) => it.ready))), screen.more ? ms(median(all.map((it) => it.more))) : '–');
  }
  console.log(`| ${screen.name} | ${cells.join(' | ')} |`);
}

const line = (what, figure) => console.log(`| ${what} | ${figure} |`);
console.log('\n| Action | Figure |\n|---|---|');

{
  const { page, close } = await open(SCREENS[0]);
  await page.focus('#search');
  const typed = await traced(page, async () => {
    for (const key of 'tool_49') {
      await page.keyboard.type(key);
      await page.waitForTimeout(350);
    }
  });
  line('Tools: a keystroke in the search, at most', `${Math.max(...keystrokes(typed)).toFixed(1)} ms`);
  await page.fill('#search', '');
  await page.waitForTimeout(500);
  const scrolled = await traced(page, () => scrollToEnd(page, '#tools'));
  line('Tools: longest task while scrolling to the end', `${tasks(scrolled)[0].toFixed(1)} ms`);
  line('Tools: JavaScript heap and nodes', await memory(page));
  await close();
}
{
  const { page, close } = await open(SCREENS[3]);
  await page.focus('#record-query');
  let found;
  const typed = await traced(page, async () => {
    for (const key of 'status:failed') {
      await page.keyboard.type(key);
      await page.waitForTimeout(150);
    }
    const before = await page.evaluate(() => performance.now());
    await page.waitForFunction(
      () =>
        document.querySelectorAll('tr[data-type]').length > 0 &&
        [...document.querySelectorAll('tr[data-type] .badge')].every((it) => it.textContent.trim() === 'error'),
    );
    found = (await page.evaluate(() => performance.now())) - before + 150;
  });
  line('Record: a keystroke in the query, at most', `${Math.max(...keystrokes(typed)).toFixed(1)} ms`);
  line('Record: from the last keystroke to the matches (250 ms of them a pause)', ms(found));
  await page.fill('#record-query', '');
  await page.waitForTimeout(1500);
  const more = [];
  for (let at = 1; at <= PAGES; at += 1) {
    const began = await page.evaluate(() => performance.now());
    await page.click('text=Show older events');
    await page.waitForFunction((rows) => document.querySelectorAll('tr[data-type]').length >= rows, (at + 1) * 100);
    more.push((await page.evaluate(() => performance.now())) - began);
  }
  line(`Record: 100 older events, median of ${PAGES}`, ms(median(more)));
  const scrolled = await traced(page, () => scrollToEnd(page));
  line(`Record: longest task while scrolling to the end of ${(PAGES + 1) * 100} events`, `${tasks(scrolled)[0].toFixed(1)} ms`);
  line('Record: JavaScript heap and nodes with them', await memory(page));
  await close();
}
await browser.close();

/** Scrolls an element, or the page, to its end by turns of a wheel. */
async function scrollToEnd(page, selector) {
  await page.evaluate(async (it) => {
    const box = it ? document.querySelector(it) : document.scrollingElement;
    for (let at = 1; at <= 60; at += 1) {
      box.scrollTop = (box.scrollHeight * at) / 60;
      await new Promise(requestAnimationFrame);
    }
  }, selector);
}

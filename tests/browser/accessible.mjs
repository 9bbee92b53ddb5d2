// Checks a state of a screen for people: axe-core in both themes, three widths, on paper and written from
// right to left; reflow at 320 CSS px and at a zoom of 200 %; and reduced motion.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { check, equal, finish, launch } from './lib.mjs';
import { checkComplaints, startRoles } from './screens.mjs';
import { openState, startStates } from './states.mjs';
import { outOfSight, shapes } from './layout.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** A desk, a tablet, a phone, a zoom of 200 % at 1280 × 800, and the narrowest page that has to reflow (WCAG 1.4.10). */
const SIZES = [
  { width: 1280, height: 860, axe: true },
  { width: 768, height: 1024, axe: true },
  { width: 390, height: 844, axe: true },
  { width: 640, height: 400, scale: 2 },
  { width: 320, height: 640 },
];
/** States that are checked at the same time. */
const LANES = 3;

async function checkState(browser, state) {
  const { page, close } = await openState(browser, state, {
    before: async (it) => {
      await it.addInitScript({ content: axe });
      await state.before?.(it);
    },
    reducedMotion: 'reduce',
  });
  const client = await page.context().newCDPSession(page);
  const found = [];
  const resize = ({ width, height, scale = 1 }) =>
    client.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: scale, mobile: false });
  const look = async (where) => {
    const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
    for (const { id, nodes } of violations)
      found.push(`${where}: ${id} at ${nodes.map(({ target }) => target).slice(0, 3).join(', ')}`);
  };
  for (const size of SIZES) {
    await resize(size);
    for (const colorScheme of size.axe ? ['light', 'dark'] : []) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await look(`${size.width} px, ${colorScheme}`);
    }
    for (const problem of await page.evaluate(outOfSight)) found.push(`${size.width} px: ${problem}`);
  }
  await resize(SIZES[0]);
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
  for (const problem of await page.evaluate(shapes)) found.push(problem);
  // As a browser does that writes from right to left.
  await page.evaluate(() => (document.documentElement.dir = 'rtl'));
  for (const size of [SIZES[2], SIZES[0]]) {
    await resize(size);
    for (const problem of await page.evaluate(outOfSight)) found.push(`right to left, ${size.width} px: ${problem}`);
  }
  await look('right to left');
  await page.evaluate(() => document.documentElement.removeAttribute('dir'));
  await page.emulateMedia({ media: 'print', colorScheme: 'light', reducedMotion: 'reduce' });
  await look('on paper');
  await close();
  equal([...new Set(found)], [], 'problems');
}

/** Checks the states, several at the same time, and ends the script. An argument of the script names one. */
export async function checkStates(all) {
  const browser = await launch();
  await startRoles();
  await startStates();
  const only = process.argv[2];
  const queue = all.filter(({ name }) => only === undefined || name === only);
  await Promise.all(
    Array.from({ length: LANES }, async () => {
      for (let state; (state = queue.shift()); )
        await check(`${state.name}: no accessibility problem in any theme and size, on paper or from right to left`, () =>
          checkState(browser, state),
        );
    }),
  );
  await checkComplaints();
  await browser.close();
  await finish();
}

// Every state of every screen: axe-core in both themes and widths, reflow at 320 CSS px and at a zoom
// of 200 %, reduced motion, and the journeys by keyboard alone.
//
//   TOOLCRIB_URL=http://127.0.0.1:8808 TOOLCRIB_KEY_ADMIN=tc_… TOOLCRIB_KEY_READER=tc_… \
//     TOOLCRIB_KEY_APPROVER=tc_… TOOLCRIB_KEY_OTHER_TENANT=tc_… node accessibility.mjs [STATE]
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { check, equal, finish, launch } from './lib.mjs';
import { checkComplaints, startRoles } from './screens.mjs';
import { STATES, openState, startStates } from './states.mjs';
import { outOfSight, shapes } from './layout.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** A phone, a zoom of 200 % at 1280 × 800, and the narrowest page that has to reflow (WCAG 1.4.10). */
const SIZES = [
  { width: 1280, height: 860, axe: true },
  { width: 390, height: 844, axe: true },
  { width: 640, height: 400, scale: 2 },
  { width: 320, height: 640 },
];
/** States that are checked at the same time. */
const LANES = 3;

const browser = await launch();
await startRoles();
await startStates();

const only = process.argv[2];
const states = STATES.filter(({ name }) => only === undefined || name === only);

async function checkState(state) {
  const { page, close } = await openState(browser, state, {
    before: async (it) => {
      await it.addInitScript({ content: axe });
      await state.before?.(it);
    },
    reducedMotion: 'reduce',
  });
  const client = await page.context().newCDPSession(page);
  const found = [];
  for (const { width, height, scale = 1, axe: full } of SIZES) {
    await client.send('Emulation.setDeviceMetricsOverride', {
      width,
      height,
      deviceScaleFactor: scale,
      mobile: false,
    });
    for (const colorScheme of full ? ['light', 'dark'] : ['light']) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      const where = `${width} px${full ? `, ${colorScheme}` : ''}`;
      if (full) {
        const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
        for (const { id, nodes } of violations)
          found.push(`${where}: ${id} at ${nodes.map(({ target }) => target).slice(0, 3).join(', ')}`);
      }
    }
    for (const problem of await page.evaluate(outOfSight)) found.push(`${width} px: ${problem}`);
  }
  for (const problem of await page.evaluate(shapes)) found.push(problem);
  await close();
  equal([...new Set(found)], [], 'problems');
}

const queue = [...states];
await Promise.all(
  Array.from({ length: LANES }, async () => {
    for (let state; (state = queue.shift()); )
      await check(`${state.name}: no accessibility problem in any theme and size`, () => checkState(state));
  }),
);

await checkComplaints();
await browser.close();
await finish();

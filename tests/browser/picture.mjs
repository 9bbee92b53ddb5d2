// Takes pictures: that of the README, or of every state of every screen in light, dark and at the width
// of a phone, to look at them.
//
//   TOOLCRIB_URL=… TOOLCRIB_KEY_ADMIN=… PICTURE=explorer.png node picture.mjs
//   TOOLCRIB_URL=… TOOLCRIB_KEY_…=… PICTURES=FOLDER node picture.mjs [STATE]
import { join } from 'node:path';
import { launch, openPage } from './lib.mjs';

const { TOOLCRIB_URL, TOOLCRIB_KEY_ADMIN, PICTURE, PICTURES } = process.env;
const LOOKS = [
  { name: 'light', colorScheme: 'light', width: 1280, height: 800 },
  { name: 'dark', colorScheme: 'dark', width: 1280, height: 800 },
  { name: 'phone', colorScheme: 'light', width: 390, height: 844 },
];
const browser = await launch();
if (PICTURE) await readme();
if (PICTURES) await states();
await browser.close();

async function readme() {
  const { page } = await openPage(browser, {
    viewport: { width: 1180, height: 760 },
    colorScheme: 'light',
  });
  await page.goto(`${TOOLCRIB_URL}/explorer`);
  await page.fill('#token', TOOLCRIB_KEY_ADMIN);
  await page.press('#token', 'Enter');
  await page.click('button.item[data-name="library__find_books"]');
  await page.click('[data-action="execute"]');
  await page.locator('.outcome').waitFor();
  await page.screenshot({ path: PICTURE });
}

async function states() {
  const { startRoles } = await import('./screens.mjs');
  const { STATES, openState, startStates } = await import('./states.mjs');
  await startRoles();
  await startStates();
  const only = process.argv[2];
  for (const state of STATES.filter(({ name }) => only === undefined || name === only)) {
    const { page, close } = await openState(browser, state);
    for (const { name, colorScheme, width, height } of LOOKS) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height });
      await page.waitForTimeout(100); // lists draw their rows for the new size
      await page.screenshot({ path: join(PICTURES, `${state.name.replaceAll(' ', '-')}-${name}.png`) });
    }
    await close();
  }
}

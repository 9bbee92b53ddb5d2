// Takes the picture of the README: the explorer with a tool and the result of a call.
//
//   TOOLCRIB_URL=… TOOLCRIB_KEY_ADMIN=… PICTURE=explorer.png node picture.mjs
import { launch, openPage } from './lib.mjs';

const { TOOLCRIB_URL, TOOLCRIB_KEY_ADMIN, PICTURE } = process.env;
const browser = await launch();
const { page } = await openPage(browser, {
  viewport: { width: 1180, height: 760 },
  colorScheme: 'light',
});
await page.goto(`${TOOLCRIB_URL}/explorer`);
await page.fill('#token', TOOLCRIB_KEY_ADMIN);
await page.click('#use-key');
await page.click('button.item[data-name="library__find_books"]');
await page.click('[data-action="execute"]');
await page.locator('.outcome').waitFor();
await page.screenshot({ path: PICTURE });
await browser.close();

// Each screen of the console as each role: what the navigation shows, what opens, and what a role that
// may not open a screen reads in its place.
//
//   TOOLCRIB_URL=http://127.0.0.1:8808 TOOLCRIB_KEY_ADMIN=tc_… TOOLCRIB_KEY_READER=tc_… \
//     TOOLCRIB_KEY_APPROVER=tc_… TOOLCRIB_KEY_OTHER_TENANT=tc_… node roles.mjs
import { check, equal, finish, launch, signIn, truthy } from './lib.mjs';
import {
  ROLES,
  SCREENS,
  SIGNED_IN,
  as,
  ask,
  askForApproval,
  callTool,
  checkComplaints,
  goTo,
  keyOf,
  opens,
  settled,
  startRoles,
} from './screens.mjs';

const browser = await launch();
await startRoles();
const mark = `roles${Date.now()}`;
// Something to see for each role that may see it.
await callTool('admin', 'demo__echo', { text: mark });
const asked = await askForApproval('admin', mark);

const shownSections = (page) =>
  page.locator('.section').evaluateAll((all) => all.map((it) => it.dataset.section));

await check('the roles have the keys that this script takes them for', async () => {
  for (const role of SIGNED_IN) {
    const { data } = await ask(role, '/v1/whoami');
    equal([data.tenant, data.scopes], [ROLES[role].tenant, ROLES[role].scopes], role);
  }
  equal((await ask('anonymous', '/v1/whoami')).status, 401, 'status without a key');
});

// One after the other for a role, and the roles at the same time.
const ofRole = async (role) => {
  await check(`${role}: the navigation has the screens that the role may open`, async () => {
    const { page, close } = await as(browser, role);
    const wanted = SCREENS.filter((screen) => opens(role, screen)).map(({ id }) => id);
    equal(await shownSections(page), wanted, 'sections');
    // The palette has the same.
    await page.keyboard.press('Control+k');
    await page.waitForSelector('#palette-list');
    const entries = await page
      .locator('#palette-list li:has(.muted:text-is("screen")) bdi')
      .allTextContents();
    const names = SCREENS.filter((screen) => opens(role, screen)).map(({ name }) => name);
    equal(entries, names, 'screens of the palette');
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => !document.querySelector('dialog[open]'));
    // `g` and a letter open what the role may open, and nothing else.
    for (const screen of SCREENS) {
      await goTo(page, '#/connect');
      await settled(page, SCREENS.find(({ id }) => id === 'connect'));
      await page.evaluate(() => document.activeElement.blur());
      await page.keyboard.press('g');
      await page.keyboard.press(screen.letter);
      if (opens(role, screen)) await settled(page, screen);
      else equal(await page.evaluate(() => location.hash), '#/connect', `after g ${screen.letter}`);
    }
    await close();
  });

  for (const screen of SCREENS) {
    await check(`${role}: ${screen.name} ${opens(role, screen) ? 'opens' : 'says what is missing'}`, async () => {
      // A link from elsewhere: its address survives the sign-in.
      const { page, close } = await as(browser, role, screen.address);
      equal(new URL(page.url()).hash, screen.address === '#' ? '' : screen.address, 'address');
      if (opens(role, screen)) {
        await settled(page, screen);
        if (screen.id !== 'tools')
          equal((await page.textContent('#screen h2')).trim(), screen.name, 'heading');
        equal(await page.getAttribute(`[data-section="${screen.id}"].section`, 'aria-current'), 'page', 'current');
        truthy((await page.title()).includes(screen.id === 'tools' ? 'toolcrib' : screen.name), await page.title());
        equal(await page.locator('[role=alert]').count(), 0, 'problems shown');
      } else {
        await page.waitForSelector('#screen .empty');
        const explanation = await page.textContent('#screen .empty');
        truthy(explanation.includes(screen.scope), `the missing scope is not named: ${explanation}`);
        truthy(/administrator of your tenant/.test(explanation), `it does not say who can give it: ${explanation}`);
        equal(await page.locator('#screen .empty a').getAttribute('href'), '#', 'the next step');
        equal(await page.locator('.section[aria-current]').count(), 0, 'current sections');
      }
      await close();
    });
  }
};
await Promise.all(SIGNED_IN.map(ofRole));

for (const screen of SCREENS) {
  await check(`anonymous: ${screen.name} asks for a key, and keeps the address`, async () => {
    const { page, close } = await as(browser, 'anonymous', screen.address);
    await page.waitForSelector('#signin');
    equal(await shownSections(page), [], 'sections');
    equal(await page.locator('button.item, #screen *').count(), 0, 'content');
    equal(await page.isVisible('#token'), true, 'the field for the key');
    // Shortcuts and the palette open nothing either.
    await page.evaluate(() => document.activeElement.blur());
    for (const key of ['Control+k', 'g', screen.letter]) await page.keyboard.press(key);
    equal(await page.locator('dialog').count(), 0, 'dialogs');
    equal(new URL(page.url()).hash, screen.address === '#' ? '' : screen.address, 'address');
    await signIn(page, keyOf('admin'));
    await settled(page, screen);
    await close();
  });
}

await check('an unknown screen says so, with a way back', async () => {
  const { page, close } = await as(browser, 'admin', '#/no-such-screen');
  await page.getByText('Screen not found').waitFor();
  await page.click('#screen .empty a');
  await settled(page, SCREENS[0]);
  await close();
});

await check('a rejected key opens nothing', async () => {
  const { page, close } = await as(browser, 'anonymous', '#/record');
  await page.fill('#token', 'tc_000000000000000000000000000000000000000000');
  await page.press('#token', 'Enter');
  await page.getByText('Key rejected').waitFor();
  equal(await page.locator('.section, #screen *').count(), 0, 'content');
  await close();
});

await check('a key that is revoked while the page is open closes its screens', async () => {
  const made = await ask('admin', '/v1/keys', { name: mark, scopes: ['audit:read'] });
  const { page, close } = await as(browser, 'anonymous', '#/record');
  await signIn(page, made.data.key);
  await settled(page, SCREENS.find(({ id }) => id === 'record'));
  await ask('admin', `/v1/keys/${made.data.id}`, undefined, 'DELETE');
  await page.click('#screen .screen-head button');
  await page.waitForSelector('#signin', { timeout: 5_000 });
  equal(await page.locator('.section, #screen *').count(), 0, 'content');
  equal(new URL(page.url()).hash, '#/record', 'address');
  await close();
});

await check('signing out and in as another role leaves nothing of the first', async () => {
  const { page, close } = await as(browser, 'admin', '#/approvals');
  await page.waitForSelector(`[data-approval="${asked}"]`);
  await page.click('#account-button');
  await page.click('#sign-out');
  await page.waitForSelector('#signin');
  equal(await page.locator('.section, #screen *').count(), 0, 'content');
  await signIn(page, keyOf('other'));
  await page.waitForSelector('.approvals-screen .empty');
  const text = await page.evaluate(() => document.documentElement.outerHTML);
  truthy(!text.includes(asked) && !text.includes('admin'), 'the page still has data of the first');
  await close();
});

for (const [role, buttons] of [
  ['approver', 2],
  ['caller', 0],
  ['auditor', 0],
]) {
  await check(`${role}: a pending request has ${buttons} answers`, async () => {
    const { page, close } = await as(browser, role, '#/approvals');
    await settled(page, SCREENS.find(({ id }) => id === 'approvals'));
    const { data } = await ask(role, '/v1/approvals?state=pending');
    equal(await page.locator('.approval').count(), data.approvals.length, 'requests');
    equal(await page.locator(`[data-approval="${asked}"] [data-verdict]`).count(), buttons, 'buttons');
    await close();
  });
}

await checkComplaints();
await browser.close();
await finish();

// The page's own modules against hostile input, without a toolcrib server: nothing from a tool may
// run, break out of its place, or change what is sent.
import { check, equal, finish, launch, openPage, truthy } from './lib.mjs';
import { BLOCKS, PWN, startHostile } from './hostile.mjs';

const server = await startHostile();
const browser = await launch();
const { page, complaints } = await openPage(browser);
await page.goto(server.url);
await page.waitForSelector('button.item');

const pwned = (target = page) => target.evaluate(() => window.pwned === 1);
const open = async (name, target = page) => {
  await target.evaluate((wanted) => {
    location.hash = `tool=${encodeURIComponent(wanted)}`;
  }, name);
  await target.waitForFunction(
    (wanted) => document.querySelector('.tool h2')?.textContent === wanted,
    name,
  );
};
/** Requires that no script ran, and that no element was created by markup from a tool. */
const clean = async (target = page) => {
  await target.waitForTimeout(100); // gives an image's error handler time to run
  truthy(!(await pwned(target)), 'script from a tool has run');
  const planted = await target.evaluate(() => {
    // The virtual list places its rows.
    const isPlace = (element) =>
      element.matches('#tools > .items, #tools > .items > li') &&
      /^(height: \d+px|transform: translateY\(\d+px\));$/.test(element.getAttribute('style'));
    const attributes = [...document.querySelectorAll('body *')].flatMap((element) =>
      element
        .getAttributeNames()
        .filter((name) => name.startsWith('on') || (name === 'style' && !isPlace(element))),
    );
    const links = [...document.querySelectorAll('a[href]')]
      .map((link) => link.getAttribute('href'))
      .filter((href) => !/^(#|https?:)/.test(href));
    return [
      ...attributes,
      ...links,
      ...[...document.querySelectorAll('body script, iframe, object, embed, svg script')].map(
        (element) => element.tagName,
      ),
    ];
  });
  equal(planted, [], 'planted attributes, links and elements');
};

await check('blocks.js renders hostile content blocks as text', async () => {
  const shown = await page.evaluate(async (blocks) => {
    const { html, render } = await window.moduleOf('lib/ui.js');
    const { Content } = await window.moduleOf('tools/blocks.js', 'tools-tool-view.js');
    const element = document.createElement('section');
    document.body.append(element);
    render(html`<${Content} content=${blocks} />`, element);
    const found = {
      blocks: element.querySelectorAll('.block').length,
      images: [...element.querySelectorAll('img')].map((image) =>
        image.getAttribute('src').slice(0, 22),
      ),
      links: element.querySelectorAll('a').length,
    };
    await new Promise((resolve) => {
      setTimeout(resolve, 200);
    });
    return found;
  }, BLOCKS);
  await clean();
  equal(shown.blocks, BLOCKS.length, 'blocks');
  equal(shown.images, ['data:image/png;base64,'], 'images');
  equal(shown.links, 1, 'links');
  await page.evaluate(() => document.querySelector('body > section').remove());
});

await check('the list shows hostile names as text and counts unreadable entries', async () => {
  equal(await page.locator('button.item').count(), 6, 'tools');
  truthy(
    (await page.textContent('#count')).includes('3 unreadable'),
    'unreadable tools are not counted',
  );
  truthy((await page.textContent('#tools')).includes(PWN), 'the name is not shown as it is');
  await page.fill('#search', 'img src');
  await clean();
  await page.fill('#search', '');
});

await check('a hostile tool opens, in all its tabs', async () => {
  await open(PWN);
  for (const tab of ['about', 'schema', 'snippets', 'history', 'try']) {
    await page.click(`.tool [data-tab="${tab}"]`);
    await page.waitForTimeout(100); // each tab is loaded when it is shown
  }
  await clean();
});

await check('the form starts from the required keys, defaults and nulls exactly', async () => {
  await page.click('[data-mode="json"]');
  equal(
    await page.inputValue('textarea.json'),
    `{\n  "__proto__": null,\n  "constructor": ${JSON.stringify(PWN)},\n  "n": 9007199254740993,\n  "flag": false,\n  "missing": null\n}`,
    'prefill',
  );
  await page.click('[data-mode="form"]');
});

await check('recursive schemas end', async () => {
  for (const key of ['self', 'list', 'far', 'odd', 'pick', 'forms', 'map', 'loop'])
    await page.click(`[data-add="${key}"]`);
  await page.click('[data-choice="/forms"] .radio >> nth=1');
  await page.click('[data-entry="/map"]');
  await page.click('[data-path="/loop"] .chip');
  await page.click('[data-path="/list"] .chip');
  await clean();
});

await check('a field that is required and empty is named before anything is sent', async () => {
  await page.click('[data-action="validate"]');
  await page.waitForSelector('.output .verdict.bad');
  truthy(/__proto__: Fill this in/.test(await page.textContent('.violations')), 'not named');
  for (const key of ['/__proto__', '/loop/__proto__'])
    await page.fill(`[data-path="${key}"] > :is(input, textarea)`, 'p');
  await page.click('[data-path="/list"] > .nested .remove');
  await page.fill('[data-path="/map/name1"] textarea', PWN);
});

await check('hostile validator messages are text, at their field', async () => {
  await page.click('[data-action="validate"]');
  await page.waitForSelector('.output .verdict.bad');
  equal(await page.locator('.violations li').count(), 3, 'violations');
  equal(
    await page.locator('[data-path="/__proto__"] .field-error').first().textContent(),
    PWN,
    'mark',
  );
  await clean();
});

await check('a destructive tool requires a confirmation; its hostile result is text', async () => {
  await page.click('[data-action="execute"]');
  await page.waitForSelector('dialog[open]');
  equal(server.bodies.length, 0, 'calls before the confirmation');
  await page.keyboard.press('Escape');
  equal(await page.locator('dialog').count(), 0, 'open questions');
  equal(server.bodies.length, 0, 'calls after Escape');
  await page.click('[data-action="execute"]');
  await page.click('[data-confirm="run"]');
  await page.waitForSelector('.outcome');
  await page.click('.outcome [data-tab="raw"]');
  await clean();
});

await check('a number beyond 2^53 and a __proto__ key are sent unchanged', async () => {
  const body = server.bodies.at(-1);
  truthy(body.includes('"n":9007199254740993'), `n is not exact in ${body.slice(0, 200)}`);
  truthy(body.startsWith('{"__proto__":"p"'), 'the __proto__ key is gone');
});

await check('JSON is sent byte for byte, and not at all when it does not parse', async () => {
  await open('plain');
  const calls = server.bodies.length;
  await page.click('[data-mode="json"]');
  await page.fill('textarea.json', '{"text": }');
  await page.click('[data-action="execute"]');
  truthy(
    /line 1, column 10/.test(await page.textContent('.editor > .field-error')),
    'the place is not named',
  );
  equal(server.bodies.length, calls, 'calls');
  await page.fill('textarea.json', '{ "text":  1.10 }');
  await page.click('[data-action="execute"]');
  await page.waitForSelector('.outcome');
  equal(server.bodies.at(-1), '{ "text":  1.10 }', 'body');
});

await check('embedded in another program, only what works there is shown', async () => {
  await open('plain');
  const tabs = await page.locator('.tool > .tabbed > .tabs button').allTextContents();
  equal(
    tabs.map((it) => it.replace(/ .*/, '')),
    ['Try', 'About', 'Schema', 'Calls', 'Code'],
    'tabs',
  );
  await page.click('.tool [data-tab="snippets"]');
  await page.waitForSelector('.sheet');
  const kinds = await page.locator('.sheet .tabs button').allTextContents();
  equal(kinds, ['cURL', 'Python', 'TypeScript'], 'snippets');
  equal(await page.locator('#sections > *, #account > *').count(), 0, 'parts of a gateway');
});

await check('snippets quote for the shell', async () => {
  const texts = await page.evaluate(async () => {
    const { quote } = await window.moduleOf('lib/command-line.js', 'shared.js');
    const { explorerCurl, mcpCurl, pythonCall, typescriptCall } =
      await window.moduleOf('tools/snippets.js', 'tools-tool-view.js');
    return [
      quote("a'b"),
      explorerCurl("x'; rm -rf ~", `{"a":"'"}`, false),
      mcpCurl('naïve\nname', '{}', false),
      pythonCall('x', `{"a":"\\"\u2028"}`, false),
      typescriptCall('x', '{"a":"${alert(1)}`"}', false),
    ];
  });
  equal(texts[0], "'a'\\''b'", 'quoted');
  truthy(
    texts[1].includes(`-d '{"a":"'\\''"}'`) && !texts[1].includes("'; rm"),
    'the explorer call breaks out of its quotes',
  );
  truthy(texts[3].includes('data="{\\"a\\":\\"\\\\\\"\\u2028\\"}"'), `Python: ${texts[3]}`);
  truthy(texts[4].includes('body: "{\\"a\\":'), `TypeScript: ${texts[4]}`);
  truthy(texts[2].includes('Mcp-Name: =?base64?'), 'the MCP name header is not encoded');
});

await check('a call can be cancelled', async () => {
  await open('slow');
  await page.click('[data-action="execute"]');
  equal(await page.textContent('[data-action="execute"]'), 'Executing…', 'button');
  await page.click('[data-action="cancel"]');
  await page.waitForSelector('.outcome[data-tone="warn"]');
});

await check('a 403 for one tool keeps Execute; the server-wide one removes it', async () => {
  await open('scoped');
  await page.click('[data-action="execute"]');
  await page.waitForSelector('.outcome[data-tone="bad"]');
  truthy(
    await page.locator('[data-action="execute"]').isVisible(),
    'Execute is gone after a scope 403',
  );
  await clean();
  await open('disabled');
  await page.click('[data-action="execute"]');
  await page.waitForSelector('.outcome[data-tone="bad"]');
  truthy(!(await page.locator('[data-action="execute"]').isVisible()), 'Execute is still there');
  truthy(await page.locator('[data-action="validate"]').isVisible(), 'Validate is gone');
  await open('plain');
  truthy(
    !(await page.locator('[data-action="execute"]').isVisible()),
    'Execute is back on another tool',
  );
});

await check('a page rendered without execution offers Validate only', async () => {
  const off = await startHostile({ execute: false });
  const other = await openPage(browser);
  await other.page.goto(off.url);
  await other.page.waitForSelector('button.item');
  await open('plain', other.page);
  truthy(!(await other.page.locator('[data-action="execute"]').isVisible()), 'Execute is shown');
  truthy(await other.page.locator('[data-action="validate"]').isVisible(), 'Validate is not shown');
  complaints.push(...other.complaints);
  await other.close();
  off.close();
});

await check('the theme is the only thing stored', async () => {
  await page.click('#theme');
  equal(
    await page.evaluate(() => [
      Object.keys(localStorage),
      Object.keys(sessionStorage),
      document.cookie,
    ]),
    [['mcp-ui-theme'], [], ''],
    'storage',
  );
});

await check('every control has a name, and the list works by keyboard', async () => {
  const unnamed = await page.evaluate(() =>
    [...document.querySelectorAll('button, input, select, textarea, a[href]')]
      .filter(
        (element) =>
          !(
            element.textContent.trim() ||
            element.getAttribute('aria-label') ||
            element.labels?.length ||
            element.closest('label')
          ),
      )
      .map((element) => element.outerHTML.slice(0, 80)),
  );
  equal(unnamed, [], 'controls without a name');
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('/');
  equal(await page.evaluate(() => document.activeElement.id), 'search', 'focus after /');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  const name = await page.evaluate(() => document.activeElement.dataset.name);
  await page.keyboard.press('Enter');
  await page.waitForFunction(
    (wanted) => document.querySelector('.tool h2')?.textContent === wanted,
    name,
  );
});

await check('no console error, no exception, no policy violation', async () =>
  equal(complaints, [], 'complaints'),
);

await browser.close();
await server.close();
await finish();

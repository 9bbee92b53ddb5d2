// Tools that run for a while and tools that ask back, with real MCP servers: server-everything as
// published on npm, and one that asks questions (asking.mjs).
//
//   TOOLCRIB_PROGRAM=…/toolcrib node try-it.mjs
import { createRequire } from 'node:module';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, equal, finish, launch, openPage, truthy } from './lib.mjs';
import { startServer } from './own-server.mjs';

const here = import.meta.dirname;
const everything = createRequire(import.meta.url)
  .resolve('@modelcontextprotocol/server-everything/package.json')
  .replace(/package\.json$/, 'dist/index.js');
const notes = join(mkdtempSync(join(tmpdir(), 'asking-')), 'notes');
const node = process.execPath;
const server = await startServer(`
[[source]]
id = "asking"
kind = "mcp"
command = [${JSON.stringify(node)}, ${JSON.stringify(join(here, 'asking.mjs'))}, ${JSON.stringify(notes)}]

[source.tools."*"]
scopes = ["try:it"]
safety_tier = "pure"

[[source]]
id = "everything"
kind = "mcp"
command = [${JSON.stringify(node)}, ${JSON.stringify(everything)}]

[source.tools."*"]
scopes = ["try:it"]
safety_tier = "pure"
`);
const key = server.key('--name', 'browser', '--principal', 'ada', '--scope', 'try:it', '--scope', 'audit:read');
const noted = () => {
  try {
    return readFileSync(notes, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  } catch {
    return [];
  }
};

const browser = await launch();
const { page, complaints } = await openPage(browser);
await page.goto(`${server.url}/explorer`);
await page.fill('#token', key);
await page.press('#token', 'Enter');
await page.waitForSelector('button.item[data-name="asking__ask"]');
await page.waitForFunction(() =>
  document.querySelector('button.item[data-name="everything__trigger-long-running-operation"]'));

const open = async (name) => {
  await page.goto(`${server.url}/explorer#tool=${encodeURIComponent(name)}`);
  await page.waitForFunction((it) => document.querySelector('.tool h2')?.textContent === it, name);
};
const execute = () => page.click('[data-action="execute"]');
const question = page.locator('.question');
const field = (path) => question.locator(`[data-path="${path}"]`);
const outcome = page.locator('.outcome:not(.question)');

await check('a tool that asks back is answered in a form, and goes on', async () => {
  await open('asking__ask');
  await execute();
  await question.waitFor();
  truthy((await question.textContent()).includes('Who are you?'), 'the question is missing');
  equal(await field('/name').locator('.field-name').textContent(), 'Your name', 'title of a field');
  await page.click('[data-action="answer"]');
  truthy((await field('/name').locator('.field-error').textContent()) !== '', 'an empty field passes');
  await field('/name').locator('textarea').fill('Ada');
  await field('/size').getByLabel('Large').check({ force: true });
  await page.click('[data-action="answer"]');
  await outcome.waitFor();
  const text = await outcome.textContent();
  truthy(text.includes('Succeeded') && text.includes('Ada'), text);
  equal(
    noted().at(-1),
    { tool: 'ask', inputResponses: { who: { action: 'accept', content: { name: 'Ada', size: 'l', loud: true } } }, requestState: 'state-1' },
    'what the tool got',
  );
});

await check('a question can be declined and cancelled', async () => {
  for (const [button, action] of [['decline', 'decline'], ['dismiss', 'cancel']]) {
    await execute();
    await question.waitFor();
    await page.click(`[data-action="${button}"]`);
    await page.waitForFunction(
      (it) => document.querySelector('.outcome:not(.question)')?.textContent.includes(`"action":"${it}"`),
      action,
    );
    equal(noted().at(-1).inputResponses, { who: { action } }, 'what the tool got');
  }
});

await check('several questions and several rounds', async () => {
  await open('asking__ask-twice');
  await execute();
  for (const title of ['1 of 2', '2 of 2', 'Third?']) {
    await page.waitForFunction((it) => document.querySelector('.question')?.textContent.includes(it), title);
    if (title !== '2 of 2') {
      await field('/name').locator('textarea').fill('Ada');
      await field('/size').getByLabel('Small').check({ force: true });
    }
    await page.keyboard.press('Control+Enter');
  }
  await page.waitForFunction(() => document.querySelector('.outcome:not(.question)')?.textContent.includes('three answers'));
});

await check('the call can be cancelled while it asks, and nothing is answered', async () => {
  await open('asking__ask');
  const before = noted().length;
  await execute();
  await question.waitFor();
  await page.click('[data-action="cancel"]');
  await question.waitFor({ state: 'detached' });
  truthy((await outcome.textContent()).includes('Cancelled'), 'it is not shown as cancelled');
  equal(noted().length, before, 'answers');
});

await check('a hostile question stays text', async () => {
  await open('asking__hostile');
  await execute();
  await question.waitFor();
  truthy((await question.textContent()).includes('<img src=x'), 'the text is missing');
  equal(await question.locator('img, script').count(), 0, 'elements of the tool');
  await page.click('[data-action="decline"]');
  await outcome.waitFor();
  equal(await page.evaluate(() => window.hacked), undefined, 'script of the tool');
});

await check('progress with a total is a bar with the words of the tool', async () => {
  await open('asking__steps');
  await execute();
  await page.waitForFunction(() => document.querySelector('.running progress')?.value === 1);
  equal(await page.evaluate(() => document.querySelector('.running progress').max), 4, 'total');
  equal(await page.textContent('.step'), '25 % · first <b>step</b>', 'words');
  await page.waitForFunction(() => / s$/.test(document.querySelector('.clock').textContent));
  writeFileSync(`${notes}.second`, '');
  await page.waitForFunction(() => document.querySelector('.step').textContent === '50 % · second step');
  writeFileSync(`${notes}.end`, '');
  await outcome.waitFor();
  truthy((await outcome.textContent()).includes('all steps'), 'the result is missing');
  equal(await page.isVisible('.running progress'), false, 'bar after the end');
});

await check('progress without a total has no end, and a cancel reaches the tool', async () => {
  await open('asking__slow');
  await execute();
  await page.waitForFunction(() => document.querySelector('.step').textContent === 'no end in sight');
  equal(await page.getAttribute('.running progress', 'value'), null, 'value of the bar');
  const before = noted().length;
  await page.click('[data-action="cancel"]');
  await page.waitForFunction(() => document.querySelector('.outcome')?.textContent.includes('Cancelled'));
  for (let tries = 0; noted().length === before && tries < 100; tries += 1) await page.waitForTimeout(100);
  truthy(noted().at(-1).cancelled !== undefined, 'the tool was not cancelled');
});

await check('progress of server-everything', async () => {
  await open('everything__trigger-long-running-operation');
  for (const name of ['duration', 'steps']) {
    const add = page.locator(`[data-add="${name}"]`);
    if (await add.count()) await add.click();
  }
  await page.locator('[data-path="/duration"] input').fill('4');
  await page.locator('[data-path="/steps"] input').fill('4');
  await execute();
  await page.waitForFunction(() => document.querySelector('.running progress')?.max === 4 && document.querySelector('.running progress').value >= 1);
  await outcome.waitFor();
  truthy((await outcome.textContent()).includes('Long running operation completed'), await outcome.textContent());
});

await check('an invalid argument is explained, and the trace leads to the record', async () => {
  await open('everything__get-sum');
  await page.click('[data-mode="json"]');
  await page.fill('textarea.json', '{"a":"x"}');
  await execute();
  await outcome.waitFor();
  truthy((await outcome.textContent()).includes('The tool reported an error'), await outcome.textContent());
  await page.fill('textarea.json', '{"a":1,"b":2}');
  await execute();
  await page.waitForFunction(() => document.querySelector('.outcome')?.textContent.includes('The sum of 1 and 2 is 3'));
  truthy(/#\/record\/run\//.test(await outcome.locator('a').first().getAttribute('href')), 'no link to the record');
});

await check('numbers of a form and of JSON are sent and shown digit by digit', async () => {
  const shown = async (...parts) => {
    await page.waitForFunction(
      (wanted) => wanted.every((part) => document.querySelector('.outcome:not(.question)')?.textContent.includes(part)),
      parts,
    );
  };
  await open('asking__numbers');
  for (const [path, text] of [['/id', '123456789012345678901'], ['/amount', '0.10']]) {
    const add = page.locator(`[data-add="${path.slice(1)}"]`);
    if (await add.count()) await add.click();
    await page.fill(`[data-path="${path}"] input`, text);
  }
  await execute();
  // As a tree, and as the tool received them.
  await shown('id123456789012345678901amount0.10', '{\\"id\\":123456789012345678901,\\"amount\\":0.10}');
  await page.click('[data-mode="json"]');
  truthy((await page.inputValue('textarea.json')).includes('"amount": 0.10'), 'the form as JSON');
  await page.fill('textarea.json', '{"id": -0, "amount": 9007199254740993.50}');
  await execute();
  await shown('id-0amount9007199254740993.50', '{\\"id\\":-0,\\"amount\\":9007199254740993.50}');
  await page.click('[data-mode="form"]');
  equal(await page.inputValue('[data-path="/amount"] input'), '9007199254740993.50', 'the form');
});

await check('what the page fills in itself is valid', async () => {
  await open('asking__choices');
  await page.click('[data-action="validate"]');
  await page.waitForSelector('.verdict.good');
  equal(await page.locator('.field.invalid').count(), 0, 'fields with an error');
  await execute();
  await outcome.waitFor();
  const sent = { count: 3, mode: 'safe', options: { lines: [], deep: { on: false } }, target: { kind: 'folder' } };
  truthy((await outcome.textContent()).includes('folder'), await outcome.textContent());
  await page.click('.outcome [role="tab"]:has-text("Raw")');
  truthy((await outcome.textContent()).includes(JSON.stringify(JSON.stringify(sent)).slice(1, 40)), await outcome.textContent());
});

await check('the schema is a tree with the titles of its alternatives, and JSON', async () => {
  await page.click('.tool [data-tab="schema"]');
  await page.waitForSelector('.schema-tree');
  const text = await page.textContent('.tool .panel:not([hidden])').catch(() => page.textContent('.tool'));
  truthy(text.includes('A whole folder') && text.includes('One file'), text);
});

await check('there is code for curl, Open Tool Calling, MCP, Python and TypeScript', async () => {
  await page.click('.tool [data-tab="snippets"]');
  const names = ['curl', 'Open Tool Calling', 'MCP', 'Python', 'TypeScript'];
  await page.waitForFunction(
    (wanted) => wanted.every((name) => document.querySelector('.tool').textContent.includes(name)),
    names,
  );
});

await check('a picture, a sound, a resource and structured content are shown', async () => {
  await open('everything__get-tiny-image');
  await execute();
  await page.waitForFunction(() => document.querySelector('.outcome img')?.naturalWidth > 0);
  await open('asking__sound');
  await execute();
  await page.waitForSelector('.outcome button:has-text("Play")');
  await open('everything__get-resource-reference');
  const add = page.locator('[data-add="resourceId"]');
  if (await add.count()) await add.click();
  await page.locator('[data-path="/resourceId"] input').fill('1');
  await execute();
  await outcome.waitFor();
  truthy((await outcome.textContent()).includes('demo://resource/'), await outcome.textContent());
  await open('everything__get-structured-content');
  await page.click('[data-mode="json"]');
  await page.fill('textarea.json', '{"location":"New York"}');
  await execute();
  await outcome.waitFor();
  truthy((await outcome.textContent()).includes('temperature'), await outcome.textContent());
});

await check('nothing was blocked, and no error was logged', async () => {
  equal(complaints, [], 'complaints');
});

await browser.close();
await server.stop();
finish();

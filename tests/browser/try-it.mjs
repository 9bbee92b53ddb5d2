// Tools that run for a while and tools that ask back, with real MCP servers: server-everything as
// published on npm, and one that asks questions (asking.mjs).
//
//   TOOLCRIB_PROGRAM=…/toolcrib node try-it.mjs
import { createRequire } from 'node:module';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, equal, finish, launch, openPage, signIn, truthy } from './lib.mjs';
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
const bobsKey = server.key('--name', 'bob', '--principal', 'bob', '--scope', 'try:it');
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
  document.querySelector('button.item[data-name="everything__echo"]'));

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

await check('a saved call is shared with variables, whose types are kept', async () => {
  await open('asking__ticket');
  await page.click('[data-mode="json"]');
  await page.fill('textarea.json', '{"ticket":"T-{{number}}","count":"{{count}}","loud":"{{loud}}","apiKey":"hush"}');
  await page.click('[data-action="save"]');
  await page.fill('.save-form input', 'Ask for a ticket');
  await page.selectOption('.save-form [data-place]', 'tenant');
  const words = await page.textContent('.save-form');
  truthy(words.includes('seen by everyone of your tenant who may use this tool, without apiKey.'), words);
  await page.click('.save-form button[type=submit]');
  await page.locator('.save-form').waitFor({ state: 'detached' });
  await page.click('.tool [data-tab="history"]');
  const own = page.locator('.shared [data-saved="Ask for a ticket"]');
  await own.waitFor();
  truthy((await own.textContent()).includes('by ada') && !(await own.textContent()).includes('hush'), await own.textContent());

  const bob = await openPage(browser);
  await bob.page.goto(`${server.url}/explorer#tool=asking__ticket`);
  await signIn(bob.page, bobsKey);
  await bob.page.click('.tool [data-tab="history"]');
  const row = bob.page.locator('.shared [data-saved="Ask for a ticket"]');
  await row.waitFor();
  equal(await row.getByRole('button', { name: 'Remove' }).count(), 0, 'buttons to remove what ada saved');
  await row.locator('[data-action="run-saved"]').click();
  const variable = (name) => row.locator(`[data-variable="${name}"]`);
  equal(await row.locator('.field-head span').allTextContents(), ['text', 'whole number', 'yes or no'], 'the variables');
  await variable('number').fill('007');
  await variable('count').fill('many');
  await row.getByRole('button', { name: 'Run with these values' }).click();
  equal(await row.locator('.field-error:visible').allTextContents(), ['Enter a whole number, such as 3.', 'Enter a value.'], 'problems');
  await variable('count').fill('12');
  await variable('loud').selectOption('true');
  await row.getByRole('button', { name: 'Run with these values' }).click();
  await bob.page.waitForFunction(() => document.querySelector('.outcome')?.textContent.includes('Succeeded'));
  await bob.page.click('.outcome [data-view="sent"]');
  equal(await bob.page.textContent('.outcome .view pre'), '{"ticket":"T-007","count":12,"loud":true}', 'what the tool got');
  // The name is taken, and the page says what to do.
  await bob.page.click('[data-action="save"]');
  await bob.page.fill('.save-form input', 'Ask for a ticket');
  await bob.page.selectOption('.save-form [data-place]', 'tenant');
  await bob.page.click('.save-form button[type=submit]');
  await bob.page.locator('.save-form [role=alert]').getByText('another principal saved this name; choose another one').waitFor();
  complaints.push(...bob.complaints);
  await bob.close();

  await own.getByRole('button', { name: 'Remove' }).click();
  const dialog = page.getByRole('dialog', { name: 'Remove the call' });
  truthy((await dialog.textContent()).includes('This removes Ask for a ticket for everyone of the tenant.'), await dialog.textContent());
  await dialog.locator('[data-confirm="remove"]').click();
  await own.waitFor({ state: 'detached' });
});

await check('a file is chosen for base64, with its name and a limit', async () => {
  await open('asking__files');
  const box = page.locator('[data-path="/document"]');
  await box.locator('input[type=file]').setInputFiles({ name: 'big.bin', mimeType: 'application/zip', buffer: Buffer.alloc(2 << 20) });
  await box.getByText('big.bin has 2.0 MiB. A file can have at most 765.0 KiB here, the limit of the server for a request.').waitFor();
  await box.locator('input[type=file]').setInputFiles({ name: 'note.txt', mimeType: 'text/plain', buffer: Buffer.from('hello') });
  await box.getByText('note.txt', { exact: true }).waitFor();
  truthy((await box.textContent()).includes('5 B'), await box.textContent());
  await execute();
  await page.waitForFunction(() => document.querySelector('.outcome')?.textContent.includes('aGVsbG8='));
  await box.getByRole('button', { name: 'Remove the file note.txt' }).click();
  equal(await box.locator('textarea').inputValue(), '', 'the value after removing');
  await open('asking__upload');
  const upload = page.locator('[data-path="/file"]');
  await upload.locator('input[type=file]').setInputFiles({ name: 'a note.txt', mimeType: 'text/plain', buffer: Buffer.from('hello') });
  await upload.getByText('a note.txt', { exact: true }).waitFor();
  await execute();
  await page.waitForFunction(() => document.querySelector('.outcome')?.textContent.includes('data:text/plain;name=a%20note.txt;base64,aGVsbG8='));
});

await check('a nested form with a file is filled, run and read by keyboard alone', async () => {
  await open('asking__delivery');
  const tabTo = async (selector) => {
    for (let stops = 0; stops < 200; stops += 1) {
      if (await page.evaluate((it) => document.activeElement?.matches(it) === true, selector)) return;
      await page.keyboard.press('Tab');
    }
    throw new Error(`${selector} is not reached by Tab, among ${await page.locator("[data-path]").evaluateAll((all) => all.map((it) => it.dataset.path).join(" "))}`);
  };
  await page.locator('.tool h2').focus();
  await tabTo('[data-path="/to/name"] :is(input, textarea)');
  await page.keyboard.type('Ann');
  // The browser has to know before the key is pressed that the dialog is wanted here.
  const opened = page.waitForEvent('filechooser');
  await tabTo('[data-path="/attachment"] input[type=file]');
  await page.keyboard.press('Enter');
  const chooser = await opened;
  await chooser.setFiles({ name: 'a.zip', mimeType: 'application/zip', buffer: Buffer.from('hello') });
  await page.locator('[data-path="/attachment"]').getByText('a.zip', { exact: true }).waitFor();
  await tabTo('[data-action="execute"]');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.outcome')?.textContent.includes('aGVsbG8='));
  const result = await page.locator('.outcome').first().textContent();
  truthy(result.includes('Ann'), result);
});

await check('Markdown of a tool is formatted with no more than our own elements', async () => {
  const requests = [];
  page.on('request', (it) => requests.push(it.url()));
  await open('asking__markdown');
  await execute();
  const text = page.locator('.outcome .markdown');
  await text.waitFor();
  equal(await text.locator('[role=heading]').textContent(), 'Report of today', 'the heading');
  equal(await text.locator('em').first().textContent(), 'late', 'emphasis');
  equal(await text.locator('table td').allTextContents(), ['A-1', '3'], 'the cells');
  equal(await text.locator('ul ul code').textContent(), 'code', 'code in a nested list');
  const link = text.locator('a').first();
  equal([await link.getAttribute('href'), await link.getAttribute('rel'), await link.textContent()],
    ['https://evil.example/login', 'noopener noreferrer', 'your bank'], 'the link');
  const words = await text.textContent();
  truthy(words.includes('your bank (evil.example)') && words.includes('us (help@shop.example)'), words);
  truthy(words.includes('picture at evil.example') && words.includes('<img src=x'), words);
  equal(await text.locator('img, script, [onerror], [href^="javascript" i]').count(), 0, 'elements of the tool');
  equal(requests.filter((it) => it.includes('evil.example')), [], 'requests to other hosts');
  await page.click('.outcome [data-markdown="text"]');
  truthy((await page.textContent('.outcome pre.text')).startsWith('# Report of **today**'), 'the text as it was sent');
  equal(await page.evaluate(() => window.hacked), undefined, 'script of the tool');
});

await check('a list in a list opens as a table of its own, and a title stands beside the name', async () => {
  await open('asking__nested');
  equal(await page.textContent('.tool .subtitle'), 'Orders with their lines', 'the title');
  truthy((await page.textContent('button.item[data-name="asking__nested"]')).includes('Orders with their lines'), 'the list');
  await execute();
  await page.locator('.outcome .tool-facts').getByText('total').waitFor();
  const cell = page.locator('.outcome details.cell');
  equal(await cell.locator('summary').allTextContents(), ['2 rows'], 'the nested lists');
  equal(await cell.locator('table').count(), 0, 'tables before it is open');
  await cell.locator('summary').click();
  await cell.locator('table').waitFor();
  equal(await cell.locator('table td').allTextContents(), ['apple', '2', 'pear', '1'], 'the inner table');
  truthy((await page.textContent('.outcome .result-table')).includes('new, paid'), 'a list of single values');
});

await check('the messages of a call are kept in the page, both ways and without the key', async () => {
  await page.click('.outcome [role="tab"]:has-text("Messages")');
  const messages = page.locator('.message-list li');
  equal(await messages.evaluateAll((all) => all.map((it) => it.dataset.way)), ['out', 'in'], 'the messages');
  const [sent, received] = await messages.locator('pre').allTextContents();
  const [request, response] = [JSON.parse(sent), JSON.parse(received)];
  equal([request.method, request.params.name], ['tools/call', 'asking__nested'], 'the request');
  equal([response.id, response.result.structuredContent.total], [request.id, 2], 'the response');
  truthy(!(await page.textContent('.outcome')).includes(key), 'the key is in the result');
  await open('asking__ticket');
  await page.click('.tool [data-tab="try"]');
  await page.click('[data-mode="json"]');
  await page.fill('textarea.json', JSON.stringify({ ticket: `my key is ${key}` }));
  await execute();
  await outcome.waitFor();
  await page.click('.outcome [role="tab"]:has-text("Messages")');
  truthy((await messages.locator('pre').allTextContents()).every((it) => it.includes('my key is [credential]')), 'a key as an argument');
  equal(await page.evaluate((it) => JSON.stringify({ ...localStorage, ...sessionStorage }).includes(it), 'tools/call'), false, 'stored messages');
  await open('asking__ask');
  await execute();
  await question.waitFor();
  await page.click('[data-action="decline"]');
  await outcome.waitFor();
  await page.click('.outcome [role="tab"]:has-text("Messages")');
  equal(await messages.evaluateAll((all) => all.map((it) => it.dataset.way)), ['out', 'in', 'out', 'in'], 'with the answer to a question');
});

await check('nothing was blocked, and no error was logged', async () => {
  equal(complaints, [], 'complaints');
});

await browser.close();
await server.stop();
finish();

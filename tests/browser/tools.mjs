// The Tools screen with catalogs that the test makes up: thousands of tools, forms of every kind,
// results of every kind, saved calls. The gateway is real; only its list of tools is replaced.
//
//   TOOLCRIB_URL=http://127.0.0.1:8808 TOOLCRIB_KEY_ADMIN=tc_… node tools.mjs
import { check, equal, finish, launch, openPage, truthy, until } from './lib.mjs';
import { manyTools, meta, serveTools } from './catalogs.mjs';
import { keystrokes, traced } from './trace.mjs';

const { TOOLCRIB_URL, TOOLCRIB_KEY_ADMIN } = process.env;
if (!TOOLCRIB_URL || !TOOLCRIB_KEY_ADMIN) {
  console.error('TOOLCRIB_URL and TOOLCRIB_KEY_ADMIN are not set: take them from demo.json');
  process.exit(2);
}
const explorer = `${TOOLCRIB_URL.replace(/\/$/, '')}/explorer`;
const MANY = 5000;
const MOST_NODES = 2000;

const browser = await launch();
const complaints = [];

const TOOLS = {
  forms: {
    type: 'object',
    required: ['customer', 'lines', 'pay', 'labels', 'size'],
    properties: {
      customer: {
        type: 'object',
        title: 'Customer',
        required: ['name', 'address'],
        properties: {
          name: { type: 'string' },
          address: { type: 'object', required: ['city'], properties: { city: { type: 'string' } } },
        },
      },
      lines: {
        type: 'array',
        minItems: 1,
        items: {
          type: 'object',
          required: ['sku', 'count'],
          properties: {
            sku: { type: 'string' },
            count: { type: 'integer', minimum: 1, default: 1 },
          },
        },
      },
      pay: {
        oneOf: [
          {
            title: 'By card',
            type: 'object',
            required: ['kind', 'number'],
            properties: { kind: { const: 'card' }, number: { type: 'string' } },
          },
          {
            title: 'By invoice',
            type: 'object',
            required: ['kind', 'mail'],
            properties: { kind: { const: 'invoice' }, mail: { type: 'string', format: 'email' } },
          },
        ],
      },
      labels: { type: 'object', additionalProperties: { type: 'string' } },
      size: {
        oneOf: [
          { const: 's', title: 'Small' },
          { const: 'l', title: 'Large' },
        ],
      },
      day: { type: 'string', format: 'date' },
      at: { type: 'string', format: 'date-time' },
      site: { type: 'string', format: 'uri' },
      rush: { type: 'boolean', default: false },
      apiToken: { type: 'string' },
      note: { type: 'string' },
    },
  },
  table: { type: 'object' },
  tree: { type: 'object' },
  secret: {
    type: 'object',
    required: ['user', 'password', 'inner'],
    properties: {
      user: { type: 'string' },
      password: { type: 'string' },
      inner: {
        type: 'object',
        required: ['code'],
        properties: { code: { type: 'string', format: 'password' } },
      },
    },
  },
};
const RESULTS = {
  table: {
    content: [{ type: 'text', text: '[{"id":1,"name":"Ada"},{"id":2,"name":"<b>Bob</b>"}]' }],
  },
  tree: {
    content: [{ type: 'text', text: 'see below' }],
    structuredContent: { deep: { deeper: { deepest: { leaf: 'found' } } }, list: [1, [2, 3]] },
  },
};

/** Serves the tools above in place of the real ones; `bodies` collects what is sent. */
async function replaceTools(page) {
  const bodies = [];
  const list = Object.keys(TOOLS).map((name) => ({
    name,
    description: name,
    _meta: meta('test', 'read'),
  }));
  await serveTools(page, () => list);
  await page.route(/\/explorer\/tools\/\w+(\/\w+)?$/, (route) => {
    const [, name, verb] = /tools\/(\w+)(?:\/(\w+))?$/.exec(route.request().url());
    if (verb === undefined)
      return route.fulfill({
        json: { ...list.find((it) => it.name === name), inputSchema: TOOLS[name] },
      });
    bodies.push(JSON.parse(route.request().postData()));
    if (verb === 'validate') return route.fulfill({ json: { valid: true } });
    return route.fulfill({
      json: { isError: false, content: [{ type: 'text', text: 'done' }], ...RESULTS[name] },
    });
  });
  // Calls go to `/mcp`.
  await page.route(/\/mcp$/, (route) => {
    const { id, params } = JSON.parse(route.request().postData());
    bodies.push(params.arguments);
    const result = { isError: false, content: [{ type: 'text', text: 'done' }], ...RESULTS[params.name] };
    return route.fulfill({ json: { jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } } });
  });
  return bodies;
}

const signIn = async (page) => {
  await page.fill('#token', TOOLCRIB_KEY_ADMIN);
  await page.press('#token', 'Enter');
  await page.waitForSelector('button.item');
  await page.waitForSelector('.section');
};
const open = async (page, name) => {
  await page.click(`button.item[data-name="${name}"]`);
  await page.waitForFunction((it) => document.querySelector('.tool h2')?.textContent === it, name);
};

const { page, complaints: said, close } = await openPage(browser);
const bodies = await replaceTools(page);
await page.route('**/v1/events**', (route) => route.fulfill({ json: { events: [] } }));
await page.goto(explorer);

await signIn(page);

const field = (path) => page.locator(`[data-path="${path}"]`).first();
const input = (path) => field(path).locator(':is(input, textarea, select)').first();

await check('an opened tool has the focus in its first field', async () => {
  await open(page, 'forms');
  await page.waitForFunction(() => document.activeElement.closest('[data-path="/customer/name"]'));
});

await check('required groups and lists begin open with their fields', async () => {
  for (const path of ['/customer/name', '/customer/address/city', '/lines/0/sku', '/lines/0/count'])
    truthy(await input(path).isVisible(), `${path} is not shown`);
  equal(await input('/lines/0/count').inputValue(), '1', 'default of a count');
});

await check('as JSON the arguments start from exactly the required keys', async () => {
  await page.click('[data-mode="json"]');
  equal(
    JSON.parse(await page.inputValue('textarea.json')),
    { customer: null, lines: null, pay: null, labels: null, size: null },
    'prefill',
  );
  await page.click('[data-mode="form"]');
  truthy(await input('/customer/name').isVisible(), 'the form is not open again');
});

await check('empty required fields are named in plain words, and nothing is sent', async () => {
  await page.click('[data-action="execute"]');
  await page.waitForSelector('.violations');
  const told = await page.locator('.violations li').allTextContents();
  truthy(told.includes('Customer › address › city: Fill this in.'), `told: ${told}`);
  truthy(told.includes('size: Choose one.'), `told: ${told}`);
  truthy(
    !told.some((it) => /count|labels|kind/.test(it)),
    `a filled in value is reported: ${told}`,
  );
  equal(bodies.length, 0, 'requests');
  await page.click('.violations button >> text=city');
  await page.waitForFunction(() =>
    document.activeElement.closest('[data-path="/customer/address/city"]'),
  );
});

await check('alternatives are labelled choices', async () => {
  const choice = page.locator('[data-choice="/pay"]');
  equal(await choice.locator('.radio').allTextContents(), ['By card', 'By invoice'], 'labels');
  truthy(await input('/pay/number').isVisible(), 'the first form is not shown');
  await choice.getByLabel('By invoice').check();
  truthy(await input('/pay/mail').isVisible(), 'the second form is not shown');
  equal(await page.locator('[data-path="/pay/number"]').count(), 0, 'fields of the first form');
  equal(await input('/pay/mail').getAttribute('type'), 'email', 'control of an e-mail address');
});

await check('maps take named values', async () => {
  await page.click('[data-entry="/labels"]');
  const name = page.locator('.entry-name');
  await name.fill('team');
  await name.press('Tab');
  await page.fill('[data-path="/labels/team"] textarea', 'blue');
});

await check('dates, times, addresses, titles and flags have their controls', async () => {
  for (const key of ['day', 'at', 'site', 'rush', 'note']) await page.click(`[data-add="${key}"]`);
  equal(await input('/day').getAttribute('type'), 'date', 'date');
  equal(await input('/at').getAttribute('type'), 'datetime-local', 'date and time');
  equal(await input('/site').getAttribute('type'), 'url', 'address');
  equal(await field('/rush').locator('.radio').allTextContents(), ['Yes', 'No'], 'flag');
  truthy(await field('/rush').locator('input').nth(1).isChecked(), 'the default of the flag');
  await field('/size').getByLabel('Large').check();
  await input('/day').fill('2026-11-25');
  await input('/at').fill('2026-11-25T10:30:00');
});

await check('what is sent is what the form shows, without empty optional fields', async () => {
  await input('/customer/name').fill('Ada');
  await input('/customer/address/city').fill('Oslo');
  await input('/lines/0/sku').fill('x1');
  await input('/pay/mail').fill('ada@example.com');
  await page.click('[data-action="execute"]');
  await page.waitForSelector('.outcome[data-tone="good"]');
  const { at, ...rest } = bodies.at(-1);
  truthy(/^2026-11-25T10:30:00(Z|[+-]\d\d:\d\d)$/.test(at), `the moment is ${at}`);
  equal(
    rest,
    {
      customer: { name: 'Ada', address: { city: 'Oslo' } },
      lines: [{ sku: 'x1', count: 1 }],
      pay: { kind: 'invoice', mail: 'ada@example.com' },
      labels: { team: 'blue' },
      size: 'l',
      day: '2026-11-25',
      rush: false,
    },
    'arguments',
  );
});

await check('a list of flat objects is a table', async () => {
  await open(page, 'table');
  await page.click('[data-action="execute"]');
  await page.waitForSelector('.result-table');
  equal(await page.locator('.result-table th').allTextContents(), ['id', 'name'], 'columns');
  equal(
    await page.locator('.result-table td').allTextContents(),
    ['1', 'Ada', '2', '<b>Bob</b>'],
    'cells',
  );
  await page.click('.outcome [data-view="sent"]');
  truthy(
    (await page.locator('.outcome pre').first().textContent()).startsWith('[{"id":1'),
    'as sent',
  );
});

await check('a nested result is a tree that folds', async () => {
  await open(page, 'tree');
  await page.click('[data-action="execute"]');
  await page.waitForSelector('.outcome .tree');
  equal(await page.locator('.tree >> text=found').count(), 0, 'folded leaves in the document');
  await page.click('.tree summary >> text=deeper');
  await page.click('.tree summary >> text=deepest');
  await page.locator('.tree >> text=found').waitFor();
  await page.click('.tree summary >> text=deeper');
  await page.locator('.tree >> text=found').waitFor({ state: 'hidden' });
});

await check('nothing is stored until a call is saved; then without its secrets', async () => {
  await open(page, 'secret');
  await input('/user').fill('ada');
  await input('/password').fill('hunter2');
  await input('/inner/code').fill('4711');
  const stored = () => page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
  equal(await stored(), '{}', 'storage before');
  await page.click('[data-action="save"]');
  truthy(/without password, inner › code/.test(await page.textContent('.save-form')), 'not said');
  await page.fill('.save-form input', 'my call');
  await page.keyboard.press('Enter');
  const kept = await stored();
  truthy(
    kept.includes('ada') && !kept.includes('hunter2') && !kept.includes('4711'),
    `stored: ${kept}`,
  );
});

await check('a saved call survives a reload', async () => {
  await page.reload();
  await signIn(page);
  await open(page, 'secret');
  await page.click('.tool [data-tab="history"]');
  await page.click('[data-saved="my call"] >> text=Open');
  equal(await input('/user').inputValue(), 'ada', 'the saved value');
  await page.click('.tool [data-tab="history"]');
  await page.click('[data-saved="my call"] >> text=Remove');
  equal(await page.evaluate(() => Object.keys(localStorage)), [], 'storage after removing');
});
complaints.push(...said);
await close();

await check(
  'facets of the network, credentials and quarantine, grouping and compact rows',
  async () => {
    const { page: own, complaints: more, close: end } = await openPage(browser);
    const id = (name) => `mcp:test.${name}`;
    const FACTS = {
      a: { 'toolcrib/egress': 'none' },
      b: { 'toolcrib/egress': 'safe-fetch', 'toolcrib/credential': true },
    };
    const list = ['a', 'b', 'c'].map((name) => ({
      name,
      description: `tool ${name}`,
      annotations: name === 'c' ? { destructiveHint: true } : {},
      _meta: meta('test', 'read', { 'toolcrib/toolId': id(name), ...FACTS[name] }),
    }));
    await serveTools(own, () => list);
    await own.route(/\/v1\/pins$/, (route) =>
      route.fulfill({ json: { pins: [{ toolId: id('c'), quarantined: true }] } }),
    );
    await own.goto(explorer);
    await signIn(own);
    const shown = () =>
      own.locator('button.item').evaluateAll((rows) => rows.map((it) => it.dataset.name));
    await own.click('#filter-toggle');
    for (const [facet, value, names] of [
      ['egress', 'safe-fetch', ['b']],
      ['credential', 'stored', ['b']],
      ['quarantined', 'quarantined', ['c']],
      ['danger', 'destructive', ['c']],
    ]) {
      const chip = own.locator(`.chip[data-facet="${facet}"][data-value="${value}"]`);
      await chip.click();
      equal(await shown(), names, `tools with ${facet}`);
      await chip.click();
    }
    await own.click('.chip[data-facet="egress"][data-value="none"]');
    await own.waitForURL(/#\/tools\?egress=none$/);
    await own.reload();
    await signIn(own);
    await own.waitForFunction(() => document.querySelectorAll('button.item').length === 1);
    equal(await shown(), ['a'], 'tools of the address');
    await own.click('#filter-toggle');
    await own.click('.chip[data-facet="egress"][data-value="none"]');
    await own.selectOption('#group-by', 'danger');
    const heads = await own.locator('.group-head bdi').allTextContents();
    equal(heads, ['read', 'destructive'], 'groups');
    await own.check('#compact-rows');
    equal(
      await own
        .locator('button.item')
        .first()
        .evaluate((row) => row.parentElement.offsetHeight),
      32,
      'height',
    );
    await own.uncheck('#compact-rows');
    complaints.push(...more);
    await end();
  },
);

await check('a tool that differs from its pin shows both forms side by side', async () => {
  const { page: own, complaints: more, close: end } = await openPage(browser);
  const pin = {
    toolId: 'mcp:demo.add',
    sourceId: 'demo',
    name: 'demo__add',
    state: 'changed',
    quarantined: true,
    approved: { digest: 'a', at: '2026-11-25T00:00:00Z', document: { description: 'Adds.' } },
    seen: {
      digest: 'b',
      at: '2026-11-25T01:00:00Z',
      document: { description: 'Adds <b>and deletes</b>.' },
    },
  };
  await own.route('**/v1/pins**', (route) => route.fulfill({ json: { pins: [pin] } }));
  const drift = (seen, at) => ({
    event: { type: 'tool.pin.drifted', timestamp: at, payload: { toolId: pin.toolId, seen, quarantined: true } },
  });
  const events = [
    drift('e'.repeat(64), '2026-11-20T00:00:00Z'),
    {
      event: {
        type: 'tool.pin.approved',
        timestamp: '2026-11-21T00:00:00Z',
        payload: { toolId: pin.toolId, approved: 'e'.repeat(64), principal: '<b>eve</b>' },
      },
    },
    drift(pin.seen.digest, pin.seen.at),
    drift('f'.repeat(64), '2026-11-22T00:00:00Z'),
    { event: { type: 'tool.pin.drifted', payload: { toolId: 'mcp:demo.other', seen: 'd'.repeat(64) } } },
  ];
  await own.route('**/v1/events?**', (route) => route.fulfill({ json: { events } }));
  await own.goto(`${explorer}#tool=demo__add`);
  await signIn(own);
  await own.click('.tool [data-tab="about"]');
  await own.waitForFunction(() => document.querySelectorAll('[data-versions] tbody tr').length === 4);
  const versions = await own.locator('[data-versions] tbody tr').allTextContents();
  truthy(versions[0].includes('current') && versions[0].includes('no'), `the newest is ${versions[0]}`);
  truthy(versions.some((it) => it.includes('eeeeeeeeeeee') && it.includes('<b>eve</b>')), String(versions));
  equal(versions.filter((it) => it.includes('approved')).length, 1, 'forms that count');
  await own.click('text=Show what changed');
  await own.waitForSelector('.diff .changed');
  const cells = await own.locator('.diff .changed td').allTextContents();
  truthy(
    /Adds\./.test(cells[0]) && /<b>and deletes<\/b>/.test(cells[1]),
    `the difference is ${cells}`,
  );
  complaints.push(...more);
  await end();
});

await check(
  'what the server finds is added below, and the list survives an interruption',
  async () => {
    const { page: own, close: end } = await openPage(browser);
    await own.goto(explorer);
    await signIn(own);
    await own.fill('#search', 'demo__add');
    await own.route('**/v1/tools?**', (route) =>
      route.fulfill({ json: [{ toolId: 'mcp:demo.echo' }, { toolId: 'mcp:demo.add' }] }),
    );
    await own.fill('#search', 'demo__ad');
    await own.waitForSelector('button.item[data-from="server"][data-name="demo__echo"]');
    equal(
      await own.locator('button.item').first().getAttribute('data-name'),
      'demo__add',
      'first match',
    );
    await own.fill('#search', '');
    await own.route(/\/explorer\/catalog$/, (route) => route.abort());
    await own.click('#refresh');
    await own.waitForSelector('#stale:not([hidden])');
    truthy((await own.locator('button.item').count()) > 5, 'the list is gone');
    await own.unroute(/\/explorer\/catalog$/);
    await own.click('#refresh');
    await own.waitForSelector('#stale', { state: 'hidden' });
    await end();
  },
);

await check('the list and the form are reached by keyboard', async () => {
  const { page: own, complaints: more, close: end } = await openPage(browser);
  await own.goto(explorer);
  await signIn(own);
  await own.evaluate(() => document.activeElement.blur());
  await own.keyboard.press('/');
  await own.keyboard.type('demo__add');
  await own.keyboard.press('ArrowDown');
  await own.keyboard.press('Enter');
  await own.waitForFunction(() => document.activeElement.closest('[data-path="/a"]'));
  await own.keyboard.type('2');
  await own.keyboard.press('Tab');
  await own.keyboard.type('3');
  await own.keyboard.press('Control+Enter');
  await own.locator('.outcome[data-tone="good"]').waitFor();
  await own.keyboard.press('Escape');
  equal(
    await own.evaluate(() => document.activeElement.dataset.name),
    'demo__add',
    'focus after Escape',
  );
  complaints.push(...more);
  await end();
});

await check(`${MANY} tools: few elements, and keystrokes are fast`, async () => {
  const { page: big, complaints: more, close: end } = await openPage(browser);
  let list = manyTools(MANY);
  let open;
  const opened = new Promise((resolve) => {
    open = resolve;
  });
  const loaded = await serveTools(big, () => list, () => opened);
  await big.goto(explorer);
  await signIn(big);
  const count = async () => (await big.textContent('#count')).replace(/\s/g, ' ');
  await until('the first tools', async () => (await count()) === '200 tools, 4 800 more are loading');
  open();
  await until('all tools', async () => (await count()) === '5 000 tools');
  // The page loads the list before the sign-in, too.
  equal(new Set(loaded).size, MANY / 200 - 1, 'parts that were loaded');
  const before = loaded.length;
  list = list.with(1_234, { ...list[1_234], description: 'Does another thing.' });
  await big.click('#refresh');
  await until('the changed part', async () => loaded.length > before);
  await until('all tools', async () => (await count()) === '5 000 tools');
  equal(loaded.length, before + 1, 'parts that were loaded after a change');
  await big.click('#filter-toggle');
  const nodes = await big.evaluate(() => document.querySelectorAll('*').length);
  console.log(`      ${MANY} tools: ${nodes} elements`);
  truthy(nodes <= MOST_NODES, `there are ${nodes} elements`);
  await big.click('#filter-toggle');

  await big.focus('#search');
  const events = await traced(big, async () => {
    for (const key of 'tool_49') {
      await big.keyboard.type(key);
      await big.waitForTimeout(350); // the search of the server follows after a pause
    }
  });
  const times = keystrokes(events);
  console.log(
    `      keystroke: at most ${Math.max(...times).toFixed(1)} ms of ${times.length}, from a trace`,
  );
  truthy(times.length >= 7, `the trace has ${times.length} keystrokes`);
  truthy(/^[\d ]+ of 5 000 tools/.test((await big.textContent('#count')).replace(/\s/g, ' ')), 'count');

  await big.fill('#search', '');
  await big.focus('#search');
  await big.keyboard.press('ArrowDown');
  await big.keyboard.press('End');
  const last = await big.evaluate(() => document.activeElement.dataset.name);
  await big.keyboard.press('Home');
  const first = await big.evaluate(() => document.activeElement.dataset.name);
  truthy(last && first && last !== first, `Home and End lead to ${first} and ${last}`);
  truthy(
    await big.locator(`button.item[data-name="${first}"]`).isVisible(),
    'the focused row is not shown',
  );
  complaints.push(...more);
  await end();
});

await check('no console error, no exception, no policy violation', async () =>
  equal(complaints, [], 'complaints'),
);

await browser.close();
await finish();

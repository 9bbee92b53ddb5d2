// The explorer against a running `toolcrib serve --demo`.
//
//   TOOLCRIB_URL=http://127.0.0.1:8808 TOOLCRIB_KEY_ADMIN=tc_… TOOLCRIB_KEY_READER=tc_… \
//     TOOLCRIB_KEY_APPROVER=tc_… node explorer.mjs
import { check, equal, finish, launch, openPage, startSession, truthy } from './lib.mjs';

const { TOOLCRIB_URL, TOOLCRIB_KEY_ADMIN, TOOLCRIB_KEY_READER, TOOLCRIB_KEY_APPROVER } =
  process.env;
for (const name of [
  'TOOLCRIB_URL',
  'TOOLCRIB_KEY_ADMIN',
  'TOOLCRIB_KEY_READER',
  'TOOLCRIB_KEY_APPROVER',
]) {
  if (!process.env[name]) {
    console.error(
      `${name} is not set: start "toolcrib serve --demo" and take url and keys from its demo.json`,
    );
    process.exit(2);
  }
}
const explorer = `${TOOLCRIB_URL.replace(/\/$/, '')}/explorer`;

const started = Date.now();
const browser = await launch();
const { page, complaints } = await openPage(browser);

const signIn = async (target, key) => {
  await target.fill('#token', key);
  await target.press('#token', 'Enter');
  await target.waitForSelector('button.item');
};
const names = (target) =>
  target
    .locator('button.item:not([data-from="server"])')
    .evaluateAll((rows) => rows.map((row) => row.dataset.name));
const open = async (name) => {
  await page.click(`button.item[data-name="${name}"]`);
  await page.waitForFunction(
    (wanted) => document.querySelector('.tool h2')?.textContent === wanted,
    name,
  );
};
const input = (path) => page.locator(`[data-path="${path}"] :is(input, textarea)`).first();
/** Clicks Execute, confirms if the tool's tier requires it, and returns the outcome element. */
const execute = async () => {
  await page.evaluate(() => document.querySelector('.outcome')?.remove());
  await page.click('[data-action="execute"]');
  const outcome = page.locator('.outcome');
  await page.locator('[data-confirm="run"]').or(outcome).first().waitFor();
  if ((await page.locator('[data-confirm="run"]').count()) > 0)
    await page.click('[data-confirm="run"]');
  await outcome.waitFor();
  return outcome;
};

await check('the first screen is at most 12 requests and 70 KB, and later visits need no file', async () => {
  // Without the routes of `openPage`, which switch the cache of the browser off.
  const context = await browser.newContext();
  const own = await context.newPage();
  await startSession(own, new URL(explorer).origin, TOOLCRIB_KEY_ADMIN);
  const client = await own.context().newCDPSession(own);
  await client.send('Network.enable');
  let requests = [];
  client.on('Network.requestWillBeSent', ({ requestId, request }) => requests.push({ requestId, path: new URL(request.url).pathname, bytes: 0 }));
  client.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    const it = requests.find((one) => one.requestId === requestId);
    if (it) it.bytes = encodedDataLength;
  });
  client.on('Network.requestServedFromCache', ({ requestId }) => {
    const it = requests.find((one) => one.requestId === requestId);
    if (it) it.cached = true;
  });
  client.on('Network.responseReceived', ({ requestId, response }) => {
    const it = requests.find((one) => one.requestId === requestId);
    if (it && response.fromDiskCache) it.cached = true;
  });
  const visit = async () => {
    requests = [];
    await own.goto('about:blank');
    await own.goto(explorer);
    await own.waitForSelector('button.item');
    await own.waitForLoadState('load');
    await own.waitForTimeout(1_000); // what the page loads by itself afterwards belongs to it
    return requests.filter(({ path }) => path !== 'blank');
  };
  const first = await visit();
  const bytes = first.reduce((sum, it) => sum + it.bytes, 0);
  console.log(`      first screen: ${first.length} requests, ${(bytes / 1024).toFixed(1)} KB`);
  truthy(first.length <= 12, `requests: ${first.map(({ path }) => path).join(' ')}`);
  truthy(bytes > 20_000 && bytes <= 70_000, `${bytes} bytes: ${JSON.stringify(first)}`);
  const second = await visit();
  const files = second.filter(({ path }) => path.includes('/assets/'));
  truthy(files.length >= 2 && files.every((it) => it.cached), `files: ${JSON.stringify(files)}`);
  await context.close();
});

await check('the page loads at /explorer and at /explorer/', async () => {
  for (const address of [`${explorer}/`, explorer]) {
    const response = await page.goto(address);
    equal(response.status(), 200, `status of ${address}`);
    await page.waitForSelector('#signin');
  }
});

await check('the page leaves no placeholder and sends a strict policy', async () => {
  const response = await page.request.get(explorer);
  const html = await response.text();
  truthy(!html.includes('{{'), 'a template placeholder survived');
  truthy(/var executeEnabled = (true|false);/.test(html), 'the execute flag is missing');
  const policy = response.headers()['content-security-policy'] ?? '';
  truthy(
    policy.includes("default-src 'none'") && !policy.includes('unsafe'),
    `the policy is "${policy}"`,
  );
});

await check('without a key the page requests a sign-in', async () => {
  equal(await page.textContent('#token-badge'), 'No key', 'badge');
  truthy(/API key/.test(await page.textContent('#signin')), 'no key field in the card');
  const told = await page.textContent('#signin');
  truthy(/keys create/.test(told), 'instructions for creating a key are missing');
  truthy(/toolcrib demo keys/.test(told), 'the place of the demo keys is missing');
  equal(await page.locator('button.item').count(), 0, 'tools listed');
  equal(await page.evaluate(() => document.activeElement.id), 'token', 'focused element');
});

await check('a wrong key is reported as rejected', async () => {
  await page.fill('#token', 'tc_not_a_key');
  await page.press('#token', 'Enter');
  await page.waitForFunction(
    () => document.querySelector('#token-badge').textContent === 'Key rejected',
  );
});

let adminTools = [];
await check('the admin key lists tools and their count', async () => {
  await signIn(page, TOOLCRIB_KEY_ADMIN);
  adminTools = await names(page);
  for (const name of ['demo__echo', 'demo__add', 'demo__slow', 'demo__fail', 'demo__structured'])
    truthy(adminTools.includes(name), `${name} is not listed`);
  truthy(
    (await page.textContent('#count')).includes(`${adminTools.length} tool`),
    'the count differs from the list',
  );
  equal(await page.textContent('#token-badge'), 'Key set', 'badge');
});

await check('keys pressed together are joined by a plus', async () => {
  const keys = await page.locator('.overview .keys dt').allTextContents();
  equal(keys, ['/', '↑ ↓', 'Enter', 'Ctrl+Enter'], 'keys');
});

await check('the search narrows the list, reports the count, and can be cleared', async () => {
  await page.fill('#search', 'demo__add');
  equal(await names(page), ['demo__add'], 'listed tools');
  truthy(/^1 of /.test(await page.textContent('#count')), 'the count does not say 1 of n');
  await page.fill('#search', 'no-tool-has-this-name');
  truthy(await page.locator('text=No matches').isVisible(), 'no empty state');
  await page.click('text=Clear search and filters');
  equal((await names(page)).length, adminTools.length, 'listed tools after clearing');
});

await check('a filter chip narrows the list to its count', async () => {
  if ((await page.getAttribute('#filter-toggle', 'aria-expanded')) === 'false') {
    await page.click('#filter-toggle');
  }
  const chip = page.locator('#filters .chip').first();
  const count = Number(await chip.locator('.n').textContent());
  await chip.click();
  equal(await chip.getAttribute('aria-pressed'), 'true', 'aria-pressed');
  equal((await names(page)).length, count, 'listed tools');
  await chip.click();
  equal((await names(page)).length, adminTools.length, 'listed tools without the filter');
});

await check('opening a tool shows its schema and a deep link', async () => {
  await open('demo__add');
  truthy(page.url().endsWith('#tool=demo__add'), `address is ${page.url()}`);
  equal(
    await page.getAttribute('button.item[data-name="demo__add"]', 'aria-expanded'),
    'true',
    'aria-expanded',
  );
  await page.click('.tool [data-tab="schema"]');
  truthy(/a.*number.*required/.test(await page.textContent('.schema-tree')), 'the tree has no a');
  await page.click('[data-schema="input-json"]');
  const schema = await page.locator('.tool pre.code').first().textContent();
  truthy(JSON.parse(schema).properties.a !== undefined, 'the schema has no property a');
  await page.click('.tool [data-tab="try"]');
});

await check('the form starts from exactly the required keys', async () => {
  await page.click('[data-mode="json"]');
  const start = JSON.parse(await page.inputValue('textarea.json'));
  equal(Object.keys(start).sort(), ['a', 'b'], 'keys');
  await page.click('[data-mode="form"]');
});

await check('validating wrong input marks the field', async () => {
  await input('/a').fill('two');
  await input('/b').fill('3');
  await page.click('[data-action="validate"]');
  await page.waitForSelector('.output .verdict.bad');
  equal(
    await page.textContent('.violations'),
    'a: Enter a number, such as 2.5.',
    'the violation in plain words',
  );
  equal(await input('/a').getAttribute('aria-invalid'), 'true', 'aria-invalid of a');
  equal(await input('/b').getAttribute('aria-invalid'), null, 'aria-invalid of b');
});

await check('validating right input is green', async () => {
  await input('/a').fill('2');
  await page.click('[data-action="validate"]');
  await page.waitForSelector('.output .verdict.good');
  equal(await page.textContent('.output .verdict.good'), 'Input is valid.', 'verdict');
});

await check('executing add 2 + 3 gives 5', async () => {
  const outcome = await execute();
  equal(await outcome.getAttribute('data-tone'), 'good', 'tone');
  truthy(
    /\b5\b/.test(await outcome.locator('.blocks').innerText()),
    `result is ${await outcome.innerText()}`,
  );
  truthy(/HTTP 200/.test(await outcome.locator('.facts').innerText()), 'no status shown');
  await outcome.locator('[data-tab="raw"]').click();
  truthy(
    (await outcome.locator('pre.code:visible').first().innerText()).includes('"isError": false'),
    'the raw answer is not shown',
  );
});

await check('Ctrl and Enter execute the open tool, wherever the focus is', async () => {
  await open('demo__echo');
  await input('/text').fill('hi');
  for (const focus of ['.tool [data-tab="schema"]', '[data-action="validate"]', '#search']) {
    await page.evaluate(() => document.querySelector('.outcome')?.remove());
    await page.click('.tool [data-tab="schema"]');
    if (!focus.includes('validate')) await page.focus(focus);
    await page.keyboard.press('Control+Enter');
    await page.locator('.outcome[data-tone="good"]').waitFor();
    truthy(page.url().endsWith('#tool=demo__echo'), `another tool was opened: ${page.url()}`);
  }
});

await check('a failing tool is shown in red', async () => {
  await open('demo__fail');
  const outcome = await execute();
  equal(await outcome.getAttribute('data-tone'), 'bad', 'tone');
  truthy(/HTTP 500/.test(await outcome.locator('.facts').innerText()), 'no status shown');
});

await check('structured content is shown', async () => {
  await open('demo__structured');
  await input('/city').fill('Oslo');
  truthy(
    /structured content/.test(await (await execute()).innerText()),
    'no structured content block',
  );
});

await check('the result survives a visit to another tool and is in the history and the record', async () => {
  await open('demo__add');
  truthy(await page.locator('.outcome').isVisible(), 'the result is gone');
  await page.click('.tool [data-tab="history"]');
  equal(await page.locator('ol.history li').count(), 1, 'history entries');
  const recent = page.locator('[aria-label="Recent calls"]').first();
  await recent.locator('td').first().waitFor();
  const told = await recent.innerText();
  for (const part of ['admin', 'ok', '0 %'])
    truthy(told.includes(part), `the recent calls have no "${part}": ${told}`);
});

await check('the page explains step by step why a tool can be used', async () => {
  await open('demo__add');
  await page.click('[data-tab="why"]');
  await page.waitForSelector('.why-steps li[data-result="pass"]');
  const steps = await page.locator('.why-name').allTextContents();
  equal(JSON.stringify(steps.slice(0, 3)), '["Tool","Tenant","Scope"]', 'steps');
  truthy(/A call would run/.test(await page.textContent('.why')), 'no outcome');
  await page.click('[data-tab="try"]');
});

await check('snippets hide the key', async () => {
  await page.click('.tool [data-tab="snippets"]');
  for (const kind of ['curl', 'otc', 'mcp', 'client']) {
    await page.click(`.sheet [data-tab="${kind}"]`);
    const text = await page.locator('.sheet pre:visible').innerText();
    truthy(!text.includes(TOOLCRIB_KEY_ADMIN), `${kind} shows the key`);
    truthy(text.includes('TOOLCRIB_KEY'), `${kind} has no place for the key`);
  }
  await page.click('.sheet [data-tab="otc"]');
  await page.waitForFunction(() =>
    /"tool_id":"[A-Za-z0-9_]+\.[A-Za-z0-9_]+@\d+\.\d+\.\d+"/.test(
      document.querySelector('.sheet [role="tabpanel"]:not([hidden]) pre').textContent,
    ),
  );
});

await check('the key is in no storage and not in the address', async () => {
  const kept = await page.evaluate(
    () => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie + location.href,
  );
  truthy(!kept.includes(TOOLCRIB_KEY_ADMIN), 'the key was stored');
});

await check('signing out drops the tools and results of the key', async () => {
  await page.click('#account-button');
  await page.click('#sign-out');
  await page.waitForSelector('#signin');
  equal(await page.locator('button.item, .outcome').count(), 0, 'left over elements');
  equal(await page.inputValue('#token'), '', 'the key field');
});

await check('the reader sees fewer tools than the admin', async () => {
  const reader = await openPage(browser);
  await reader.page.goto(explorer);
  await signIn(reader.page, TOOLCRIB_KEY_READER);
  const seen = await names(reader.page);
  truthy(seen.length < adminTools.length, `reader sees ${seen.length}, admin ${adminTools.length}`);
  truthy(
    seen.every((name) => adminTools.includes(name)),
    'the reader sees a tool that the admin does not',
  );
  const hidden = adminTools.find((name) => !seen.includes(name));
  await reader.page.goto(`${explorer}#tool=${encodeURIComponent(hidden)}`);
  await reader.page.waitForSelector('text=Tool not found');
  complaints.push(...reader.complaints);
  await reader.close();
});

await check('an approver sees pending approvals and decides them', async () => {
  const call = (body) =>
    page.request.post(`${explorer}/tools/demo__wipe/call`, {
      headers: { Authorization: `Bearer ${TOOLCRIB_KEY_ADMIN}` },
      data: body,
    });
  const target = (number) => ({ target: `<img src=x onerror=alert(${number})> ${started}` });
  // Requests of an earlier run against the same server may still be decided or pending.
  const asked = [];
  for (const number of [1, 2]) {
    const refused = await call(target(number));
    equal(refused.status(), 403, 'status of a call that requires approval');
    asked.push((await refused.json()).details.approvalId);
  }
  const { page: desk, complaints: said, close } = await openPage(browser);
  // Like a server whose operator enables the display of arguments.
  const shows = (it) => ({ ...it, redactedArguments: { depth: { of: 2 } } });
  await desk.route(/\/v1\/approvals[/?](?!events)/, async (route) => {
    if (route.request().method() !== 'GET') return route.continue();
    const response = await route.fetch();
    const data = await response.json();
    const shown = data.approvals ? { ...data, approvals: data.approvals.map(shows) } : shows(data);
    return route.fulfill({ response, json: shown });
  });
  await desk.goto(`${explorer}#/approvals/${asked[1]}`);
  await desk.fill('#token', TOOLCRIB_KEY_APPROVER);
  await desk.press('#token', 'Enter');
  const card = (id) => desk.locator(`article[data-approval="${id}"]`);
  await card(asked[1]).waitFor();
  equal(await desk.locator('.approval.marked').getAttribute('data-approval'), asked[1], 'marked');
  await desk.getByRole('link', { name: 'All pending requests' }).click();
  await card(asked[0]).locator('text="depth"').waitFor();
  const text = await card(asked[0]).textContent();
  for (const part of ['admin', 'mcp:demo.wipe', 'depth'])
    truthy(text.includes(part), `the card has no ${part}: ${text}`);
  truthy(!text.includes('onerror'), 'the card shows an argument');
  equal(await card(asked[0]).locator('[data-verdict="override"]').count(), 0, 'overrides');
  await card(asked[0]).locator('input').fill('fine');
  await card(asked[0]).locator('[data-verdict="grant"]').click();
  await card(asked[0]).locator('text=You approved it').waitFor();
  await card(asked[1]).locator('[data-verdict="reject"]').click();
  await card(asked[1]).locator('text=You rejected it').waitFor();
  equal((await call(target(1))).status(), 200, 'status of the granted call');
  equal((await call(target(1))).status(), 403, 'status of the call after that');
  const rejected = (await (await call(target(2))).json()).details;
  equal([rejected.approval, rejected.approvalId], ['rejected', asked[1]], 'the rejected call');
  // Another caller starts from an empty state.
  await desk.click('#account-button');
  await desk.click('#sign-out');
  await desk.waitForFunction(() => document.querySelector('.approval') === null);
  complaints.push(...said);
  await close();
});

await check('the requester gets no approval buttons', async () => {
  const { page: own, complaints: said, close } = await openPage(browser);
  await own.goto(explorer);
  await signIn(own, TOOLCRIB_KEY_ADMIN);
  await own.evaluate(() => {
    location.hash = '#/approvals';
  });
  await own.waitForSelector('article.approval');
  equal(await own.locator('[data-verdict="grant"]').count(), 0, 'buttons to approve');
  complaints.push(...said);
  await close();
});

await check(
  'a call that waits for approval is calm, links its request, and runs when granted',
  async () => {
    const { page: own, complaints: said, close } = await openPage(browser);
    await own.goto(`${explorer}#tool=demo__wipe`);
    await signIn(own, TOOLCRIB_KEY_ADMIN);
    await own.click('[data-add="target"]');
    await own.fill('[data-path="/target"] textarea', `waits ${started}`);
    await own.click('[data-action="execute"]');
    await own.click('[data-confirm="run"]');
    const waiting = own.locator('.outcome.waiting');
    await waiting.locator('text=approvals:respond').waitFor();
    const told = await waiting.innerText();
    for (const part of ['Waiting for approval', 'Requested as admin', 'expires'])
      truthy(told.includes(part), `the outcome has no "${part}": ${told}`);
    equal(await own.locator('.outcome[data-tone="bad"]').count(), 0, 'failures shown');
    const id = await waiting.locator('a[data-approval]').getAttribute('data-approval');
    equal(
      await waiting.locator('a[data-approval]').getAttribute('href'),
      `#/approvals/${id}`,
      'link',
    );
    const granted = await own.request.post(`${TOOLCRIB_URL}/v1/approvals/${id}`, {
      headers: { Authorization: `Bearer ${TOOLCRIB_KEY_APPROVER}` },
      data: { verdict: 'grant' },
    });
    equal(granted.status(), 200, 'status of the grant');
    const outcome = own.locator('.outcome[data-tone="good"]');
    await outcome.waitFor({ timeout: 5000 });
    truthy(/nothing was deleted/.test(await outcome.innerText()), 'the result is not shown');
    complaints.push(...said);
    await close();
  },
);

await check('a rejected call says who rejected it and why', async () => {
  const { page: own, complaints: said, close } = await openPage(browser);
  await own.goto(`${explorer}#tool=demo__wipe`);
  await signIn(own, TOOLCRIB_KEY_ADMIN);
  await own.click('[data-add="target"]');
  await own.fill('[data-path="/target"] textarea', `rejected ${started}`);
  await own.click('[data-action="execute"]');
  await own.click('[data-confirm="run"]');
  const waiting = own.locator('.outcome.waiting');
  const id = await waiting.locator('a[data-approval]').getAttribute('data-approval');
  await own.request.post(`${TOOLCRIB_URL}/v1/approvals/${id}`, {
    headers: { Authorization: `Bearer ${TOOLCRIB_KEY_APPROVER}` },
    data: { verdict: 'reject', comment: 'not today' },
  });
  await waiting.locator('text=approver rejected it: “not today”').waitFor({ timeout: 5000 });
  equal(await waiting.getAttribute('data-tone'), 'bad', 'tone');
  complaints.push(...said);
  await close();
});

await check('a phone has its landmarks, with the list and with a tool', async () => {
  const phone = await openPage(browser, { viewport: { width: 390, height: 844 } });
  const visible = (selector) => phone.page.locator(`${selector} >> visible=true`).count();
  await phone.page.goto(explorer);
  equal(await visible('main'), 1, 'main landmarks without a key');
  await signIn(phone.page, TOOLCRIB_KEY_ADMIN);
  equal([await visible('main'), await visible('nav')], [1, 2], 'main and nav with the list');
  await phone.page.click('button.item[data-name="demo__add"]');
  await phone.page.waitForSelector('.tool h2');
  equal([await visible('main'), await visible('nav')], [1, 1], 'main and nav with a tool');
  complaints.push(...phone.complaints);
  await phone.close();
});

await check('nothing overflows at 390 px', async () => {
  const phone = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await phone.page.goto(`${explorer}#tool=demo__add`);
  await phone.page.fill('#token', TOOLCRIB_KEY_ADMIN);
  await phone.page.press('#token', 'Enter');
  await phone.page.waitForSelector('.tool h2');
  const wide = await phone.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  truthy(wide <= 0, `the page is ${wide} px too wide`);
  await phone.page.click('.back');
  await phone.page.locator('button.item').first().waitFor();
  complaints.push(...phone.complaints);
  await phone.close();
});

await check('no console error, no exception, no policy violation', async () =>
  equal(complaints, [], 'complaints'),
);

await browser.close();
await finish();

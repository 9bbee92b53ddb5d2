// The screens other than the tools, one journey for each screen and role, against a running demo.
//
//   TOOLCRIB_URL=http://127.0.0.1:8808 TOOLCRIB_KEY_ADMIN=tc_… TOOLCRIB_KEY_READER=tc_… \
//     TOOLCRIB_KEY_APPROVER=tc_… TOOLCRIB_KEY_OTHER_TENANT=tc_… node console.mjs
import { readFileSync } from 'node:fs';
import { check, countClicks, equal, finish, launch, signIn, truthy } from './lib.mjs';
import { ask, as as openAs, checkComplaints, keyOf, url } from './screens.mjs';

const browser = await launch();
const as = (role, address, options) => openAs(browser, role, address, options);
const api = async (role, path, body) => (await ask(role, path, body)).data;
const call = (role, tool, input) =>
  api(role, '/tools/call', { request: { tool_id: tool, input } });
const sections = (page) => page.locator('.section').evaluateAll((all) => all.map((it) => it.dataset.section));
const open = async (page, section) => {
  await page.click(`.section[data-section="${section}"]`);
  await page.waitForSelector(`.section[data-section="${section}"][aria-current="page"]`);
};

await check('sections are those that the caller may use', async () => {
  for (const [role, wanted] of [
    ['admin', ['tools', 'approvals', 'record', 'sources', 'access', 'connections', 'connect']],
    ['caller', ['tools', 'approvals', 'connections', 'connect']],
    ['approver', ['tools', 'approvals', 'connections', 'connect']],
  ]) {
    const { page, close } = await as(role);
    equal(await sections(page), wanted, role);
    equal(await page.isVisible('#auth'), false, 'the key field once signed in');
    await close();
  }
});

await check('an address that the caller may not open says what is missing', async () => {
  const { page, close } = await as('caller', '#/record');
  await page.waitForSelector('.screen .empty');
  truthy(/audit:read/.test(await page.textContent('.screen')), 'the scope is not named');
  await close();
});

await check('a deep link survives the sign-in', async () => {
  const { page, close } = await as('admin', '#/sources/demo');
  await page.waitForSelector('.screen h2 bdi');
  equal((await page.textContent('.screen h2 bdi')).trim(), 'demo', 'source');
  await close();
});

await check('the account shows who is signed in, and signs out', async () => {
  const { page, close } = await as('admin');
  await page.click('#account-button');
  const menu = await page.textContent('.menu');
  truthy(/admin/.test(menu) && /demo/.test(menu), menu);
  await page.click('#stay-signed-in');
  await page.getByText('in all tabs of this browser').waitFor();
  await page.reload();
  await page.waitForSelector('.section');
  await page.click('#account-button');
  await page.click('#sign-out');
  await page.waitForSelector('#signin');
  equal(await page.locator('.section').count(), 0, 'sections after signing out');
  equal(await page.evaluate(() => [sessionStorage.length, localStorage.length]), [0, 0], 'what is kept after signing out');
  await close();
});

await check('the palette goes to a tool and to a screen with the keyboard alone', async () => {
  const { page, close } = await as('admin');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('echo');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash === '#tool=demo__echo');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('acc');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash === '#/access');
  await page.waitForSelector('.screen h2');
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await page.waitForFunction(() => location.hash === '#/sources');
  await close();
});

await check('a request appears by itself and is approved in place', async () => {
  const { page, close } = await as('approver', '#/approvals');
  await page.waitForSelector('.approvals-screen');
  const before = await page.locator('.approval').count();
  const waiting = call('admin', 'demo.wipe', { target: `console ${Date.now()}` });
  await page.waitForFunction((count) => document.querySelectorAll('.approval').length > count, before);
  const pending = (await api('approver', '/v1/approvals?state=pending')).approvals[0];
  const card = page.locator(`[data-approval="${pending.approvalId}"]`);
  truthy(/Pretends to delete/.test(await card.textContent()), 'the description of the tool');
  truthy(/^\(\d+\)/.test(await page.title()), `the title is ${await page.title()}`);
  const top = () => card.evaluate((it) => it.getBoundingClientRect().top + scrollY);
  const place = await top();
  await card.locator('[data-verdict="grant"]').click();
  await card.getByText('You approved it.').waitFor();
  equal(await top(), place, 'the place of the answered card');
  await waiting;
  await page.click('#tab-history');
  await page.waitForSelector('.screen table tbody tr');
  await close();
});

await check('the link of a webhook leads to its request, which is approved in three clicks', async () => {
  const target = `webhook ${Date.now()}`;
  const refused = await call('admin', 'demo.wipe', { target });
  const id = JSON.stringify(refused).match(/Approval ([\w-]+) is pending/)[1];
  // The address that the webhook carries, for a page without a key.
  const { page, close } = await as('anonymous', `#approval=${id}`);
  await signIn(page, keyOf('approver'));
  const clicks = await countClicks(page);
  await page.waitForSelector('.approval.marked');
  equal(await page.getAttribute('.approval.marked', 'data-approval'), id, 'the marked request');
  await page.click('.approval.marked [data-verdict="grant"]');
  await page.getByText('You approved it.').waitFor();
  const count = await clicks.count();
  console.log(`      approved in ${count} click(s) after the sign-in`);
  truthy(count >= 1 && count <= 3, `it took ${count} clicks`);
  equal((await api('approver', `/v1/approvals/${id}`)).state, 'granted', 'state');
  await close();
});

await check('nobody answers a request of their own', async () => {
  call('admin', 'demo.wipe', { target: `own ${Date.now()}` });
  const { page, close } = await as('caller', '#/approvals');
  await page.waitForSelector('.approvals-screen .empty, .approvals-screen .approval');
  equal(await page.locator('[data-verdict]').count(), 0, 'buttons for a reader');
  await close();
});

await check('the record filters, links to a run, and keeps the filter in the address', async () => {
  await call('admin', 'demo.echo', { text: 'for the record' });
  await call('admin', 'demo.fail', {});
  const { page, close } = await as('admin', '#/record');
  await page.waitForSelector('.screen tbody tr');
  truthy((await page.locator('.chart rect').count()) > 0, 'the chart has no bars');
  await page.fill('#record-query', 'status:failed');
  await page.waitForFunction(() =>
    [...document.querySelectorAll('.screen tbody tr .badge')].every((it) => it.textContent === 'error'),
  );
  truthy(/q=status%3Afailed/.test(page.url()), page.url());
  await page.fill('#record-query', 'color:red');
  await page.waitForSelector('#record-hint[role=alert]');
  await page.fill('#record-query', 'tool:demo__echo');
  await page.waitForFunction(() => /q=tool%3Ademo__echo/.test(location.hash));
  const saved = page.waitForEvent('download');
  await page.click('#record-export');
  const lines = readFileSync(await (await saved).path(), 'utf8').trim().split('\n').map(JSON.parse);
  truthy(lines.length > 0, 'the download is empty');
  truthy(lines.every((it) => (it.payload.toolName ?? 'mcp:demo.echo') === 'mcp:demo.echo'), 'the download is not filtered');
  truthy(lines.every((it) => /^[0-9a-f]{64}$/.test(it.chain.hash)), 'the download has no hashes');
  await page.click('.verify button');
  await page.waitForSelector('[data-verified=sound]');
  await page.click('.screen tbody tr:first-child a[href*="/run/"]');
  await page.waitForSelector('.timeline li');
  truthy(/demo__echo/.test(await page.textContent('.timeline')), 'the run shows its tool');
  await close();
});

await check('a query is completed from what the caller sees, and numbers are links', async () => {
  const { page, close } = await as('admin', '#/record');
  await page.waitForSelector('.screen tbody tr');
  const offered = async (text) => {
    await page.fill('#record-query', text);
    return page.locator('#record-words option').evaluateAll((all) => all.map((it) => it.value));
  };
  truthy((await offered('st')).includes('status:'), 'names of fields');
  truthy((await offered('status:denied so')).includes('status:denied source:'), 'the words before stay');
  equal(await offered('source:librar'), ['source:library'], 'sources');
  truthy((await offered('actor:adm')).includes('actor:admin'), 'principals');
  equal(await offered('color:'), [], 'an unknown field');
  await page.fill('#record-query', '');
  await page.waitForSelector('.legend [data-status="failed"]');
  await page.click('.legend [data-status="approval_required"]');
  await page.waitForFunction(() => /q=status%3Aapproval_required/.test(location.hash));
  await page.waitForFunction(() =>
    [...document.querySelectorAll('.screen tbody tr')].every((it) => /approval required/.test(it.textContent)),
  );
  await page.click('.ranking button >> nth=0');
  await page.waitForFunction(() => /tool%3A/.test(location.hash));
  await page.goto(`${page.url().replace(/#.*/, '')}#/sources`);
  await page.click('tr[data-source="library"] td.right a');
  await page.waitForFunction(() => document.querySelectorAll('#tools button.item').length === 2);
  await close();
});

await check('a tab has one stream of changes, which is opened again after a sleep', async () => {
  let streams = 0;
  const { page, close } = await as('admin', '', {
    before: (it) => it.on('request', (request) => (streams += Number(request.url().endsWith('/v1/changes')))),
  });
  for (const section of ['approvals', 'record', 'sources', 'access', 'connections', 'connect', 'tools']) await open(page, section);
  equal(streams, 1, 'streams of a tab');
  // After a sleep the stream has been silent for too long, and is opened again.
  const again = page.waitForRequest((request) => request.url().endsWith('/v1/changes'));
  await page.evaluate(() => {
    const now = Date.now;
    Date.now = () => now() + 60_000;
  });
  await again;
  equal(streams, 2, 'streams after a sleep');
  await open(page, 'approvals');
  const refused = await call('admin', 'demo.wipe', { target: `asleep ${Date.now()}` });
  const id = JSON.stringify(refused).match(/Approval ([\w-]+) is pending/)[1];
  await page.waitForSelector(`[data-approval="${id}"]`);
  await close();
});

await check('who called what last week is found and exported in at most six clicks', async () => {
  const { page, close } = await as('admin');
  const clicks = await countClicks(page);
  await page.click('.section[data-section="record"]');
  await page.waitForSelector('.screen tbody tr');
  await page.selectOption('#record-range', '7d');
  await clicks.type('#record-query', 'tool:demo__echo');
  await page.waitForFunction(() => /q=tool%3Ademo__echo/.test(location.hash));
  await page.waitForFunction(() =>
    [...document.querySelectorAll('.screen tbody tr td:nth-child(4)')].every((it) => it.textContent === 'demo__echo'),
  );
  truthy((await page.textContent('.screen tbody')).includes('admin'), 'the principal is not shown');
  const saved = page.waitForEvent('download');
  await page.click('#record-export');
  const file = await saved;
  truthy(/^record-.*\.jsonl$/.test(file.suggestedFilename()), file.suggestedFilename());
  truthy((await clicks.count()) <= 6, `${await clicks.count()} clicks`);
  await close();
});

await check('new events wait under a bar', async () => {
  const { page, close } = await as('admin', '#/record');
  await page.waitForSelector('.screen tbody tr');
  await call('admin', 'demo.echo', { text: 'new' });
  await page.waitForSelector('.fresh');
  await page.click('.fresh');
  await page.waitForFunction(() => !document.querySelector('.fresh'));
  await close();
});

await check('while live, new events come by themselves', async () => {
  const { page, close } = await as('admin', '#/record');
  await page.waitForSelector('.screen tbody tr');
  await page.getByRole('button', { name: 'Live: off' }).click();
  await page.getByRole('button', { name: 'Live: on' }).waitFor();
  await call('admin', 'demo.add', { a: 1, b: 2 });
  const { events } = await api('admin', '/v1/events?limit=1&query=tool%3Ademo__add');
  const run = events[0].event?.runId ?? events[0].runId;
  await page.waitForSelector(`.screen tbody a[href*="${run}"]`);
  await close();
});

await check('sources show their health and limits', async () => {
  const { page, close } = await as('admin', '#/sources');
  await page.waitForSelector('tr[data-source="demo"]');
  truthy(/ready/.test(await page.textContent('tr[data-source="demo"]')), 'state');
  await page.click('tr[data-source="demo"] a');
  await page.getByText('Limits', { exact: true }).waitFor();
  await page.getByText('Every tool has its approved form.').waitFor();
  await close();
});

await check('a key is created, shown once, rotated and revoked', async () => {
  const { page, close } = await as('admin', '#/access');
  await page.click('#new-key');
  await page.click('dialog .button.primary');
  await page.fill('dialog input >> nth=0', 'journey');
  await page.click('dialog .button.primary');
  await page.getByText('at least one role or scope').waitFor();
  await page.fill('dialog input[placeholder^="files"]', 'demo:read');
  await page.click('dialog .button.primary');
  const text = await page.textContent('[data-new-key]');
  truthy(text.startsWith('tc_'), text);
  const headers = { Authorization: `Bearer ${text}` };
  const who = await (await fetch(`${url}/v1/whoami`, { headers })).json();
  equal(who.principal, 'journey', 'principal of the new key');
  await page.keyboard.press('Escape');
  const row = page.locator('tr[data-key]', { hasText: 'journey' }).first();
  await row.getByText('Rotate').click();
  await page.selectOption('dialog select', '0');
  await page.click('dialog .button.primary');
  await page.waitForSelector('[data-new-key]');
  // The old key is gone from the list; the new one must still be shown.
  await page.waitForTimeout(500);
  truthy((await page.textContent('[data-new-key]')).startsWith('tc_'), 'the new key is gone');
  await page.keyboard.press('Escape');
  const left = page.locator('tr[data-key]', { hasText: 'journey' }).first();
  await left.getByText('Revoke').click();
  await page.click('[data-confirm="revoke"]');
  await page.waitForFunction(
    () => ![...document.querySelectorAll('tr[data-key]')].some((it) => /journey/.test(it.textContent)),
  );
  await close();
});

await check('a client is connected, and its first request is seen', async () => {
  const { page, close } = await as('admin', '#/connect');
  await page.click('[data-client="cursor"]');
  await page.fill('.steps input', 'demo:read');
  await page.click('.steps .button.primary');
  await page.waitForFunction(() => /Bearer tc_/.test(document.querySelector('[data-snippet]').textContent));
  const snippet = JSON.parse(await page.textContent('[data-snippet]'));
  const { headers, url: at } = snippet.mcpServers.toolcrib;
  equal(at, `${url}/mcp`, 'address');
  await fetch(`${url}/v1/tools`, { headers });
  await page.waitForSelector('[data-first-request]');
  await close();
});

await check('another tenant sees nothing of this one', async () => {
  const { page, close } = await as('other', '#/sources');
  for (const section of (await sections(page)).filter((it) => it !== 'tools')) {
    await open(page, section);
    await page.waitForTimeout(400);
    const text = await page.textContent('.screen');
    truthy(!/journey|demo__wipe|console/.test(text), `${section}: ${text.slice(0, 200)}`);
  }
  await close();
});

await checkComplaints();

await browser.close();
await finish();

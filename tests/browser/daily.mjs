// What approvers and auditors rely on every day: links, kept words, counts, sentences of the record, and a
// page that stays small. On a server that this script starts.
//
//   TOOLCRIB_PROGRAM=target/debug/toolcrib node daily.mjs
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { check, equal, finish, launch, signIn, truthy, until } from './lib.mjs';
import { openSignedIn, startShop } from './own-server.mjs';

const server = await startShop(
  '',
  `
[[source]]
id = "gone"
kind = "mcp"
command = ["./no-such-program"]

[record]
checkpoint_interval = "200ms"

[[role]]
name = "clerk"
scopes = ["shop:use"]
`,
);
const KEYS = {
  cara: server.keyOf('cara', ['shop:use']),
  ann: server.keyOf('ann', ['approvals:respond']),
  lena: server.keyOf('lena', ['approvals:respond', 'audit:read']),
  omar: server.keyOf('omar', ['shop:use', 'sources:read', 'audit:read']),
  ada: server.keyOf('ada', ['tools:none']),
  all: server.keyOf('all', ['*']),
  boss: server.keyOf('boss', ['audit:read', 'explain:others', 'roles:read']),
};
const browser = await launch();
const complaints = [];

const as = (role, address, url = server.url) => openSignedIn(browser, url, address, KEYS[role], complaints);

async function api(role, method, path, body) {
  const reply = await fetch(`${server.url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${KEYS[role]}`, 'Content-Type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return { status: reply.status, data: await reply.json() };
}
const echo = (text) => api('cara', 'POST', '/explorer/tools/shop__echo/call', { text });
const wipe = (target) => api('cara', 'POST', '/explorer/tools/shop__wipe/call', { target });
/** Asks to run the tool that needs an approval; returns the id of the request. */
const request = async (target) => (await wipe(target)).data.details.approvalId;
const answer = (role, id, verdict) => api(role, 'POST', `/v1/approvals/${id}`, { verdict });

/** The way to the server, which can be cut. */
async function cable() {
  const sockets = new Set();
  const listener = createServer((here) => {
    const there = connect(Number(new URL(server.url).port), '127.0.0.1');
    for (const [from, to] of [[here, there], [there, here]]) {
      sockets.add(from);
      from.on('close', () => sockets.delete(from) && to.destroy());
      from.on('error', () => to.destroy());
      from.pipe(to);
    }
  });
  const listen = (port) => new Promise((done) => listener.listen(port, '127.0.0.1', done));
  await listen(0);
  const { port } = listener.address();
  const cut = async () => {
    const closed = new Promise((done) => listener.close(done));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return { url: `http://127.0.0.1:${port}`, cut, mend: () => listen(port) };
}

/** The text that a person reads, on one line. */
const read = async (locator) => (await locator.innerText()).replace(/\s+/g, ' ').trim();

await until('the tools', async () => JSON.stringify((await api('cara', 'GET', '/v1/tools')).data).includes('wipe'));

await check('eight tabs share one stream of changes, and each one hears them', async () => {
  let streams = 0;
  const { page, close } = await as('ann', '#/approvals');
  const context = page.context();
  const tabs = [page];
  context.on('request', (it) => (streams += it.url().endsWith('/v1/changes') ? 1 : 0));
  for (let at = 1; at < 8; at += 1) {
    const tab = await context.newPage();
    await tab.goto(`${server.url}/explorer#/approvals`, { timeout: 10_000 });
    await signIn(tab, KEYS.ann);
    await tab.getByRole('heading', { name: 'Approvals' }).waitFor();
    tabs.push(tab);
  }
  equal(streams, 0, 'streams of the other seven tabs');
  const id = await request('eight tabs');
  for (const tab of tabs) await tab.waitForSelector(`[data-approval="${id}"].approval`);
  // Another tab takes over from the one that held the stream.
  await tabs.shift().close();
  await until('another stream', () => streams === 1);
  const next = await request('seven tabs');
  for (const tab of tabs) await tab.waitForSelector(`[data-approval="${next}"].approval`);
  for (const it of [id, next]) await answer('ann', it, 'reject');
  await close();
});

await check('a link to a request shows that request alone, in its state', async () => {
  const other = await request('another one');
  const id = await request('the linked one');
  const { page, close } = await as('lena', `#approval=${id}`);
  const shown = page.locator('.approval');
  await shown.getByText('the linked one').waitFor();
  equal(await shown.count(), 1, 'requests on the screen');
  equal(await page.locator('[data-verdict="grant"]').count(), 1, 'buttons to approve');
  // Another approver answers, and the call runs.
  await answer('ann', id, 'grant');
  await shown.getByText('The call has not run yet.').waitFor();
  truthy(/^Approved by ann (now|\d+ seconds? ago)\. The call has not run yet\.$/.test(await read(shown.locator('[data-outcome]'))), await read(shown.locator('[data-outcome]')));
  equal(await page.locator('[data-verdict="grant"]').count(), 0, 'buttons of an answered request');
  equal((await wipe('the linked one')).status, 200, 'the call after the approval');
  await page.reload();
  await signIn(page, KEYS.lena);
  await shown.getByText('it ran').waitFor();
  await shown.getByText(/, ok, in/).waitFor();
  const told = await read(shown.locator('[data-outcome]'));
  truthy(/^Approved by ann (now|\d+ seconds? ago); it ran, ok, in \d+ m?s\.$/.test(told), told);
  equal(await shown.count(), 1, 'requests on the screen');
  await close();
  await answer('ann', other, 'reject');

  const rejected = await as('ann', `#approval=${other}`);
  await rejected.page.getByText('The tool does not run.').waitFor();
  truthy(/^Rejected by ann .*\. The tool does not run\.$/.test(await read(rejected.page.locator('[data-outcome]'))), 'the sentence of a rejection');
  await rejected.close();
});

await check('a link to an unknown or invisible request says so, and shows no other', async () => {
  const id = await request('not for omar');
  for (const [role, link] of [['ann', 'no-such-request'], ['omar', id]]) {
    const { page, close } = await as(role, `#/approvals/${link}`);
    await page.getByRole('heading', { name: 'Request not found' }).waitFor();
    equal(await page.locator('.approval').count(), 0, `requests for ${role}`);
    equal(await page.locator('[data-verdict]').count(), 0, `buttons for ${role}`);
    await close();
  }
  await answer('ann', id, 'reject');
});

await check('a request that fails leaves the screen, and what was typed stays', async () => {
  const id = await request('behind a failure');
  const { page, close } = await as('ann', '#/approvals');
  const card = page.locator(`[data-approval="${id}"].approval`);
  await card.getByLabel('Comment').fill('half a sentence');
  await page.route('**/v1/approvals**', (route) => route.fulfill({ status: 503, json: { error: 'unavailable', message: 'the store is away' } }));
  const second = await request('during the failure');
  const stale = page.locator('#screen .stale').first();
  await stale.waitFor();
  truthy(/^Not current since .+, trying again\. the store is away$/.test(await read(stale)), await read(stale));
  equal(await card.getByLabel('Comment').inputValue(), 'half a sentence', 'the comment during the failure');
  await page.unroute('**/v1/approvals**');
  await page.waitForSelector(`[data-approval="${second}"].approval`);
  equal(await page.locator('#screen .stale').count(), 0, 'notes of a failure that is over');
  equal(await card.getByLabel('Comment').inputValue(), 'half a sentence', 'the comment after the failure');

  // The sign-in ends, and the same person comes back.
  await page.route('**/explorer/catalog', (route) => route.fulfill({ status: 401, json: { error: 'unauthenticated', message: 'ended' } }));
  await page.route('**/v1/**', (route) => route.fulfill({ status: 401, json: { error: 'unauthenticated', message: 'ended' } }));
  await request('a change for the page');
  await page.waitForSelector('#signin');
  await page.unroute('**/v1/**');
  await page.unroute('**/explorer/catalog');
  await signIn(page, KEYS.ann);
  await card.waitFor();
  equal(await card.getByLabel('Comment').inputValue(), 'half a sentence', 'the comment after the next sign-in');
  await page.click('#account-button');
  await page.click('#sign-out');
  await page.waitForSelector('#signin');
  await signIn(page, KEYS.ann);
  await card.waitFor();
  equal(await card.getByLabel('Comment').inputValue(), '', 'the comment after signing out');
  await close();
  const { approvals } = (await api('ann', 'GET', '/v1/approvals?state=pending')).data;
  for (const it of approvals) await answer('ann', it.approvalId, 'reject');
});

await check('a page without a connection says so, and goes on by itself', async () => {
  const { url, cut, mend } = await cable();
  const { page, close } = await as('omar', '#/sources', url);
  await page.waitForSelector('#screen tbody tr');
  await cut();
  await page.waitForSelector('#offline', { timeout: 20_000 });
  const sign = await read(page.locator('#offline'));
  truthy(/^Not connected since \d.*\d.*, trying again$/.test(sign), sign);
  const stale = page.locator('#screen .stale');
  await stale.waitFor();
  truthy(/^Not current since .+, trying again\. The server could not be reached/.test(await read(stale)), await read(stale));
  equal(await page.locator('#screen tbody tr[data-source]').count(), 2, 'rows');
  await mend();
  await page.locator('#offline').waitFor({ state: 'detached', timeout: 40_000 });
  await stale.waitFor({ state: 'detached', timeout: 40_000 });
  await close();
});

await check('sources say what is wrong, and the navigation counts them', async () => {
  const { page, close } = await as('omar', '#/sources');
  await page.getByText('1 of 2 sources needs attention.').waitFor();
  const cells = await page.locator('tr[data-source="gone"] td').allInnerTexts();
  equal(cells.at(-1), 'cannot start the program: not found; check command, cwd and PATH', 'the problem');
  const fine = await page.locator('tr[data-source="shop"] td').allInnerTexts();
  equal(fine.at(-1), '', 'the problem of a healthy source');
  const count = page.locator('.section[data-section="sources"] .count');
  await count.waitFor();
  equal([await count.innerText(), await count.getAttribute('aria-label')], ['1', '1 that need attention'], 'count');
  await close();
});

await check('the record verifies in whole sentences', async () => {
  await echo('one');
  await until('a checkpoint', async () => (await api('lena', 'GET', '/v1/record/checkpoints')).data.checkpoints.length > 0);
  const { page, close } = await as('lena', '#/record');
  await page.getByRole('button', { name: 'Verify' }).click();
  await page.waitForSelector('[data-verified=sound]');
  const told = await read(page.locator('[data-verified=sound]'));
  truthy(
    /^\S+ events \(positions \S+ to \S+\) are unchanged and complete: this page has computed the hash of each one, and each continues the one before it\. Checkpoint \S+, signed (now|\d+ (second|minute)s? ago), covers them up to position \S+(; the last \S+ events? will be signed by the next one)?\. To check signatures, older events/.test(told),
    told,
  );
  await close();
});

await check('new events are counted if they match', async () => {
  const { page, close } = await as('lena', '#/record?q=actor%3Aomar');
  await api('omar', 'POST', '/explorer/tools/shop__echo/call', { text: 'the first of omar' });
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.locator('#screen tbody tr').first().waitFor();
  for (let at = 0; at < 5; at += 1) await echo('not of omar');
  await page.waitForTimeout(1_500);
  equal(await page.locator('.fresh').count(), 0, 'notes about events that do not match');
  await api('omar', 'POST', '/explorer/tools/shop__echo/call', { text: 'the second of omar' });
  await until('the note about events that match', async () => {
    await echo('a change');
    return (await page.locator('.fresh').count()) > 0;
  });
  equal(await read(page.locator('.fresh')), '2 new events', 'the call and its result');
  await close();
});

await check('a condition that cannot be read leaves the rows', async () => {
  const { page, close } = await as('lena', '#/record');
  await page.locator('#screen tbody tr').first().waitFor();
  const rows = await page.locator('#screen tbody tr').count();
  await page.fill('#record-query', 'nonsense:');
  await page.locator('#record-hint[role=alert]').waitFor();
  equal(await page.locator('#screen tbody tr').count(), rows, 'rows');
  await close();
});

await check('the chart spans the time that was chosen, and says nothing of what was not measured', async () => {
  const { page, close } = await as('lena', '#/record?range=7d');
  await page.locator('.chart svg').waitFor();
  const [from, , to] = await page.locator('.axis-labels span').allInnerTexts();
  const days = (new Date(to) - new Date(from)) / 86_400_000;
  truthy(days > 6.9 && days < 7.5, `the axis spans ${days} days: ${from} to ${to}`);
  const axis = await page.locator('.y-axis span').allInnerTexts();
  truthy(/^\d+$/.test(axis[0]) && axis[1] === '0 calls' && /^\d/.test(axis[2]), axis.join(', '));
  // A line joins neighbours only: each part begins anew after a gap.
  const line = await page.locator('.chart path.line').first().getAttribute('d');
  equal(line.match(/M/g).length, 1, 'parts of the line');
  await page.fill('#record-query', 'status:approval_required');
  await page.locator('.axis-labels', { hasText: /at most \d+ calls in / }).waitFor();
  equal((await page.locator('.y-axis span').allInnerTexts()).slice(1), ['0 calls'], 'the axis of times');
  await close();
});

await check('the live view stays small', async () => {
  for (let at = 0; at < 60; at += 1) await echo(`before ${at}`);
  const { page, close } = await as('lena', '#/record');
  const session = await page.context().newCDPSession(page);
  const nodes = async () => {
    for (let times = 0; times < 3; times += 1) await session.send('HeapProfiler.collectGarbage');
    return (await session.send('Memory.getDOMCounters')).nodes;
  };
  await until('a full table', async () => (await page.locator('#screen tbody tr').count()) === 100);
  await page.getByRole('button', { name: 'Live' }).click();
  const before = await nodes();
  // Rows are replaced at most once a second.
  for (let at = 0; at < 90; at += 1) {
    await echo(`live ${at}`);
    await page.waitForTimeout(200);
  }
  const after = await nodes();
  truthy(after < before * 1.25, `${before} nodes before and ${after} after ninety calls`);
  await close();
});

await check('a click on a filter is undone by Back, and times are dates on request and on paper', async () => {
  const { page, close } = await as('lena', '#/record');
  const field = page.locator('#record-query');
  await page.locator('#screen tbody tr').first().waitFor();
  await page.locator('#screen tbody a', { hasText: 'cara' }).first().click();
  await until('the condition', async () => (await field.inputValue()) === 'actor:cara');
  await page.goBack();
  await until('no condition', async () => (await field.inputValue()) === '');
  const time = page.locator('#screen tbody time').first();
  truthy(/ago|now/.test(await time.innerText()), await time.innerText());
  await page.click('#absolute-times');
  const dated = /\d{4}.*\d\d:\d\d:\d\d.* (UTC|GMT|[A-Z]{2,5})/;
  truthy(dated.test(await time.innerText()), await time.innerText());
  await page.click('#absolute-times');
  await page.emulateMedia({ media: 'print' });
  const drawn = await time.evaluate((it) => [getComputedStyle(it).fontSize, getComputedStyle(it, '::after').content]);
  truthy(drawn[0] === '0px' && dated.test(drawn[1]), drawn.join(' '));
  equal(await page.locator('.top > :visible').allInnerTexts(), ['toolcrib'], 'the header on paper');
  await close();
});

await check('words, OR, exclusion and run times select events', async () => {
  await api('omar', 'POST', '/explorer/tools/shop__echo/call', { text: 'of omar' });
  const { page, close } = await as('lena', '#/record?range=all');
  const actors = async () =>
    [...new Set(await page.locator('#screen tbody tr td:nth-child(3)').allInnerTexts())].map((it) => it.trim()).sort();
  const shows = async (query, expected) => {
    await page.fill('#record-query', query);
    await until(`the events of ${query}`, async () => JSON.stringify(await actors()) === JSON.stringify(expected));
  };
  await shows('CARA type:agent.toolReturned', ['cara']);
  await shows('actor:cara OR actor:Omar type:agent.toolReturned', ['cara', 'omar']);
  await shows('-actor:cara type:agent.toolReturned', ['omar']);
  await shows('echo -omar type:agent.toolReturned took:<1h', ['cara']);
  await page.fill('#record-query', 'actor:cara OR');
  const hint = page.locator('#record-hint[role=alert]');
  await hint.waitFor();
  equal(await read(hint), '`OR` joins two conditions, and `NOT` negates one; write them in quotes to search for the words', 'the problem');
  equal(await actors(), ['cara'], 'the rows of the last query');
  await page.fill('#record-query', 'took:>1h');
  await page.getByText('No event matches').waitFor();
  // A click replaces the condition of its field, also where OR has joined two.
  await page.fill('#record-query', 'actor:cara OR actor:omar echo');
  await until('both', async () => (await actors()).length === 2);
  await page.locator('#screen tbody a', { hasText: 'omar' }).first().click();
  await until('one', async () => (await page.locator('#record-query').inputValue()) === 'echo actor:omar');
  await close();
});

await check('the slowest calls are one click away, and other columns sort the rows', async () => {
  const { page, close } = await as('lena', '#/record?range=all');
  const slowest = page.locator('.columns > div', { has: page.getByRole('heading', { name: 'Slowest tools' }) });
  await slowest.locator('li').first().waitFor();
  truthy(/^shop__\w+ \d/.test(await read(slowest.locator('li').first())), await read(slowest.locator('li').first()));
  await page.click('[data-sort="took"]');
  await until('calls', async () => /The table has the slowest \d+ calls\.$/.test(await read(page.locator('#record-count'))));
  const times = (await page.locator('#screen tbody tr td:nth-child(6)').allInnerTexts()).map((it) => Number(it.replace(/[^\d.]/g, '')) * (/\d s/.test(it) ? 1000 : 1));
  truthy(times.length > 2 && times.every((it, at) => at === 0 || it <= times[at - 1]), `run times: ${times.slice(0, 9).join(', ')}`);
  equal(await page.locator('th[aria-sort="descending"]').innerText(), 'Took ↓', 'the column that sorts');
  await page.goBack();
  await until('the newest first', async () => (await page.locator('th[aria-sort]').innerText()) === 'Time ↓');
  await page.click('[data-sort="actor"]');
  await until('by actor', async () => / The \d+ events below are sorted by actor\.$/.test(await read(page.locator('#record-count'))));
  const actors = (await page.locator('#screen tbody tr td:nth-child(3)').allInnerTexts()).map((it) => it.trim()).filter((it) => it !== '–');
  equal(actors, [...actors].sort((a, b) => a.localeCompare(b)), 'actors');
  await close();
});

await check('who called what last week is a table for spreadsheets after three steps', async () => {
  const { page, close } = await as('lena', '#/tools');
  await page.getByRole('link', { name: 'Record' }).click();
  await page.selectOption('#record-range', '7d');
  const saved = page.waitForEvent('download');
  await page.click('#record-csv');
  const file = await saved;
  truthy(/^record-\d{4}-\d\d-\d\d\.csv$/.test(file.suggestedFilename()), file.suggestedFilename());
  await page.getByText(`Saved as ${file.suggestedFilename()}.`).waitFor();
  const [header, ...rows] = readFileSync(await file.path(), 'utf8').trim().split('\n');
  equal(header, 'time,event,principal,tool,status,code,action,resource,took_ms,run,event_id,position,hash,actors', 'the columns');
  const returned = rows.map((row) => row.split(',')).filter(([, event]) => event === 'agent.toolReturned');
  truthy(returned.some(([, , by, tool, status, , , , took]) => by === 'cara' && tool === 'mcp:shop.echo' && status === 'ok' && /^\d+$/.test(took)), rows.slice(0, 3).join('\n'));
  const { data } = await api('lena', 'GET', '/v1/events/summary?from=7d');
  truthy(rows.length >= data.events - 5 && rows.length <= data.events, `${rows.length} rows of ${data.events} events`);
  equal(
    (await read(page.locator('#record-compared'))).replace(/^[\d\s]+/, 'N '),
    'N calls finished, compared with 0 in the 7 days before.',
    'the comparison with the time before',
  );
  await close();
});

await check('why a call was denied is one sentence, one click from its event', async () => {
  await api('ada', 'POST', '/explorer/tools/shop__echo/call', { text: 'not for ada' });
  const { page, close } = await as('boss', '#/record?q=actor%3Aada');
  await page.locator('[data-why]').first().waitFor();
  const rows = await page.locator('#screen tbody td:nth-child(2)').allInnerTexts();
  equal(rows.slice(0, 3), ['result', 'denied', 'call'], 'the events of the call, the newest first');
  const told = async (on, event, expected) => {
    const row = on.locator('#screen tbody tr', { has: on.getByRole('cell', { name: event, exact: true }) }).first();
    await row.locator('[data-why]').click();
    const sentence = row.locator('[data-denial]');
    await sentence.waitFor();
    await until(`of the ${event}: ${expected}`, async () => (await read(sentence)) === expected);
  };
  const remedy = 'The role clerk has it. A caller with it and the scope keys:manage can give it.';
  await told(page, 'denied', `ada lacked shop:use for shop__echo. ${remedy}`);
  await told(page, 'result', `ada lacked shop:use for shop__echo. ${remedy}`);
  await close();
  const auditor = await as('lena', '#/record?q=actor%3Aada');
  await auditor.page.locator('[data-why]').first().waitFor();
  await told(auditor.page, 'denied', 'ada lacked shop:use for shop__echo. A caller with it and the scope keys:manage can give it.');
  await told(auditor.page, 'result', 'ada lacked shop:use for shop__echo. A caller with it and the scope keys:manage can give it.');
  await auditor.close();
});

await check('keys: an inbox without the mouse, the search of a screen, and the list of keys', async () => {
  const ids = [];
  for (let at = 0; at < 6; at += 1) ids.push(await request(`inbox ${at}`));
  const { page, close } = await as('ann', '#/approvals');
  await page.locator('.approval').nth(5).waitFor();
  const order = await page.locator('.approval').evaluateAll((all) => all.map((it) => it.dataset.approval));
  equal(order, ids, 'the order: those that expire first');
  const focused = () => page.evaluate(() => document.activeElement?.closest('.approval')?.dataset.approval);
  await page.keyboard.press('j');
  equal(await focused(), ids[0], 'the first request');
  await page.keyboard.press('j');
  await page.keyboard.press('a');
  await page.locator(`[data-approval="${ids[1]}"]`).getByText('You approved it.').waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('r');
  await page.locator(`[data-approval="${ids[2]}"]`).getByText('You rejected it.').waitFor();
  await page.keyboard.press('k');
  equal(await focused(), ids[1], 'the request before');
  await page.keyboard.press('/');
  equal(await page.evaluate(() => document.activeElement.id), 'approvals-filter', 'the search of the screen');
  await page.keyboard.type('nobody');
  await page.getByText('0 of 6 requests').waitFor();
  await page.fill('#approvals-filter', 'cara');
  await page.getByText('6 of 6 requests').waitFor();
  await page.locator('#account-button').focus();
  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keys' });
  await dialog.getByText('approve the focused request').waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  for (const id of ids) await answer('ann', id, 'reject');
  await close();
});

await check('a view of the record is saved for its readers, opened by its link, and removed', async () => {
  const { page, close } = await as('lena', '#/record?q=status%3Adenied&range=7d');
  await page.locator('#saved-views').getByText('Saved views (0)').waitFor();
  await page.click('#save-view');
  await page.keyboard.type('Denied this week');
  await page.keyboard.press('Enter');
  const view = page.locator('[data-view="Denied this week"]');
  await view.waitFor();
  equal(await page.textContent('#saved-views summary'), 'Saved views (1)', 'the number');
  truthy(/^Denied this week\s*by lena, /.test(await view.textContent()), await view.textContent());
  equal(await view.locator('a').getAttribute('aria-current'), 'page', 'the present view');

  const other = await as('boss', '#/record');
  await other.page.click('#saved-views summary');
  await other.page.click('[data-view="Denied this week"] a');
  await other.page.waitForFunction(() =>
    document.querySelector('#record-query').value === 'status:denied' && document.querySelector('#record-range').value === '7d');
  equal(await other.page.evaluate(() => location.hash), '#/record?q=status%3Adenied&range=7d', 'the address');
  equal(await other.page.locator('#saved-views button').count(), 0, 'buttons to remove what lena saved');
  await other.page.click('#save-view');
  await other.page.keyboard.type('Denied this week');
  await other.page.keyboard.press('Enter');
  await other.page.getByText('another principal saved this name; choose another one').waitFor();
  await other.page.keyboard.press('Control+k');
  await other.page.keyboard.type('denied this');
  await other.page.locator('#palette-list').getByText('saved view').waitFor();
  await other.page.keyboard.press('Escape');
  await other.close();

  await view.getByRole('button', { name: 'Remove the view Denied this week' }).click();
  await page.getByRole('dialog', { name: 'Remove the view' }).locator('[data-confirm="remove"]').click();
  await page.locator('#saved-views').getByText('Saved views (0)').waitFor();
  await page.locator('#saved-views').getByText('No saved views yet.').waitFor();
  // The changes are in the record, without the name.
  const events = (await api('lena', 'GET', '/v1/events?query=type:saved.changed')).data.events.map(({ event }) => event);
  equal(events.map(({ payload }) => [payload.principal, payload.action]), [['lena', 'added'], ['lena', 'removed']], 'events');
  truthy(!JSON.stringify(events).includes('Denied'), 'no name in the record');
  await close();
});

await check('the palette knows actions', async () => {
  const { page, close } = await as('lena', '');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('verify');
  await page.keyboard.press('Enter');
  await page.waitForSelector('[data-verified=sound]');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('sign out');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#signin');
  await close();
});

await check('the palette finds people, roles, sources and the theme, and follows the arrows', async () => {
  await echo('for the palette');
  const { page, close } = await as('boss', '#/record');
  const choose = async (text, kind) => {
    await page.keyboard.press('Control+k');
    await page.keyboard.type(text);
    await page.locator('#palette-list [aria-selected=true]', { hasText: kind }).first().waitFor();
    await page.keyboard.press('Enter');
  };
  await choose('clerk', 'role');
  await page.getByRole('heading', { name: 'clerk' }).waitFor();
  await page.getByText('It sees').waitFor();
  await choose('cara', 'person');
  await page.waitForFunction(() => document.querySelector('#record-query')?.value === 'actor:cara');
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  const before = await theme();
  await choose('theme', 'action');
  truthy((await theme()) !== before, 'the theme is the same');
  // The chosen line of a long list is in sight.
  await page.keyboard.press('Control+k');
  await page.locator('#palette-list li').nth(8).waitFor();
  await page.keyboard.press('ArrowUp');
  const isSeen = await page.locator('#palette-list [aria-selected=true]').evaluate((it) => {
    const [line, list] = [it.getBoundingClientRect(), it.parentElement.getBoundingClientRect()];
    return line.bottom <= list.bottom + 1 && line.top >= list.top - 1;
  });
  equal(isSeen, true, 'the last line in sight');
  await page.keyboard.press('Escape');
  await close();
});

await check('`/` leads to a search on every screen, and `?` to the keys', async () => {
  const { page, close } = await as('all', '');
  for (const address of ['#', '#tool=shop__echo', '#/approvals', '#/approvals/history', '#/record', '#/record/run/none', '#/sources', '#/sources/shop', '#/access', '#/access/keys/none', '#/access/roles', '#/access/roles/clerk', '#/access/sessions', '#/connections', '#/connections/clients', '#/connect', '#/no-such-screen']) {
    await page.evaluate((it) => (location.hash = it), address);
    await page.waitForFunction(() => document.querySelector('#screen h2, #detail h2') && !document.querySelector('.skeleton')).catch(() => {
      throw new Error(`${address} does not open`);
    });
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press('/');
    await page.waitForFunction(() => document.activeElement?.matches('input[type=search]')).catch(() => {
      throw new Error(`no search at ${address}`);
    });
    await page.keyboard.press('Escape');
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).getByText('the search of this screen').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }
  await close();
});

await check('a snippet leaves out what is empty', async () => {
  const { page, close } = await as('cara', '#tool=shop__echo');
  await page.waitForSelector('[data-action="execute"]');
  await page.getByRole('tab', { name: 'Code' }).click();
  const code = page.locator('[role=tabpanel]:visible pre.code:visible').first();
  await code.waitFor();
  const text = await code.innerText();
  truthy(text.includes("-d '{}'"), text);
  await close();
});

await check('no page of this script complained', () => equal(complaints.filter((it) => !/ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE_CHUNKED/.test(it)), [], 'complaints'));
await browser.close();
await server.stop();
await finish();

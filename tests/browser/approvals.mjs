// The approvals of a tool that needs two consents, with arguments that approvers see, on a server that
// this script starts: caller, two approvers, someone who may override, and another tenant.
//
//   TOOLCRIB_PROGRAM=target/debug/toolcrib node approvals.mjs
import { readFileSync } from 'node:fs';
import { check, equal, finish, launch, truthy, until } from './lib.mjs';
import { openSignedIn, startShop } from './own-server.mjs';

const server = await startShop(
  'approval_quorum = 2',
  `
[source.tools."add"]
scopes = ["shop:use"]
approval = "conditional"
approval_when = { arguments = [{ pointer = "/a", above = 100 }] }
`,
);
const KEYS = {
  cara: server.keyOf('cara', ['shop:use']),
  dora: server.keyOf('dora', ['shop:use']),
  ann: server.keyOf('ann', ['approvals:respond']),
  ben: server.keyOf('ben', ['approvals:respond']),
  olga: server.keyOf('olga', ['approvals:respond', 'approvals:override']),
  stranger: server.keyOf('stranger', ['*'], 'elsewhere'),
};
const browser = await launch();
const complaints = [];

const as = (role, address, options) => openSignedIn(browser, server.url, address, KEYS[role], complaints, options);

async function send(role, path, body) {
  const reply = await fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${KEYS[role]}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  return { status: reply.status, data: await reply.json() };
}
/** Calls the tool as the caller; returns the id of the request. */
const request = async (target) =>
  (await send('cara', '/explorer/tools/shop__wipe/call', { target })).data.details.approvalId;
/** Calls the tool that needs an approval beyond 100. */
const add = (role, a) => send(role, '/explorer/tools/shop__add/call', { a, b: 1 });
const answer = (role, id, verdict) => send(role, `/v1/approvals/${id}`, { verdict });
/** The text that a person reads, on one line. */
const read = async (locator) => (await locator.innerText()).replace(/\s+/g, ' ').trim();

await until('the tools', async () => {
  const reply = await fetch(`${server.url}/v1/tools`, { headers: { Authorization: `Bearer ${KEYS.cara}` } });
  return JSON.stringify(await reply.json()).includes('wipe');
});

const card = (page, id) => page.locator(`[data-approval="${id}"].approval`);
const top = (locator) => locator.evaluate((it) => it.getBoundingClientRect().top + scrollY);

await check('a call waits calmly, is approved by two people, and runs by itself', async () => {
  const caller = await as('cara', '#tool=shop__wipe');
  const field = caller.page.locator('[data-path="/target"] :is(input, textarea)').first();
  await caller.page.waitForSelector('[data-action="execute"]');
  await caller.page.click('[data-add="target"]');
  await field.fill('the staging database');
  await caller.page.click('[data-action="execute"]');
  await caller.page.click('[data-confirm="run"]');
  await caller.page.waitForSelector('.outcome.waiting a[data-approval]');
  const id = await caller.page.getAttribute('.outcome.waiting a[data-approval]', 'data-approval');
  await caller.page.getByText('0 of 2 approvals are given').waitFor();

  const ann = await as('ann', `#/approvals/${id}`);
  const first = card(ann.page, id);
  await first.getByText('the staging database').waitFor();
  const text = (await first.textContent()).replace(/\s+/g, ' ');
  for (const part of ['cara wants to run', 'Pretends to delete', 'destructive', 'May delete or overwrite', '0 of 2 approvals', 'require 2 approvals', 'expires', 'the staging database'])
    truthy(text.includes(part), `“${part}” is not in: ${text}`);
  equal(await first.locator('dl.arguments dt').allTextContents(), ['target'], 'labels of arguments');
  await first.getByLabel('Comment').fill('looks right');
  await first.locator('[data-verdict="grant"]').click();
  await first.getByText('You approved it. 1 more approval is needed.').waitFor();
  await caller.page.getByText('looks right').waitFor();
  truthy(await caller.page.isVisible('.outcome.waiting'), 'one consent of two is not enough');

  const ben = await as('ben', '#/approvals');
  const second = card(ben.page, id);
  await second.getByText('1 of 2 approvals').waitFor();
  truthy(/ann approved/.test(await second.textContent()), 'who has answered');
  await second.locator('[data-verdict="grant"]').click();
  await caller.page.waitForSelector('.outcome:not(.waiting)');
  truthy(/Succeeded/.test(await caller.page.textContent('.outcome')), 'the tool has run');
  // Without a reload, for people who may not read the record; a grant that was used cannot be withdrawn.
  for (const [name, theirs] of [['ben', second], ['ann', first]]) {
    const said = theirs.locator('[data-outcome]', { hasText: 'it ran, ok, in' });
    await said.waitFor({ timeout: 15_000 });
    truthy(/^Approved by ben .+; it ran, ok, in [\d.,]+ m?s\.$/.test(await read(said)), `${name}: ${await read(said)}`);
    equal(await theirs.locator('[data-verdict]').count(), 0, `${name}: buttons of a used grant`);
  }
  equal(await read(first.locator('dl.arguments dd')), 'the staging database', 'the value that was approved');
  for (const { close } of [caller, ann, ben]) await close();
});

await check('an answered card stays, and nothing moves under the pointer', async () => {
  const ids = [await request('one'), await request('two'), await request('three')];
  const { page, close } = await as('ann', '#/approvals');
  await card(page, ids[2]).waitFor();
  const places = async () => Promise.all(ids.map((id) => top(card(page, id))));
  const before = await places();
  const reject = card(page, ids[0]).locator('[data-verdict="reject"]');
  await reject.scrollIntoViewIfNeeded();
  const { x, y, width, height } = await reject.boundingBox();
  const pointer = [x + width / 2, y + height / 2];
  await page.mouse.click(...pointer);
  await card(page, ids[0]).getByText('You rejected it. The tool does not run.').waitFor();
  equal(await top(card(page, ids[0])), before[0], 'the place of the answered card');
  const under = ([x, y]) => document.elementFromPoint(x, y).closest('.approval')?.dataset.approval;
  equal(await page.evaluate(under, pointer), ids[0], 'the request under the pointer');
  // Newer requests are added below.
  const newer = await request('four');
  await card(page, newer).waitFor();
  const after = await places();
  const order = (places) => [0, 1, 2].sort((a, b) => places[a] - places[b]);
  equal(order(after), order(before), 'the order of the cards');
  truthy((await top(card(page, newer))) > Math.max(...after), 'a new card is not below the others');
  // Another person answers one: it stays as well, and its buttons go.
  const ben = await as('ben', '#/approvals');
  await card(ben.page, ids[1]).locator('[data-verdict="reject"]').click();
  await card(page, ids[1]).getByText('The tool does not run.').waitFor();
  truthy(/Rejected by ben/.test(await card(page, ids[1]).textContent()), 'who answered is not said');
  equal(await card(page, ids[1]).locator('[data-verdict]').count(), 0, 'buttons of a decided request');
  await ben.close();
  await close();
});

await check('an override needs a reason, and the history has it', async () => {
  const id = await request('five');
  const { page, close } = await as('olga', `#/approvals/${id}`);
  await card(page, id).locator('[data-verdict="override"]').click();
  await card(page, id).getByText('An override needs a comment').waitFor();
  await card(page, id).getByLabel('Comment').fill('incident 42');
  await card(page, id).locator('[data-verdict="override"]').click();
  await card(page, id).getByText('The call may run now.').waitFor();
  await page.click('#tab-history');
  const row = page.locator('#approvals-panel tbody tr', { hasText: 'incident 42' });
  await row.waitFor();
  const text = await row.textContent();
  truthy(/overridden/.test(text) && /olga/.test(text) && /cara/.test(text), text);
  await close();
});

await check('a card says why an approval is needed, what an override does, and why someone cannot answer', async () => {
  equal((await add('cara', 7)).status, 200, 'a call within the rule');
  const above = (await add('cara', 980)).data.details.approvalId;
  const two = await request('two people');
  const { page, close } = await as('olga', '#/approvals');
  truthy((await read(card(page, above).locator('[data-reason]'))).endsWith('It needs an approval because a 980 is above 100.'), await read(card(page, above).locator('[data-reason]')));
  equal(await card(page, above).locator('[data-verdict="override"]').count(), 0, 'an override that does no more than an approval');
  equal(
    await read(card(page, two).locator('[data-override]')),
    'An override lets the call run now, without 1 other approval. It needs a comment, which is kept with your name.',
    'what an override does',
  );
  await answer('ann', two, 'grant');
  const ann = await as('ann', `#/approvals/${two}`);
  await card(ann.page, two).locator('[data-outcome]').waitFor();
  equal(await read(card(ann.page, two).locator('[data-outcome]')), 'You cannot answer this request: this principal, or another one of the same person, has already voted.', 'why not');
  await ann.close();
  for (const id of [above, two]) await answer('ben', id, 'reject');
  await close();
});

await check('requests for the same call are approved together, after one confirmation', async () => {
  const [one] = [(await add('cara', 500)).data.details.approvalId, (await add('dora', 500)).data.details.approvalId];
  const other = (await add('dora', 501)).data.details.approvalId;
  const { page, close } = await as('ann', '#/approvals');
  await card(page, other).waitFor();
  equal(await card(page, other).locator('[data-verdict="grant-all"]').count(), 0, 'a request with other values');
  await card(page, one).locator('[data-verdict="grant-all"]').click();
  const asks = card(page, one).locator('[data-all]');
  equal(await read(asks.locator('p')), 'Approve 2 equal calls of shop__add, by cara, dora?', 'the question');
  await asks.locator('[data-verdict="grant-all-now"]').click();
  await card(page, one).getByText('The call may run now.').waitFor();
  equal([(await add('cara', 500)).status, (await add('dora', 500)).status, (await add('dora', 501)).status], [200, 200, 403], 'calls');
  // How it ended is known to who approved it, without the right to read the record.
  await page.goto(`${server.url}/explorer#/approvals/history`);
  await page.locator('#approvals-panel tbody tr', { hasText: 'dora' }).first().locator('a[href^="#/approvals/"]').click();
  const shown = page.locator('.approval');
  await shown.getByText('it ran').waitFor();
  truthy(/^Approved by ann (now|\d+ seconds? ago); it ran, ok, in \d+ m?s\.$/.test(await read(shown.locator('[data-outcome]'))), await read(shown.locator('[data-outcome]')));
  await answer('ben', other, 'reject');
  await close();
});

await check('an inbox is one request to the server, in groups, and says what is new', async () => {
  const ids = [];
  for (let at = 0; at < 5; at += 1) ids.push(await request(`inbox ${at}`));
  const added = (await add('dora', 900)).data.details.approvalId;
  const asked = [];
  const { page, close } = await as('ann', '#/tools');
  page.on('request', (it) => asked.push(new URL(it.url()).pathname));
  await page.getByRole('navigation', { name: 'Sections' }).getByRole('link', { name: /Approvals/ }).click();
  await card(page, added).getByText('900', { exact: true }).waitFor();
  await page.waitForTimeout(500);
  equal(asked.filter((it) => it.startsWith('/v1/approvals/')), [], 'requests for single approvals');
  await page.selectOption('#approvals-groups', 'person');
  const groups = page.locator('.cards section');
  const count = await groups.first().locator('.approval').count();
  truthy(count >= 5, `${count} requests of cara`);
  equal(await Promise.all((await groups.locator('> h3').all()).map(read)), [`cara ${count} requests`, 'dora 1 request'], 'groups');
  await page.selectOption('#approvals-groups', '');
  const late = await request('a late one');
  const fresh = page.locator('#approvals-fresh');
  await fresh.waitFor();
  equal(await read(fresh), '1 new request, below: show', 'what is new');
  await fresh.click();
  equal(await page.evaluate(() => document.activeElement.dataset.approval), late, 'the focus');
  equal(await fresh.count(), 0, 'the note');
  for (const id of [...ids, added, late]) await answer('ben', id, 'reject');
  await close();
});

await check('a card draws what runs, and answers that come with it', async () => {
  const hostile = await request('\u202egnp.exe \u200bp\u0430ypal');
  const { page, close } = await as('ann', `#/approvals/${hostile}`);
  const value = card(page, hostile).locator('dl.arguments dd');
  await value.waitFor();
  equal(await value.textContent(), '\\u202egnp.exe \\u200bp\u0430ypal', 'the value of the argument');
  await card(page, hostile)
    .getByText('Letters of different alphabets look alike here: “p\u0430ypal” is p\\u0430ypal.')
    .waitFor();
  truthy(/cara wants to run shop__wipe/.test(await card(page, hostile).locator('h3').textContent()), 'its own name');
  const version = '2026-07-28';
  const params = {
    name: 'shop__wipe',
    arguments: { target: 'one' },
    inputResponses: { who: { action: 'accept', content: { name: '\u202eeve' } } },
    requestState: 's7',
    _meta: {
      'io.modelcontextprotocol/protocolVersion': version,
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  };
  const reply = await fetch(`${server.url}/mcp`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${KEYS.cara}`,
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': version,
      'Mcp-Method': 'tools/call',
      'Mcp-Name': 'shop__wipe',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
  });
  const id = (await reply.text()).match(/"dev\.toolcrib\/approvalId":"([^"]+)"/)[1];
  await page.getByRole('link', { name: 'All pending requests' }).click();
  await card(page, id)
    .getByText('This call continues an earlier one. It also sends answers to questions of the tool:')
    .waitFor();
  const answers = await card(page, id).locator('dl[aria-label="Answers"]').textContent();
  truthy(/who/.test(answers) && answers.includes('\\u202eeve'), answers);
  equal(await card(page, id).locator('dl[aria-label="State"] dd').textContent(), 's7', 'the state');
  await close();
});

await check('a grant is withdrawn on its card and in the list of decided requests', async () => {
  const ids = [await request('seven'), await request('eight')];
  const ann = await as('ann', '#/approvals');
  const ben = await as('ben', '#/approvals');
  for (const id of ids) {
    await card(ann.page, id).locator('[data-verdict="grant"]').click();
    await card(ann.page, id).getByText('1 more approval is needed').waitFor();
    await card(ben.page, id).getByText('1 of 2 approvals').waitFor();
    await card(ben.page, id).locator('[data-verdict="grant"]').click();
    await card(ben.page, id).getByText('You approved it. The call may run now.').waitFor();
  }
  await card(ben.page, ids[0]).locator('[data-verdict="withdraw"]').click();
  await card(ben.page, ids[0]).getByText('You withdrew the approval. The call needs a new one.').waitFor();
  await ann.page.click('#tab-history');
  const row = ann.page.locator('#approvals-panel tbody tr', { hasText: 'granted' });
  await row.first().locator('[data-verdict="withdraw"]').click();
  await ann.page.waitForFunction(
    () => [...document.querySelectorAll('#approvals-panel tbody tr')].filter((it) => /withdrawn/.test(it.textContent)).length === 2,
  );
  truthy(!(await request('seven')).includes(ids[0]), 'the call needs a new approval');
  await ann.close();
  await ben.close();
});

await check('hidden characters are those of the program', async () => {
  const table = JSON.parse(readFileSync(new URL('hidden.json', import.meta.url)));
  const { page, close } = await as('ann', '#/approvals');
  const found = await page.evaluate(async (shown) => {
    const { visibleText } = await window.moduleOf('lib/visible.js');
    const hidden = [];
    for (let code = 0; code <= 0x10ffff; code += 1) {
      if (code >= 0xd800 && code <= 0xdfff) continue;
      const text = String.fromCodePoint(code);
      if (visibleText(text) === text) continue;
      const last = hidden.at(-1);
      if (last?.[1] === code - 1) last[1] = code;
      else hidden.push([code, code]);
    }
    return { hidden, shown: shown.map(([text]) => [text, visibleText(text)]) };
  }, table.shown);
  equal(found, table, 'the table of hidden characters');
  await close();
});

await check('the caller sees its own requests without buttons, another tenant none', async () => {
  const id = await request('six');
  const caller = await as('cara', `#/approvals/${id}`);
  await card(caller.page, id).getByText('someone else has to answer it').waitFor();
  equal(await caller.page.locator('[data-verdict]').count(), 0, 'buttons of the caller');
  await caller.close();
  const stranger = await as('stranger', `#/approvals/${id}`);
  await stranger.page.waitForSelector('.approvals-screen .empty');
  truthy(!/cara|wipe/.test(await stranger.page.textContent('#screen')), 'another tenant sees the request');
  await stranger.close();
});

await check('notifications are off until they are switched on, and name nobody', async () => {
  await request('before the page');
  const { page, close } = await as('ann', '#/approvals');
  // The page has counted the requests that were pending before.
  await page.waitForFunction(() => /^\(\d+\) /.test(document.title));
  await page.evaluate(() => {
    window.shown = [];
    window.Notification = class {
      static permission = 'default';
      static async requestPermission() {
        return (window.Notification.permission = window.answer);
      }
      constructor(title, options) {
        window.shown.push(JSON.stringify([title, options]));
      }
    };
    Object.defineProperty(document, 'hidden', { get: () => true });
  });
  const more = async () => {
    const before = await page.title();
    await request(`secret ${Math.random()}`);
    await page.waitForFunction((it) => document.title !== it, before);
  };
  await more();
  equal(await page.evaluate(() => window.shown), [], 'notifications before');
  await page.evaluate(() => (window.answer = 'denied'));
  await page.getByRole('button', { name: 'Notify me of new requests' }).click();
  await page.getByText('The browser blocks notifications').waitFor();
  await page.evaluate(() => (window.answer = 'granted'));
  await page.getByRole('button', { name: 'Notify me of new requests' }).click();
  await page.getByRole('button', { name: 'Notifications are on' }).waitFor();
  await more();
  const shown = await page.evaluate(() => window.shown);
  equal(shown.length, 1, 'notifications');
  truthy(!/cara|wipe|secret/.test(shown[0]), shown[0]);
  await close();
});

await check('no error or exception was reported', () => equal(complaints, [], 'complaints'));
await browser.close();
await server.stop();
await finish();

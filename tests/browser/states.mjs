// The states of each screen, in one table: `accessibility.mjs` checks each of them, and `picture.mjs`
// takes pictures of them. A new screen adds its own. States that a demo does not reach by itself are
// made from replies that the test gives in place of the server's.
import { meta, serveTools } from './catalogs.mjs';
import { as, ask, askForApproval, callTool, settled, SCREENS } from './screens.mjs';

/** A schema with every kind of control that the form has. */
const EVERY_CONTROL = {
  type: 'object',
  required: ['customer', 'lines', 'pay', 'labels', 'size', 'rush', 'password'],
  properties: {
    customer: {
      type: 'object',
      title: 'Customer',
      required: ['name'],
      properties: {
        name: { type: 'string', description: 'As on the invoice', examples: ['Ada'] },
        mail: { type: 'string', format: 'email' },
      },
    },
    lines: {
      type: 'array',
      minItems: 1,
      items: {
        type: 'object',
        required: ['sku', 'count'],
        properties: { sku: { type: 'string' }, count: { type: 'integer', minimum: 1, default: 1 } },
      },
    },
    pay: {
      oneOf: [
        { title: 'By card', type: 'object', required: ['number'], properties: { number: { type: 'string' } } },
        { title: 'By invoice', type: 'object', required: ['mail'], properties: { mail: { type: 'string', format: 'email' } } },
      ],
    },
    labels: { type: 'object', additionalProperties: { type: 'string' } },
    size: { oneOf: [{ const: 's', title: 'Small' }, { const: 'l', title: 'Large' }] },
    colour: { enum: ['red', 'green', 'blue', 'violet', 'white', 'black', 'grey', 'amber'] },
    rush: { type: 'boolean', default: false },
    password: { type: 'string', format: 'password' },
    amount: { type: 'number', minimum: 0, maximum: 10, multipleOf: 0.5 },
    day: { type: 'string', format: 'date' },
    time: { type: 'string', format: 'time' },
    at: { type: 'string', format: 'date-time' },
    site: { type: 'string', format: 'uri' },
    nothing: { type: 'null' },
    free: {},
  },
};
const RESULTS = {
  table: { content: [{ type: 'text', text: '[{"id":1,"name":"Ada","born":1815},{"id":2,"name":"Grace","born":1906}]' }] },
  tree: {
    content: [{ type: 'text', text: 'see below' }],
    structuredContent: { deep: { deeper: { leaf: 'found' } }, list: [1, [2, 3]] },
  },
  markdown: {
    content: [{
      type: 'text',
      text: '# Report\n\nTwo *late* orders, see [the shop](https://example.com/orders).\n\n- first\n- `second`\n\n> quoted\n\n| order | days |\n|---|--:|\n| A-1 | 3 |\n\n```\ncode\n```',
    }],
  },
  nested: {
    content: [],
    structuredContent: { total: 1, orders: [{ id: 1, lines: [{ sku: 'apple', count: 2 }] }] },
  },
  picture: {
    content: [
      {
        type: 'image',
        mimeType: 'image/png',
        data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
      },
      { type: 'resource_link', uri: 'https://example.com/report', name: 'report', mimeType: 'text/html' },
      { type: 'resource', resource: { uri: 'file:///notes.txt', mimeType: 'text/plain', text: 'Some notes.' } },
    ],
  },
};

/** Serves tools with the schema and results above in place of the server's. */
async function replaceTools(page) {
  const list = ['forms', ...Object.keys(RESULTS)].map((name) => ({
    name,
    description: `The tool ${name} of the test.`,
    _meta: meta('test', name === 'forms' ? 'write' : 'read', { 'toolcrib/toolId': `mcp:test.${name}` }),
  }));
  await serveTools(page, () => list);
  await page.route(/\/explorer\/tools\/\w+(\/\w+)?$/, (route) => {
    const [, name, verb] = /tools\/(\w+)(?:\/(\w+))?$/.exec(route.request().url());
    const inputSchema = name === 'forms' ? EVERY_CONTROL : { type: 'object' };
    if (verb === undefined)
      return route.fulfill({ json: { ...list.find((it) => it.name === name), inputSchema } });
    if (verb === 'validate') return route.fulfill({ json: { valid: true } });
    return route.fulfill({ json: { isError: false, ...RESULTS[name] } });
  });
  // Callers with a credential call through MCP.
  await page.route('**/mcp', (route) => {
    const { id, params } = route.request().postDataJSON();
    const result = RESULTS[params?.name];
    if (result === undefined) return route.continue();
    return route.fulfill({ json: { jsonrpc: '2.0', id, result: { resultType: 'complete', isError: false, ...result } } });
  });
}

const SAVED = { id: 'saved-1', savedBy: 'ada', savedAt: '2026-11-25T00:00:00Z', canRemove: true };
const SAVED_VIEW = { ...SAVED, kind: 'view', name: 'Denied this week', query: 'q=status%3Adenied&range=7d' };
const SAVED_CALL = { ...SAVED, kind: 'call', name: 'A sum', tool: 'mcp:demo.add', arguments: { a: '{{first}}', b: '{{second}}' } };
const PIN = {
  toolId: 'mcp:demo.add',
  sourceId: 'demo',
  name: 'demo__add',
  state: 'changed',
  quarantined: true,
  approved: { digest: 'a', at: '2026-11-25T00:00:00Z', document: { description: 'Adds two numbers.', tier: 'read' } },
  seen: {
    digest: 'b',
    at: '2026-11-25T01:00:00Z',
    document: { description: 'Adds two numbers, and sends them to another server for a second opinion.', tier: 'write' },
  },
};
const APPROVAL = {
  redactedArguments: { target: 'the staging database', force: true, tables: ['users', 'orders'] },
  quorum: 2,
  granted: 1,
  votes: [{ principal: 'grace', verdict: 'grant', at: '2026-11-25T09:00:00Z', comment: 'fine with me' }],
};
const CLIENTS = {
  clients: [
    { id: 'g-1', principal: 'id|ada', clientId: 'https://app.example/client.json', name: 'App', vouchedBy: 'host', host: 'app.example', createdAt: '2026-11-25T00:00:00Z', lastUsedAt: '2026-11-25T00:01:00Z', expiresAt: '2026-12-25T00:00:00Z' },
    { id: 'g-2', principal: 'id|grace', clientId: `tcc_${'0'.repeat(36)}`, name: 'A client with a long name that it chose itself', vouchedBy: 'itself', createdAt: '2026-11-25T00:00:00Z', expiresAt: '2026-12-25T00:00:00Z' },
    { id: 'g-3', principal: 'id|ada', clientId: 'desk', name: 'Desk', vouchedBy: 'operator', createdAt: '2026-11-25T00:00:00Z', expiresAt: '2026-12-25T00:00:00Z' },
  ],
};
/** Answers a path with a reply, as the server would with other data. */
const reply = (path, json) => (page) => page.route(path, (route) => route.fulfill({ json }));
/** Merges `more` into a reply of the server. */
const amend = (path, more) => (page) =>
  page.route(path, async (route) => {
    if (route.request().method() !== 'GET') return route.continue();
    const response = await route.fetch();
    return route.fulfill({ response, json: { ...(await response.json()), ...more } });
  });

const openTab = (tab, ready) => async (page) => {
  await page.click(`.tool [data-tab="${tab}"]`);
  await page.waitForSelector(ready);
};
const run = async (page) => {
  await page.click('[data-action="execute"]');
  await page.locator('[data-confirm="run"], .outcome').first().waitFor();
  if (await page.locator('[data-confirm="run"]').count()) await page.click('[data-confirm="run"]');
  await page.waitForSelector('.outcome');
};
/** Runs the tool until its result has this. */
const runUntil = (selector) => async (page) => {
  await run(page);
  await page.waitForSelector(`.outcome ${selector}`);
};
const screen = (id) => SCREENS.find((it) => it.id === id);
const tool = (name, act, more) => ({ address: `#tool=${name}`, ready: '.tool h2', act, ...more });

/**
 * `address` and `role` (admin if absent) open the page, `before` prepares it, `ready` is in the document
 * once it is loaded, and `act` brings it into the state. `id` names the screen that `ready` is that of.
 */
export const STATES = [
  { name: 'sign-in', role: 'anonymous', ready: '#signin' },
  {
    name: 'sign-in rejected',
    role: 'anonymous',
    ready: '#signin',
    act: async (page) => {
      await page.fill('#token', 'tc_not_a_key');
      await page.press('#token', 'Enter');
      await page.getByText('Key rejected').waitFor();
    },
  },
  { name: 'tools', id: 'tools' },
  { name: 'tools filters', id: 'tools', act: async (page) => {
    await page.click('#filter-toggle');
    await page.selectOption('#group-by', 'danger');
    await page.waitForSelector('.group-head');
  } },
  { name: 'tools compact', id: 'tools', act: async (page) => {
    await page.click('#filter-toggle');
    await page.check('#compact-rows');
    await page.click('#filter-toggle');
  } },
  { name: 'tools no match', id: 'tools', act: async (page) => {
    await page.fill('#search', 'no-tool-has-this-name');
    await page.getByText('No matches').waitFor();
  } },
  { name: 'tools none', role: 'approver', id: 'tools' },
  { name: 'tools error', ready: '.notice.bad', role: 'anonymous', before: (page) =>
    page.route(/\/explorer\/catalog$/, (route) => route.fulfill({ status: 500, json: { error: 'the store is not available' } })) },
  { name: 'tools stale', id: 'tools', act: async (page) => {
    await page.route(/\/explorer\/catalog$/, (route) => route.fulfill({ status: 503, json: { error: 'the server is starting' } }));
    await page.click('#refresh');
    await page.waitForSelector('#stale:not([hidden])');
  } },
  { name: 'tool try', ...tool('demo__add') },
  { name: 'tool missing', address: '#tool=no_such_tool', ready: 'text=Tool not found' },
  { name: 'tool about', ...tool('demo__wipe', openTab('about', '.about')) },
  { name: 'tool about changed', ...tool('demo__add', async (page) => {
    await page.click('.tool [data-tab="about"]');
    await page.click('text=Show what changed');
    await page.waitForSelector('.diff');
  }, { before: reply('**/v1/pins**', { pins: [PIN] }) }) },
  { name: 'tool schema', ...tool('forms', openTab('schema', '.schema-tree'), { before: replaceTools }) },
  { name: 'tool schema json', ...tool('forms', async (page) => {
    await page.click('.tool [data-tab="schema"]');
    await page.click('[data-schema="input-json"]');
  }, { before: replaceTools }) },
  { name: 'tool calls', ...tool('demo__fail', async (page) => {
    await run(page);
    await page.click('.tool [data-tab="history"]');
    await page.waitForSelector('[aria-label="Recent calls"] td');
  }) },
  { name: 'tool code', ...tool('demo__add', openTab('snippets', '.sheet pre')) },
  { name: 'tool why', ...tool('demo__wipe', openTab('why', '.why-steps li')) },
  { name: 'form', ...tool('forms', async (page) => {
    await page.waitForSelector('[data-path="/customer/name"]');
    for (let add; (add = await page.locator('[data-add]').first().elementHandle({ timeout: 200 }).catch(() => undefined)); )
      await add.click();
    await page.click('[data-entry="/labels"]');
  }, { before: replaceTools }) },
  { name: 'form problems', ...tool('forms', async (page) => {
    await page.click('[data-action="execute"]');
    await page.waitForSelector('.violations');
  }, { before: replaceTools }) },
  { name: 'form as json', ...tool('forms', (page) => page.click('[data-mode="json"]'), { before: replaceTools }) },
  { name: 'save', ...tool('demo__add', async (page) => {
    await page.click('[data-action="save"]');
    await page.waitForSelector('.save-form');
  }) },
  { name: 'confirm', ...tool('demo__wipe', async (page) => {
    await page.click('[data-action="execute"]');
    await page.waitForSelector('dialog[open]');
  }) },
  { name: 'result table', ...tool('table', runUntil('.result-table'), { before: replaceTools }) },
  { name: 'result tree', ...tool('tree', runUntil('.tree'), { before: replaceTools }) },
  { name: 'result markdown', ...tool('markdown', runUntil('.markdown'), { before: replaceTools }) },
  { name: 'result nested table', ...tool('nested', async (page) => {
    await runUntil('details.cell')(page);
    await page.click('.outcome details.cell summary');
    await page.waitForSelector('.outcome .cell table');
  }, { before: replaceTools }) },
  { name: 'result messages', ...tool('demo__fail', async (page) => {
    await run(page);
    await page.click('.outcome [data-tab="messages"]');
    await page.waitForSelector('.message-list li');
  }) },
  { name: 'saved call with variables', ...tool('demo__add', async (page) => {
    await page.click('.tool [data-tab="history"]');
    await page.click('.shared [data-action="run-saved"]');
    await page.waitForSelector('.variables');
  }, { before: reply('**/v1/saved?kind=call**', { saved: [SAVED_CALL] }) }) },
  { name: 'result media', ...tool('picture', runUntil('img'), { before: replaceTools }) },
  { name: 'result failed', ...tool('demo__fail', run) },
  { name: 'result raw', ...tool('demo__fail', async (page) => {
    await run(page);
    await page.click('.outcome [data-tab="raw"]');
  }) },
  { name: 'waiting', ...tool('demo__wipe', async (page) => {
    await run(page);
    await page.waitForSelector('.outcome.waiting .approval-note code');
  }) },
  { name: 'approvals', role: 'approver', id: 'approvals', before: amend('**/v1/approvals/*', APPROVAL), act: (page) => page.waitForSelector('.arguments dd') },
  { name: 'approvals problem', role: 'approver', id: 'approvals', act: async (page) => {
    await page.route('**/v1/approvals/*', (route) => route.fulfill({ status: 409, json: { error: 'conflict', message: 'the request has expired' } }));
    await page.click('[data-verdict="reject"] >> nth=0');
    await page.waitForSelector('.approval .problem-box');
  } },
  { name: 'approvals answered', role: 'approver', id: 'approvals', act: async (page) => {
    await page.click('[data-verdict="reject"] >> nth=0');
    await page.getByText('You rejected it.').waitFor();
    await page.click('.approval summary >> nth=0');
  } },
  { name: 'approvals decided', role: 'approver', id: 'approvals', address: '#/approvals/history', act: (page) => page.waitForSelector('#screen tbody tr') },
  { name: 'approvals linked, decided', role: 'approver', id: 'approvals', address: '#/approvals/history', act: async (page) => {
    await page.click('#screen tbody a[href^="#/approvals/"] >> nth=0');
    await page.waitForSelector('.approval.decided [data-outcome]');
  } },
  { name: 'approvals grouped', role: 'approver', id: 'approvals', act: async (page) => {
    await page.selectOption('#approvals-groups', 'tool');
    await page.waitForSelector('section.cards h3');
  } },
  { name: 'approvals no such', role: 'approver', id: 'approvals', address: '#/approvals/no-such-request', ready: '#screen .empty' },
  { name: 'approvals none', role: 'other', id: 'approvals', act: (page) => page.waitForSelector('#screen .empty') },
  { name: 'record', id: 'record', act: (page) => page.waitForSelector('#screen tbody tr') },
  { name: 'record as table', id: 'record', act: async (page) => {
    await page.click('text=Show as a table');
    await page.waitForSelector('.chart table');
  } },
  { name: 'record views', id: 'record', before: reply('**/v1/saved?kind=view', { saved: [SAVED_VIEW] }), act: async (page) => {
    await page.click('#saved-views summary');
    await page.waitForSelector('#saved-views li');
    await page.click('#save-view');
    await page.waitForSelector('#view-form');
  } },
  { name: 'record verified', id: 'record', act: async (page) => {
    await page.getByRole('button', { name: 'Verify' }).click();
    await page.waitForSelector('[data-verified]');
  } },
  { name: 'record slowest', id: 'record', address: '#/record?sort=took', act: (page) => page.waitForSelector('#screen tbody tr') },
  { name: 'record why denied', id: 'record', address: '#/record?q=status%3Adenied', act: async (page) => {
    await page.click('[data-why] >> nth=0');
    await page.waitForSelector('[data-denial]');
  } },
  { name: 'record query problem', id: 'record', address: '#/record?q=color%3Ared', act: (page) => page.waitForSelector('#record-hint[role=alert]') },
  { name: 'record no match', id: 'record', address: '#/record?q=actor%3Anobody' },
  { name: 'record run', act: async (page) => {
    await page.click('#screen tbody td a[href*="/run/"] >> nth=0');
    await page.waitForSelector('.timeline li');
    await page.click('.timeline summary >> nth=0');
  }, id: 'record' },
  { name: 'record no run', id: 'record', address: '#/record/run/no-such-run' },
  { name: 'sources', id: 'sources' },
  { name: 'source', id: 'sources', address: '#/sources/demo' },
  { name: 'source changes', id: 'sources', address: '#/sources/demo', before: async (page) => {
    await reply('**/v1/pins**', { pins: [PIN, { ...PIN, toolId: 'mcp:demo.echo', name: 'demo__echo', state: 'new' }] })(page);
    await reply('**/v1/sources/demo/logs', { lines: [{ at: '2026-11-25T00:00:00Z', line: 'WARN a long line on stderr: '.repeat(12) }] })(page);
  }, act: async (page) => {
    await page.click('text=Show what changed >> nth=0');
    await page.waitForSelector('.diff');
  } },
  { name: 'source missing', id: 'sources', address: '#/sources/no-such-source' },
  { name: 'access', id: 'access' },
  { name: 'access roles', id: 'access', address: '#/access/roles', act: (page) => page.waitForSelector('tr[data-role]'), before: reply('**/v1/roles', { roles: [
    { name: 'support', tools: 3, scopes: ['demo:read', 'library:read'], may: [], mayGive: true },
    { name: 'operator', tools: 14, scopes: ['demo:*'], may: ['sources:read'], mayGive: false },
  ] }) },
  { name: 'access role', id: 'access', address: '#/access/roles/support', before: reply('**/v1/roles/support', {
    role: { name: 'support', tools: 2, scopes: ['demo:read'], may: ['sources:read'], mayGive: true },
    tools: [
      { toolId: 'mcp:demo.echo', name: 'demo__echo', source: 'demo', safetyTier: 'read', destructive: false, approval: 'never' },
      { toolId: 'mcp:demo.wipe', name: 'demo__wipe', source: 'demo', safetyTier: 'write', destructive: true, approval: 'always' },
    ],
  }), act: (page) => page.waitForSelector('tr[data-tool]') },
  { name: 'access no role', id: 'access', address: '#/access/roles/no-such-role', act: (page) => page.waitForSelector('#screen .empty') },
  { name: 'access no key', id: 'access', address: '#/access/keys/no-such-key', act: (page) => page.waitForSelector('#screen .empty') },
  { name: 'access sessions', id: 'access', address: '#/access/sessions', before: reply('**/v1/sessions', { sessions: [
    { id: 'k_1', principal: 'ada', tenant: 'demo', browser: 'Firefox on Linux', keyId: 'k_2', current: true, createdAt: '2026-11-25T00:00:00Z', lastUsedAt: '2026-11-25T00:01:00Z', expiresAt: '2026-12-25T00:00:00Z' },
    { id: 'k_3', principal: 'grace', tenant: 'demo', browser: 'Chrome on Windows', issuer: 'https://id.example.com', current: false, createdAt: '2026-11-25T00:00:00Z', expiresAt: '2026-12-25T00:00:00Z' },
  ] }), act: (page) => page.waitForSelector('tr[data-session]') },
  { name: 'access roles none', id: 'access', address: '#/access/roles' },
  { name: 'access new key', id: 'access', act: async (page) => {
    await page.click('#new-key');
    await page.fill('dialog input >> nth=0', 'nightly report');
    await page.click('dialog .button.primary');
    await page.waitForSelector('dialog .problem-box');
  } },
  { name: 'access key shown', id: 'access', act: async (page) => {
    await page.click('#new-key');
    await page.fill('dialog input >> nth=0', 'state');
    await page.fill('dialog input[placeholder^="files"]', 'demo:read');
    await page.click('dialog .button.primary');
    await page.waitForSelector('[data-new-key]');
  } },
  { name: 'access rotate', id: 'access', act: async (page) => {
    await page.click('tr[data-key] >> text=Rotate >> nth=0');
    await page.waitForSelector('dialog[open]');
  } },
  { name: 'access revoke', id: 'access', act: async (page) => {
    await page.click('tr[data-key] >> text=Revoke >> nth=0');
    await page.waitForSelector('dialog[open]');
  } },
  { name: 'connections', id: 'connections' },
  { name: 'connections clients', id: 'connections', address: '#/connections/clients/all', before: reply('**/v1/clients**', CLIENTS), act: (page) => page.waitForSelector('tr[data-client-grant]') },
  { name: 'connections clients none', id: 'connections', address: '#/connections/clients', act: (page) => page.waitForSelector('#no-clients') },
  { name: 'connections end client', id: 'connections', address: '#/connections/clients', before: reply('**/v1/clients**', CLIENTS), act: async (page) => {
    await page.click('[data-end] >> nth=0');
    await page.waitForSelector('dialog[open]');
  } },
  { name: 'connections link', id: 'connections', address: `#/connect/${'x'.repeat(43)}`, ready: '#connection-refused' },
  { name: 'connect', id: 'connect' },
  { name: 'connect client', id: 'connect', address: '#/connect/claude-desktop' },
  { name: 'connect key made', id: 'connect', address: '#/connect/cursor', act: async (page) => {
    await page.fill('.steps input', 'demo:read');
    await page.click('.steps .button.primary');
    await page.waitForSelector('.steps .done');
  } },
  { name: 'connect without keys', role: 'caller', id: 'connect', address: '#/connect/cursor' },
  { name: 'palette', id: 'record', act: async (page) => {
    await page.keyboard.press('Control+k');
    await page.waitForSelector('#palette-list li');
  } },
  { name: 'palette no match', id: 'tools', act: async (page) => {
    await page.keyboard.press('Control+k');
    await page.keyboard.type('no-such-thing');
    await page.getByText('No matches.').waitFor();
  } },
  { name: 'keys', id: 'approvals', act: async (page) => {
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  } },
  { name: 'account', id: 'sources', act: async (page) => {
    await page.click('#account-button');
    await page.waitForSelector('.menu');
  } },
  { name: 'forbidden', role: 'caller', address: '#/record', ready: '#screen .empty' },
  { name: 'no screen', address: '#/no-such-screen', ready: '#screen .empty' },
  { name: 'error', address: '#/sources', ready: '#screen .problem-box', before: (page) =>
    page.route('**/v1/sources', (route) => route.fulfill({ status: 503, json: { error: 'unavailable', message: 'the store is not available' } })) },
  { name: 'offline', address: '#/access', ready: '#screen .problem-box', before: (page) =>
    page.route('**/v1/keys', (route) => route.fulfill({ status: 502, body: '' })) },
  { name: 'loading', address: '#/sources', ready: '#screen .skeleton', before: (page) => page.route('**/v1/sources', () => undefined) },
].map((state) => ({ role: 'admin', ...state }));

/** Whether a state is one of Record, Sources, Access or Connect. */
export const isOfRecords = ({ name }) => /^(record|sources?|access|connect)\b/.test(name);

/** Data for the states: calls of each result, and requests that wait. */
export async function startStates() {
  for (let at = 0; at < 6; at += 1) {
    await callTool('admin', 'demo__add', { a: at, b: 1 });
    await callTool('admin', 'demo__fail', {});
    await callTool('caller', 'demo__wipe', {});
    await callTool('approver', 'demo__echo', { text: 'denied' });
  }
  const first = await askForApproval('admin', `states ${Date.now()} a`);
  await ask('approver', `/v1/approvals/${first}`, { verdict: 'grant', comment: 'fine' });
}

/** Opens a state. Returns {page, close}. */
export async function openState(browser, state, options = {}) {
  const { role, id, act, before } = state;
  // Each picture of an approval has one that waits.
  if (id === 'approvals' && role === 'approver') await askForApproval('admin', `${state.name} ${Date.now()}`);
  const address = state.address ?? (id === undefined ? '' : screen(id).address);
  const { page, close } = await as(browser, role, address, { before, ...options });
  if (state.ready) await page.waitForSelector(state.ready);
  else await settled(page, screen(id));
  await act?.(page);
  return { page, close };
}

// A server that hands the real page to a browser, under the policy the product sends, with a catalog
// and results no honest upstream would give. Every name, text and type tries to become code.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { startServer } from './own-server.mjs';

export const PWN = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>';
const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** Content blocks as a hostile upstream would send them. */
export const BLOCKS = [
  { type: 'text', text: PWN },
  { type: 'text', text: `{"${PWN.replaceAll('"', '\\"')}": 9007199254740993}` },
  { type: 'image', mimeType: 'image/png" onerror="window.pwned=1" x="', data: PIXEL },
  {
    type: 'image',
    mimeType: 'image/svg+xml',
    data: Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" onload="window.pwned=1"/>').toString(
      'base64',
    ),
  },
  { type: 'image', mimeType: 'text/html', data: Buffer.from(PWN).toString('base64') },
  { type: 'image', mimeType: 'image/png', data: `${PIXEL}" onerror="window.pwned=1` },
  { type: 'image', mimeType: 'image/png', data: PIXEL },
  { type: 'audio', mimeType: 'audio/wav" autoplay onerror="window.pwned=1', data: PIXEL },
  {
    type: 'resource_link',
    uri: 'javascript:window.pwned=1',
    name: PWN,
    description: PWN,
    mimeType: PWN,
  },
  { type: 'resource_link', uri: ' data:text/html,<script>window.pwned=1</script>', name: 'x' },
  {
    type: 'resource',
    resource: { uri: 'javascript:window.pwned=1', mimeType: 'text/html', text: PWN },
  },
  {
    type: 'resource',
    resource: {
      uri: 'https://example.com/"onmouseover="window.pwned=1',
      mimeType: 'image/png" x="',
      blob: PIXEL,
    },
  },
  { type: 'text', text: JSON.stringify([{ [PWN]: PWN }]) },
  { type: '__proto__', toString: PWN },
  { type: 'constructor', html: PWN },
  { type: 7 },
  null,
  'text',
  [PWN],
];

const hostileSchema =
  JSON.parse(`{"type":"object","required":["__proto__","constructor","n","flag","missing"],"properties":{
  "__proto__":{"type":"string","description":${JSON.stringify(PWN)}},
  "constructor":{"type":"string","default":${JSON.stringify(PWN)}},
  "n":{"type":"integer","default":9007199254740993}, "flag":{"type":"boolean","default":false},
  "pick":{"enum":[${JSON.stringify(PWN)},null,1]}, "loop":{"$ref":"#"}, "self":{"$ref":"#/properties/self"},
  "forms":{"oneOf":[{"title":${JSON.stringify(PWN)},"type":"object","properties":{"x":{"const":"x"}}},{"type":"object","description":${JSON.stringify(PWN)},"properties":{"y":{"oneOf":[{"const":1,"title":${JSON.stringify(PWN)}},{"const":2,"title":"b"}]}}}]},
  "map":{"type":"object","additionalProperties":{"type":"string","title":${JSON.stringify(PWN)}}}, "list":{"type":"array","items":{"$ref":"#/properties/list"}}, "far":{"$ref":"https://example.com/x.json"}, "odd":7}}`);

const TOOLS = [
  {
    name: PWN,
    description: PWN,
    annotations: { title: PWN, destructiveHint: true },
    _meta: {
      'toolcrib/source': PWN,
      'toolcrib/tier': PWN,
      'toolcrib/toolId': PWN,
      'toolcrib/approval': PWN,
    },
    inputSchema: hostileSchema,
  },
  {
    name: 'plain',
    description: 'x',
    inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  },
  { name: 'scoped', description: '', inputSchema: { type: 'object' } },
  { name: 'disabled', description: '', inputSchema: { type: 'object' } },
  { name: 'slow', description: '', inputSchema: { type: 'object' } },
  { name: '__proto__', description: '', inputSchema: false },
  { description: 'a tool without a name' },
  null,
  'not a tool',
];

/** Names and texts that try to break out of their place; each is that of everything in one run. */
export const NASTY = {
  markup: PWN,
  'long word': 'W'.repeat(10_240),
  // An override of the direction that never ends, isolates that do not close, invisible characters,
  // line ends, text from right to left, and marks that pile up.
  directions: `admin\u202e txt.exe \u2066\u2067\u200b\u200d\ufeff\r\nline\ttab שלום العربية Z${'\u0335\u0321\u0322'.repeat(2)}`,
};

/** What a gateway would answer, if every text in it were `nasty`. */
function gatewayReply(nasty, method, path) {
  const at = '2026-11-25T00:00:00Z';
  const numbered = [1, 2, 3].map((it) => `${nasty}${it}`);
  const form = { name: nasty, description: nasty, inputSchema: { [nasty]: nasty } };
  const pins = numbered.map((toolId) => ({
    toolId,
    sourceId: `${nasty}1`,
    name: toolId,
    state: 'changed',
    quarantined: true,
    approved: { digest: nasty, at, document: form },
    seen: { digest: nasty, at, document: { ...form, description: `${nasty} changed` } },
  }));
  const approvals = numbered.map((approvalId, index) => ({
    approvalId,
    state: index === 2 ? 'rejected' : 'pending',
    toolId: nasty,
    principal: nasty,
    runId: nasty,
    quorum: 2,
    granted: 1,
    requiredScope: nasty,
    requiredRole: nasty,
    arguments: [{ name: nasty, type: nasty, bytes: nasty }],
    inputResponses: index === 0 ? [{ name: nasty, type: nasty, bytes: nasty }] : undefined,
    redactedInputResponses: index === 0 ? { [nasty]: { content: nasty } } : undefined,
    redactedRequestState: index === 0 ? nasty : undefined,
    requestStateBytes: index === 0 ? nasty.length : undefined,
    redactedArguments: index === 0 ? { [nasty]: nasty, deep: { [nasty]: [nasty] } } : undefined,
    reasons: index === 0 ? [nasty] : undefined,
    whyNot: nasty,
    outcome: { status: nasty, runId: nasty, durationMs: 1 },
    votes: [{ principal: nasty, verdict: nasty, at, comment: nasty }],
    createdAt: at,
    expiresAt: nasty,
    mayRespond: true,
    mayOverride: true,
    keyId: nasty,
    tool: { name: nasty, title: nasty, description: nasty, safetyTier: nasty },
  }));
  const event = (id, type, payload, more) => ({
    eventId: `${nasty}${id}`,
    runId: nasty,
    type,
    timestamp: at,
    payload: { toolName: `mcp:${nasty}`, callId: nasty, principal: nasty, error: { code: nasty, message: nasty }, ...payload },
    ...more,
  });
  const events = [
    event(1, 'agent.toolCalled', { transport: nasty }),
    event(2, 'agent.toolReturned', { status: nasty, durationMs: 5 }, { causationId: nasty }),
    event(3, 'agent.toolReturned', { status: 'error', durationMs: nasty }),
    event(4, 'authorization.decided', { approvalId: nasty }),
    event(5, nasty, { [nasty]: nasty }, { timestamp: nasty }),
  ];
  const keys = numbered.map((id) => ({
    id,
    name: nasty,
    tenant: nasty,
    principal: nasty,
    roles: [nasty],
    scopes: [nasty],
    createdAt: nasty,
    expiresAt: null,
    lastUsedAt: at,
    madeBy: [nasty],
  }));
  const sources = numbered.map((id) => ({
    id,
    kind: 'mcp',
    state: nasty,
    detail: nasty,
    reason: nasty,
    since: nasty,
    tools: 1,
    quarantined: 3,
    load: { running: 0, maxConcurrency: 1, rates: [nasty], refusedByRate: 0, refusedByQuota: 0, refusedByBreaker: 0 },
    taskFailures: 0,
    breaker: { state: nasty, failures: 0, opened: 0, openToCallers: 2 },
    discoveredAt: at,
    problems: [nasty],
  }));
  const scopes = ['audit:read', 'sources:read', 'sources:logs', 'sources:refresh', 'keys:manage', 'roles:read', 'pins:approve', 'config:write'];
  if (path === '/v1/whoami')
    return { principal: nasty, tenant: nasty, roles: [nasty], scopes: [nasty], auth: 'key', keyId: nasty, expiresAt: nasty, may: scopes };
  if (path === '/v1/tools') return numbered.map((toolId) => ({ toolId, egress: nasty, auth: { scopes: [nasty], credentialRef: true } }));
  if (path === '/v1/explain')
    return { outcome: nasty, principal: nasty, tenant: nasty, steps: [{ step: nasty, result: nasty, message: nasty, details: { [nasty]: nasty } }] };
  const facts = { principal: nasty, tool: `mcp:${nasty}`, status: nasty };
  if (path === '/v1/events')
    return { tenant: nasty, next: 9, cursor: nasty, events: events.map((it, position) => ({ position, prevHash: nasty, hash: nasty, event: it, facts })) };
  if (path === '/v1/events/summary') {
    const counts = { ok: 1, failed: 1, denied: 1, p50Ms: 1, p95Ms: 9 };
    const groups = [{ ...counts, name: nasty }];
    return { from: at, to: at, stepSecs: 60, events: 5, totals: counts, buckets: [{ ...counts, from: at }], tools: groups, principals: groups, slowest: groups };
  }
  if (path === '/v1/record/checkpoints') return { checkpoints: [] };
  const role = { name: nasty, scopes: [nasty], may: [nasty], tools: 1, mayGive: true };
  if (path === '/v1/roles') return { roles: [role, { ...role, name: `${nasty}1`, mayGive: false }] };
  if (path.startsWith('/v1/roles/'))
    return { role, tools: [{ toolId: nasty, name: nasty, source: nasty, safetyTier: nasty, approval: nasty }] };
  const rule = { [nasty]: { approval: nasty, scopes: [nasty] } };
  if (path === '/v1/config')
    return { hash: nasty, roles: [role], sources: sources.map(({ id }) => ({ id, kind: 'mcp', command: [nasty], [nasty]: nasty, tools: rule })) };
  const proposal = { source: `${nasty}1`, tools: [nasty], reason: nasty, change: { action: 'add', kind: 'rule', name: nasty, source: `${nasty}1`, settings: { approval: nasty } } };
  if (path === '/v1/config/rules') return { proposals: [proposal] };
  if (path === '/v1/config/propose')
    return {
      before: nasty,
      writable: true,
      obstacle: nasty,
      warnings: [nasty],
      givers: [{ role: nasty, caller: false, others: [nasty] }],
      reach: [{ role: nasty, tools: [nasty], others: [nasty], suggestion: [] }],
      problems: [{ key: nasty, message: nasty }],
      diff: [{ line: 1, table: nasty, lines: [{ sign: '+', text: nasty }, { sign: '-', text: nasty }] }],
      preview: {
        unknown: [{ source: nasty, reason: nasty }],
        sources: [{ source: nasty, tools: [], requiresApproval: true, quarantined: [nasty], proposals: [] }],
        idleRules: [{ source: nasty, pattern: nasty }],
        roles: [{ role: nasty, before: 1, after: 2, appears: [nasty], disappears: [nasty], changes: [{ tool: nasty, what: [nasty] }] }],
      },
    };
  if (path === '/v1/sources') return { sources, toolsets: [{ name: nasty, tools: 1, unresolved: 1 }] };
  if (/^\/v1\/sources\/.*\/logs$/s.test(path)) return { lines: [{ at: nasty, line: nasty }, { at, line: nasty }] };
  if (path === '/v1/pins') return { pins };
  if (path === '/v1/approvals') return { approvals };
  if (path.startsWith('/v1/approvals/')) return method === 'GET' ? approvals[0] : { ...approvals[0], state: nasty };
  if (path === '/v1/sessions')
    return { sessions: [{ id: nasty, tenant: nasty, principal: nasty, browser: nasty, keyId: nasty, issuer: nasty, createdAt: at, expiresAt: nasty }] };
  if (path === '/v1/keys') return method === 'GET' ? { keys } : { ...keys[0], key: nasty };
  return undefined;
}

/** Answers as a gateway; returns whether it did. */
function answerAsGateway(nasty, request, response, path) {
  if (path === '/v1/changes') {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const data = JSON.stringify({ position: nasty, approvalId: nasty, state: nasty });
    response.write(`: hello\n\nevent: record\ndata: ${data}\n\nevent: approval\ndata: ${data}\n\n`);
    response.write(`event: ${PWN}\ndata: ${data}\n\nevent: approval\ndata: not JSON ${PWN}\n\n`);
    return true;
  }
  if (path === '/mcp') {
    let text = '';
    request.on('data', (chunk) => (text += chunk));
    request.on('end', () => answerByMcp(nasty, response, text));
    return true;
  }
  if (!path.startsWith('/v1/')) return false;
  const decoded = decodeURIComponent(path);
  const reply = gatewayReply(nasty, request.method, decoded);
  request.resume();
  // A mutation of a key or a pin fails, with the message of the server.
  const fails = reply === undefined || (request.method !== 'GET' && !/keys$|approvals|propose$/.test(path));
  response
    .writeHead(fails ? 422 : request.method === 'POST' && path === '/v1/keys' ? 201 : 200, { 'content-type': 'application/json' })
    .end(JSON.stringify(fails ? { error: nasty, message: nasty } : reply));
  return true;
}

/** What a tool returns. */
const resultOf = (nasty) => ({
  content: [
    { type: 'text', text: nasty },
    { type: 'text', text: JSON.stringify([{ [nasty]: nasty, b: 1 }]) },
    { type: 'resource_link', uri: `https://example.com/${nasty}`, name: nasty, description: nasty, mimeType: nasty },
    { type: 'resource', resource: { uri: nasty, mimeType: nasty, text: nasty } },
    { type: nasty, [nasty]: nasty },
  ],
  structuredContent: { [nasty]: { [nasty]: nasty } },
  isError: false,
});

/** The answers of `/mcp`: the first tool waits for an approval, the third one asks a question. */
function answerByMcp(nasty, response, text) {
  const { id, params } = JSON.parse(text);
  let result = resultOf(nasty);
  if (params.name.endsWith('1'))
    result = {
      content: [{ type: 'text', text: nasty }],
      isError: true,
      _meta: { 'dev.toolcrib/error': 'approval_required', 'dev.toolcrib/approvalId': `${nasty}1`, 'dev.toolcrib/expiresAt': nasty },
    };
  else if (params.name.endsWith('3') && params.inputResponses === undefined)
    result = {
      resultType: 'input_required',
      requestState: nasty,
      inputRequests: {
        [nasty]: {
          method: 'elicitation/create',
          params: { mode: 'form', message: nasty, requestedSchema: { type: 'object', required: [nasty], properties: { [nasty]: { type: 'string', title: nasty, description: nasty } } } },
        },
      },
    };
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const event = (message) => response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`);
  event({ method: 'notifications/progress', params: { progressToken: id, progress: 1, total: nasty, message: nasty } });
  event({ id, result });
  response.end();
}

/** The list of the explorer with names and texts of one kind. */
const nastyTools = (nasty) =>
  [1, 2, 3].map((at) => ({
    name: `${nasty}${at}`,
    description: nasty,
    annotations: { title: nasty, destructiveHint: at === 1 },
    _meta: {
      'toolcrib/source': 'mcp',
      'toolcrib/sourceId': nasty,
      'toolcrib/tier': nasty,
      'toolcrib/toolId': `${nasty}${at}`,
      'toolcrib/otcId': nasty,
      'toolcrib/approval': 'always',
      'toolcrib/scopes': [nasty],
    },
    inputSchema: {
      type: 'object',
      required: [nasty],
      properties: { [nasty]: { type: 'string', title: nasty, description: nasty, default: nasty, enum: [nasty, 'b'] } },
    },
  }));

/**
 * Starts the server; returns {url, bodies, close}. `bodies` collects the bodies sent to /call. With
 * `nasty` it is a gateway, whose every name and text is that.
 */
export async function startHostile({ execute = true, nasty } = {}) {
  const real = await startServer('');
  const bodies = [];
  const tools = nasty === undefined ? TOOLS : nastyTools(nasty);
  const server = createServer({ maxHeaderSize: 1 << 18 }, (request, response) => {
    const path = new URL(request.url, 'http://localhost').pathname;
    const json = (status, body) =>
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(exact(JSON.stringify(body)));
    if (path === '/explorer') return sendPage(real, response, execute, nasty !== undefined);
    if (nasty !== undefined && answerAsGateway(nasty, request, response, path)) return undefined;
    if (path.startsWith('/explorer/assets/')) return sendFile(real, response, path);
    if (path.startsWith('/explorer/catalog')) {
      const list = tools.map((tool) =>
        tool?.inputSchema === undefined ? tool : { ...tool, inputSchema: undefined },
      );
      // In two parts; the tag of the second is a text of the server, too.
      const second = nasty ?? PWN;
      if (path === '/explorer/catalog')
        return json(200, {
          total: list.length,
          parts: [
            { tag: 'first', count: 1, tools: list.slice(0, 1) },
            { tag: second, count: list.length - 1 },
          ],
        });
      return decodeURIComponent(path.slice('/explorer/catalog/'.length)) === second
        ? json(200, list.slice(1))
        : json(404, { error: PWN });
    }
    const [, name, verb] = /^\/explorer\/tools\/([^/]+)(?:\/(\w+))?$/.exec(path) ?? [];
    const tool = name && tools.find((candidate) => candidate?.name === decodeURIComponent(name));
    if (!tool) return json(404, { error: PWN });
    if (!verb) return json(200, tool);
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      if (verb === 'validate')
        return json(200, {
          valid: false,
          errors: [
            { path: '/__proto__', message: PWN, keyword: PWN },
            { path: PWN, message: PWN },
            { path: '', message: PWN },
          ],
        });
      bodies.push(body);
      if (tool.name === 'scoped')
        return json(403, { error: 'forbidden', message: PWN, details: { requiredScopes: [PWN] } });
      if (tool.name === 'disabled') return json(403, { error: 'Tool execution is disabled.' });
      if (tool.name === 'slow') return undefined; // never answered: the test cancels
      return json(200, {
        content: BLOCKS,
        structuredContent: { [PWN]: PWN },
        isError: false,
        _meta: { _trace_id: PWN },
      });
    });
    return undefined;
  });
  await new Promise((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${server.address().port}/explorer`,
    bodies,
    close: () => {
      server.closeAllConnections();
      server.close();
      return real.stop();
    },
  };
}

/** Node parses 2^53 + 1 as 2^53; this is the JSON of a server with 64-bit integers. */
function exact(text) {
  return text.replaceAll('9007199254740992', '9007199254740993');
}

/** Sends the page of a real server, with other settings. */
async function sendPage(real, response, execute, gateway) {
  const reply = await fetch(`${real.url}/explorer`);
  const html = (await reply.text())
    .replace('executeEnabled = true', `executeEnabled = ${execute}`)
    .replace('data-gateway="true"', `data-gateway="${gateway}"`)
    .replace('data-sessions="true"', 'data-sessions="false"');
  const hashes = [...html.matchAll(/<script>(.*?)<\/script>/gs)].map(
    ([, script]) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`,
  );
  const policy = reply.headers.get('content-security-policy');
  response
    .writeHead(200, {
      'content-type': reply.headers.get('content-type'),
      'content-security-policy': policy
        .replaceAll(/ 'sha256-[^']*'/g, '')
        .replace("script-src 'self'", `script-src 'self' ${hashes.join(' ')}`),
    })
    .end(html);
}

async function sendFile(real, response, path) {
  const reply = await fetch(`${real.url}${path}`);
  response
    .writeHead(reply.status, {
      'content-type': reply.headers.get('content-type'),
      'x-content-type-options': 'nosniff',
    })
    .end(Buffer.from(await reply.arrayBuffer()));
}

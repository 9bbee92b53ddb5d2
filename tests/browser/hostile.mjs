// A server that hands the real page to a browser, under the policy the product sends, with a catalog
// and results no honest upstream would give. Every name, text and type tries to become code.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname } from 'node:path';

const UI = new URL('../../crates/toolcrib/src/ui/', import.meta.url);
const TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
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

/** Starts the server; returns {url, bodies, close}. `bodies` collects the bodies sent to /call. */
export async function startHostile({ execute = true } = {}) {
  const bodies = [];
  const server = createServer((request, response) => {
    const path = new URL(request.url, 'http://localhost').pathname;
    const json = (status, body) =>
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(exact(JSON.stringify(body)));
    if (path === '/explorer') return sendPage(response, execute);
    if (path.startsWith('/explorer/assets/'))
      return sendAsset(response, path.slice('/explorer/assets/'.length));
    if (path === '/explorer/tools')
      return json(
        200,
        TOOLS.map((tool) =>
          tool?.inputSchema === undefined ? tool : { ...tool, inputSchema: undefined },
        ),
      );
    const [, name, verb] = /^\/explorer\/tools\/([^/]+)(?:\/(\w+))?$/.exec(path) ?? [];
    const tool = name && TOOLS.find((candidate) => candidate?.name === decodeURIComponent(name));
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
    },
  };
}

/** Node parses 2^53 + 1 as 2^53; this is the JSON of a server with 64-bit integers. */
function exact(text) {
  return text.replaceAll('9007199254740992', '9007199254740993');
}

function sendPage(response, execute) {
  const values = {
    TITLE: 'Hostile',
    ALLOW_EXECUTE: String(execute),
    PROJECT_LINK: '',
    BASE: '/explorer/',
    GATEWAY: 'false',
  };
  const html = readFileSync(new URL('index.html', UI), 'utf8').replace(
    /\{\{([A-Z_]+)\}\}/g,
    (_, key) => values[key],
  );
  const hash = createHash('sha256').update(`var executeEnabled = ${execute};`).digest('base64');
  response
    .writeHead(200, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': `default-src 'none'; script-src 'self' 'sha256-${hash}'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    })
    .end(html);
}

function sendAsset(response, file) {
  const known = /^(?:[a-z0-9-]+\/)?[a-z0-9.-]+$/.test(file) && existsSync(new URL(file, UI));
  if (!known) return response.writeHead(404).end();
  return response
    .writeHead(200, { 'content-type': TYPES[extname(file)], 'x-content-type-options': 'nosniff' })
    .end(readFileSync(new URL(file, UI)));
}

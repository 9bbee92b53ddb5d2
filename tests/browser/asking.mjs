// An MCP server of the revision 2026-07-28 over stdio, whose tools ask questions and run until they
// are cancelled.
//
//   node asking.mjs FILE
//
// It appends the answers that it got, and the cancellations, to FILE: one JSON value a line. The tool
// `steps` goes on when the files FILE.second and FILE.end exist.
import { appendFileSync, existsSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [file] = process.argv.slice(2);
const note = (value) => appendFileSync(file, `${JSON.stringify(value)}\n`);
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const when = (step, then) => {
  if (existsSync(`${file}.${step}`)) then();
  else setTimeout(() => when(step, then), 50);
};
const EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';

const FORM = {
  type: 'object',
  required: ['name', 'size'],
  properties: {
    name: { type: 'string', title: 'Your name', minLength: 2 },
    mail: { type: 'string', format: 'email' },
    size: { type: 'string', oneOf: [{ const: 's', title: 'Small' }, { const: 'l', title: 'Large' }] },
    loud: { type: 'boolean', default: true },
  },
};
const HOSTILE = {
  type: 'object',
  title: EVIL,
  required: ['__proto__', EVIL],
  properties: {
    ['__proto__']: { type: 'string', title: EVIL, description: EVIL },
    [EVIL]: { type: 'string', enum: [EVIL, 'b'], default: EVIL, pattern: '((a+)+)+$' },
    loop: { $ref: '#' },
  },
};
const question = (message, requestedSchema) => ({
  method: 'elicitation/create',
  params: { mode: 'form', message, requestedSchema },
});
const CHOICES = {
  type: 'object',
  required: ['count', 'mode', 'options', 'target'],
  properties: {
    count: { type: 'integer', minimum: 1, default: 3 },
    mode: { type: 'string', enum: ['fast', 'safe'], default: 'safe' },
    options: {
      type: 'object',
      required: ['lines', 'deep'],
      properties: {
        lines: { type: 'array', items: { type: 'string' } },
        deep: { type: 'object', required: ['on'], properties: { on: { type: 'boolean', default: false } } },
      },
    },
    target: {
      oneOf: [
        { title: 'A whole folder', type: 'object', required: ['kind'], properties: { kind: { const: 'folder' } } },
        { title: 'One file', type: 'object', required: ['kind', 'path'], properties: { kind: { const: 'file' }, path: { type: 'string' } } },
      ],
    },
  },
};
const NUMBERS = { type: 'object', properties: { id: { type: 'integer' }, amount: { type: 'number' } } };
const TICKET = {
  type: 'object',
  properties: { ticket: { type: 'string' }, count: { type: 'integer' }, loud: { type: 'boolean' } },
};
const FILES = {
  type: 'object',
  required: ['document'],
  properties: { document: { type: 'string', contentEncoding: 'base64' }, note: { type: 'string' } },
};
const UPLOAD = {
  type: 'object',
  required: ['file'],
  description: 'Base64 of the bytes of files, or `data:TYPE;name=NAME;base64,` and base64: file.',
  properties: { file: { type: 'string', format: 'binary' } },
};
const DELIVERY = {
  type: 'object',
  properties: {
    to: {
      type: 'object',
      properties: { name: { type: 'string' }, floor: { type: 'integer' } },
      required: ['name'],
    },
    attachment: { type: 'string', contentEncoding: 'base64', contentMediaType: 'application/zip' },
  },
  required: ['to', 'attachment'],
};
const SCHEMAS = { delivery: DELIVERY, choices: CHOICES, numbers: NUMBERS, ticket: TICKET, files: FILES, upload: UPLOAD };
const TITLES = { nested: 'Orders with their lines' };
const NAMES = ['ask', 'ask-twice', 'hostile', 'slow', 'steps', 'sound', 'choices', 'numbers', 'ticket', 'files', 'upload', 'delivery', 'markdown', 'nested'];
const TOOLS = NAMES.map((name) => ({
  name,
  title: TITLES[name],
  description: `does ${name}`,
  inputSchema: SCHEMAS[name] ?? { type: 'object', properties: { note: { type: 'string' } } },
}));

/** A report of a tool that would like to be more than text. */
const REPORT = `# Report of **today**

Two orders are *late*, see [your bank](https://evil.example/login "x") or write to [us](mailto:help@shop.example).
![a picture](https://evil.example/spy.png) [run](javascript:window.hacked=1) ${EVIL}

- first
  - nested \`code\`

| order | late |
|-------|-----:|
| A-1   | 3    |
`;
const ORDERS = {
  total: 2,
  orders: [
    { id: 1, lines: [{ sku: 'apple', count: 2 }, { sku: 'pear', count: 1 }], tags: ['new', 'paid'] },
    { id: 2, lines: [], tags: [] },
  ],
};

/** A sound without samples. */
const WAV = Buffer.from('524946462400000057415645666d74201000000001000100401f0000401f00000100080064617461000000', 'hex');

const complete = (id, text) =>
  say({ id, result: { resultType: 'complete', content: [{ type: 'text', text }], isError: false } });
const ask = (id, inputRequests, requestState) =>
  say({ id, result: { resultType: 'input_required', inputRequests, requestState } });

function call({ id, params }, line) {
  const { name, inputResponses, requestState } = params;
  if (inputResponses) note({ tool: name, inputResponses, requestState });
  if (name === 'ask') {
    if (!inputResponses) return ask(id, { who: question('Who are you?', FORM) }, 'state-1');
    return complete(id, `answered: ${JSON.stringify(inputResponses.who)}`);
  }
  if (name === 'ask-twice') {
    if (!inputResponses)
      return ask(id, { a: question('First?', FORM), b: question('Second?', { type: 'object', properties: {} }) }, 'one');
    if (requestState === 'one') return ask(id, { c: question('Third?', FORM) }, 'two');
    return complete(id, 'three answers');
  }
  if (name === 'hostile') {
    if (!inputResponses) return ask(id, { [EVIL]: question(EVIL, HOSTILE) }, EVIL);
    return complete(id, `answered: ${JSON.stringify(inputResponses)}`);
  }
  if (['choices', 'ticket', 'files', 'upload', 'delivery'].includes(name)) return complete(id, JSON.stringify(params.arguments));
  if (name === 'markdown') return complete(id, REPORT);
  if (name === 'nested')
    return say({ id, result: { resultType: 'complete', content: [], structuredContent: ORDERS, isError: false } });
  if (name === 'numbers') {
    // As received: a parser would change what it cannot hold.
    const [, received] = /"arguments":(\{[^}]*\})/.exec(line);
    const text = JSON.stringify(received);
    const result = `{"resultType":"complete","content":[{"type":"text","text":${text}}],"structuredContent":${received}}`;
    return process.stdout.write(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}\n`);
  }
  if (name === 'sound') {
    const sound = { type: 'audio', mimeType: 'audio/wav', data: WAV.toString('base64') };
    return say({ id, result: { resultType: 'complete', content: [sound], isError: false } });
  }
  const progressToken = params._meta?.progressToken;
  const report = (progress, total, message) =>
    progressToken !== undefined &&
    say({ method: 'notifications/progress', params: { progressToken, progress, total, message } });
  if (name === 'steps') {
    report(1, 4, 'first <b>step</b>');
    return when('second', () => {
      report(2, 4, 'second step');
      when('end', () => complete(id, 'all steps'));
    });
  }
  report(1, undefined, 'no end in sight');
  return undefined; // until it is cancelled
}

createInterface({ input: process.stdin })
  .on('line', (line) => {
    const message = JSON.parse(line);
    const { id, method } = message;
    if (method === 'notifications/cancelled') note({ cancelled: message.params.requestId });
    if (id === undefined) return;
    if (method === 'server/discover')
      say({ id, result: { resultType: 'complete', supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, ttlMs: 0, cacheScope: 'private' } });
    else if (method === 'tools/list')
      say({ id, result: { resultType: 'complete', tools: TOOLS, ttlMs: 0, cacheScope: 'private' } });
    else if (method === 'tools/call') call(message, line);
    else say({ id, error: { code: -32601, message: 'unknown method' } });
  })
  .on('close', () => process.exit(0));

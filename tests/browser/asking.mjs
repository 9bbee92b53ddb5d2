// An MCP server of the revision 2026-07-28 over stdio, whose tools ask questions and run until they
// are cancelled.
//
//   node asking.mjs FILE
//
// It appends the answers that it got, and the cancellations, to FILE: one JSON value a line.
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [file] = process.argv.slice(2);
const note = (value) => appendFileSync(file, `${JSON.stringify(value)}\n`);
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
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
const TOOLS = ['ask', 'ask-twice', 'hostile', 'slow', 'steps'].map((name) => ({
  name,
  description: `does ${name}`,
  inputSchema: { type: 'object', properties: { note: { type: 'string' } } },
}));

const complete = (id, text) =>
  say({ id, result: { resultType: 'complete', content: [{ type: 'text', text }], isError: false } });
const ask = (id, inputRequests, requestState) =>
  say({ id, result: { resultType: 'input_required', inputRequests, requestState } });

function call({ id, params }) {
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
  const progressToken = params._meta?.progressToken;
  const report = (progress, total, message) =>
    progressToken !== undefined &&
    say({ method: 'notifications/progress', params: { progressToken, progress, total, message } });
  if (name === 'steps') {
    report(1, 4, 'first <b>step</b>');
    setTimeout(() => report(2, 4, 'second step'), 1500);
    setTimeout(() => complete(id, 'all steps'), 3500);
    return undefined;
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
    else if (method === 'tools/call') call(message);
    else say({ id, error: { code: -32601, message: 'unknown method' } });
  })
  .on('close', () => process.exit(0));

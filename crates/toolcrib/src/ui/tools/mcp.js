// A call through `/mcp` of the page's gateway, which supports progress and questions of tools. The reply
// has the form of the explorer's endpoint, so that results look the same.
//
// Invariant: one POST is one round of the call. Aborting it cancels the call at its source.
import { fetchWithKey, seconds } from '../api.js';
import { isObject, own, parseJson, pretty } from '../json.js';

const REVISION = '2026-07-28';
const META = 'io.modelcontextprotocol/';
const OURS = 'dev.toolcrib/';
/** The most rounds of questions in one call. */
const MAX_ROUNDS = 20;
/** The explorer's status for each error code of MCP. */
const STATUSES = { [-31401]: 401, [-31403]: 403, [-31429]: 429, [-31503]: 503, [-32603]: 500 };

let serial = 0;

/**
 * Calls `tool` with the arguments in the JSON text `body`. `progress` gets {progress, total, message};
 * `answer` gets the questions of a tool and returns the responses. `log(way, text)` gets each message.
 */
export async function callByMcp(tool, body, { signal, progress, answer, log }) {
  const started = performance.now();
  let round = {};
  for (let count = 0; count < MAX_ROUNDS; count += 1) {
    const reply = await send(tool, body, round, { signal, progress, log });
    const result = own(reply.message, 'result');
    if (own(result, 'resultType') !== 'input_required') return replyOf(reply, tool, started);
    const { inputRequests, requestState } = result;
    const responses = isObject(inputRequests) ? await answer(inputRequests) : undefined;
    signal.throwIfAborted();
    round = { inputResponses: responses, requestState };
  }
  throw new Error(`the tool sent questions ${MAX_ROUNDS} times; the call was stopped`);
}

async function send(tool, body, round, { signal, progress, log }) {
  serial += 1;
  const id = serial;
  const meta = {
    [`${META}protocolVersion`]: REVISION,
    [`${META}clientCapabilities`]: { elicitation: { form: {} } },
    [`${META}clientInfo`]: { name: 'toolcrib-console', version: '1' },
    progressToken: id,
  };
  const members = [
    `"name":${JSON.stringify(tool.name)}`,
    `"arguments":${body}`, // as it was entered, so that large numbers stay exact
    `"_meta":${JSON.stringify(meta)}`,
  ];
  for (const [name, value] of Object.entries(round))
    if (value !== undefined) members.push(`${JSON.stringify(name)}:${JSON.stringify(value)}`);
  const sent = `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{${members.join(',')}}}`;
  log('out', sent);
  const response = await fetchWithKey('/mcp', {
    method: 'POST',
    headers: {
      Accept: 'application/json, text/event-stream',
      'Content-Type': 'application/json',
      'MCP-Protocol-Version': REVISION,
      'Mcp-Method': 'tools/call',
      'Mcp-Name': headerValue(tool.name),
      ...repeated(tool.inputSchema, parseJson(body)),
    },
    body: sent,
    signal,
    cache: 'no-store',
  });
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  if (!isStream) {
    const text = await response.text();
    log('in', text);
    return { response, text, message: parsed(text) };
  }
  for await (const text of events(response.body.getReader())) {
    log('in', text);
    const message = parsed(text);
    if (own(message, 'method') === 'notifications/progress') {
      const report = own(message, 'params');
      if (own(report, 'progressToken') === id) progress(report);
    } else if (own(message, 'id') === id) {
      return { response, text, message };
    }
  }
  throw new Error('the connection closed before the result');
}

/** The data of each server-sent event. */
async function* events(reader) {
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const blocks = rest.split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const data = block.split('\n').filter((line) => line.startsWith('data:'));
      if (data.length > 0) yield data.map((line) => line.slice(5).trimStart()).join('\n');
    }
  }
}

function replyOf({ response, text, message }, tool, started) {
  const reply = {
    status: response.status,
    statusText: '',
    headers: [...response.headers],
    retryAfter: seconds(response.headers.get('retry-after')),
    text,
    ms: performance.now() - started,
  };
  const error = own(message, 'error');
  if (error !== undefined) return { ...reply, ...refusal(error, tool) };
  const result = own(message, 'result');
  if (!isObject(result)) return reply;
  const meta = own(result, '_meta');
  const details = waiting(meta, tool);
  if (details !== undefined) {
    const data = { error: result.content?.[0]?.text, details };
    return { ...reply, status: 403, data };
  }
  const { resultType: _, _meta: __, ...data } = result;
  const run = own(meta, `${OURS}runId`);
  if (run !== undefined) data._meta = { _trace_id: run };
  return { ...reply, status: data.isError === true ? 500 : 200, data, text: pretty(data) };
}

/** The details of a call that needs an approval or an account, or was rejected. */
function waiting(meta, tool) {
  const approval = { approval_required: 'required', approval_rejected: 'rejected' };
  const code = own(meta, `${OURS}error`);
  if (code === 'connection_required')
    return { connection: 'required', source: own(tool._meta, 'toolcrib/sourceId') };
  if (!Object.hasOwn(approval, code ?? '')) return undefined;
  return {
    approval: approval[code],
    approvalId: own(meta, `${OURS}approvalId`),
    expiresAt: own(meta, `${OURS}expiresAt`),
  };
}

function refusal(error, tool) {
  const message = String(own(error, 'message') ?? '');
  const details = own(error, 'data');
  if (error.code === -32602 && message === 'Unknown tool')
    return { status: 404, data: { error: `Tool not found: ${tool.name}` } };
  const status = STATUSES[error.code];
  const data = { error: message, details };
  if (status !== undefined) return { status, data };
  // As the explorer does: a failure of the call itself is a result.
  return { status: 500, data: { isError: true, content: [{ type: 'text', text: message }] } };
}

function parsed(text) {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** The arguments that a tool wants in headers (`x-mcp-header`), found through `properties` alone. */
function repeated(schema, value, headers = {}) {
  const properties = own(schema, 'properties');
  if (!isObject(properties) || !isObject(value)) return headers;
  for (const [name, property] of Object.entries(properties)) {
    const inner = own(value, name);
    const header = own(property, 'x-mcp-header');
    if (typeof header === 'string' && /^[\w-]{1,128}$/.test(header)) {
      const text = plain(inner);
      if (text !== undefined) headers[`Mcp-Param-${header}`] = headerValue(text);
    }
    repeated(property, inner, headers);
  }
  return headers;
}

function plain(value) {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  const text = JSON.stringify(value);
  return typeof text === 'string' && /^-?\d/.test(text) ? text : undefined;
}

/** Encodes a value that a header cannot hold. */
function headerValue(text) {
  const fits = /^[\x20-\x7e]*$/.test(text) && text.trim() === text && !/^=\?base64\?.*\?=$/.test(text);
  if (fits) return text;
  const bytes = new TextEncoder().encode(text);
  return `=?base64?${btoa(String.fromCharCode(...bytes))}?=`;
}

// The explorer's endpoints. A reply of any status is returned; only a request without a reply
// (network error, cancellation) throws.
import { state, emit } from './state.js';
import { parseAnswer } from './json.js';

export const base = basePath();

/** The page's prefix with a trailing slash, from the markup or the address. */
function basePath() {
  const given = document.body.dataset.base ?? '';
  return /^\/(?!\/)/.test(given) ? given : `${location.pathname.replace(/\/$/, '')}/`;
}

export function authorization(token = state.token) {
  const trimmed = token.trim();
  if (trimmed === '') return undefined;
  return /^bearer\s/i.test(trimmed) ? trimmed : `Bearer ${trimmed}`;
}

/** The list of tools: which parts it has, and one part. */
export const getCatalog = (signal) => request('GET', `${base}catalog${ofToolset()}`, { signal });
export const getCatalogPart = (tag, signal) =>
  request('GET', `${base}catalog/${encodeURIComponent(tag)}${ofToolset()}`, { signal });
export const getTool = (name, signal) => request('GET', toolPath(name), { signal });
export const validate = (name, body, signal) =>
  request('POST', `${toolPath(name)}/validate`, { body, signal });
export const call = (name, body, signal) =>
  request('POST', `${toolPath(name)}/call`, { body, signal });

/** One request for approval. Gateway API, not an explorer endpoint. */
export const approval = (id) => request('GET', `/v1/approvals/${encodeURIComponent(id)}`);

/** The server's explanation of one tool, or of the list, for this key. Gateway API, too. */
export const explain = (name, signal) =>
  request('GET', `/v1/explain${name === undefined ? '' : `?tool=${encodeURIComponent(name)}`}`, {
    signal,
  });

/** The `toolset` parameter of the page's address, passed on to the list. */
function ofToolset() {
  const name = new URLSearchParams(location.search).get('toolset');
  return name === null ? '' : `?toolset=${encodeURIComponent(name)}`;
}

export function toolPath(name) {
  return `${base}tools/${encodeURIComponent(name)}`;
}

/** The Open Tool Calling id of a tool, looked up by name in the server's OTC list. */
export async function otcToolId(name) {
  const reply = await request('GET', '/tools', {});
  const list = reply.status === 200 ? reply.data?.tools : undefined;
  if (!Array.isArray(list)) return undefined;
  const id = list.find((tool) => tool?.name === name)?.id;
  return typeof id === 'string' ? id : undefined;
}

/** The page's credential for a request: the key, or its half of the browser session. */
function credential() {
  const auth = authorization();
  if (auth !== undefined) return { Authorization: auth };
  return state.session === '' ? {} : { 'Toolcrib-Session': state.session };
}

/** Sends a request with the page's credential. Returns the raw response. */
export function fetchWithKey(path, { headers = {}, ...options } = {}) {
  return fetch(path, { ...options, headers: { ...headers, ...credential() } });
}

/** Sends a request with the page's credential, and parses the response. */
export async function request(method, path, { body, signal } = {}) {
  const headers = { Accept: 'application/json' };
  const sent = JSON.stringify(credential());
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const started = performance.now();
  const response = await fetchWithKey(path, { method, headers, body, signal, cache: 'no-cache' });
  const text = await response.text();
  // Reloading the list checks, for the whole page, whether the credential is still valid.
  const isCurrent = sent === JSON.stringify(credential());
  if (response.status === 401 && state.status === 'ready' && isCurrent) emit('reload');
  return {
    status: response.status,
    statusText: response.statusText,
    headers: [...response.headers],
    retryAfter: seconds(response.headers.get('retry-after')),
    text,
    data: tryParse(text),
    ms: performance.now() - started,
  };
}

function tryParse(text) {
  try {
    return parseAnswer(text);
  } catch {
    return undefined;
  }
}

/** The seconds of a `Retry-After` header; undefined if it is missing or a date. */
export function seconds(value) {
  return value !== null && /^\d+$/.test(value.trim()) ? Number(value) : undefined;
}

/** Describes an unexpected reply in one sentence. */
export function problemText(reply) {
  const { data, status } = reply;
  for (const text of [data?.message, data?.error]) {
    if (typeof text === 'string' && text !== '') return text;
  }
  if (status === 200) return 'The response of the tools endpoint has an unexpected form.';
  return `The server answered ${status}${reply.statusText ? ` ${reply.statusText}` : ''}.`;
}

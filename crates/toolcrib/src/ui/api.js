// The explorer's endpoints. A reply of any status is returned; only a request without a reply
// (network error, cancellation) throws.
import { state, emit } from './state.js';
import { parseAnswer } from './json.js';

export const base = basePath();

/** Returns the page's prefix with a trailing slash, from the markup or from the address. */
function basePath() {
  const given = document.body.dataset.base ?? '';
  return /^\/(?!\/)/.test(given) ? given : `${location.pathname.replace(/\/$/, '')}/`;
}

export function authorization(token = state.token) {
  const trimmed = token.trim();
  if (trimmed === '') return undefined;
  return /^bearer\s/i.test(trimmed) ? trimmed : `Bearer ${trimmed}`;
}

/** The list of tools: its parts, and one of them. */
export const getCatalog = (signal) => request('GET', `${base}catalog${ofToolset()}`, { signal });
export const getCatalogPart = (tag, signal) =>
  request('GET', `${base}catalog/${encodeURIComponent(tag)}${ofToolset()}`, { signal });
export const getTool = (name, signal) => request('GET', toolPath(name), { signal });
export const validate = (name, body, signal) =>
  request('POST', `${toolPath(name)}/validate`, { body, signal });
export const call = (name, body, signal) =>
  request('POST', `${toolPath(name)}/call`, { body, signal });

/** One request for approval, which belongs to the gateway's API and not to the explorer's. */
export const approval = (id) => request('GET', `/v1/approvals/${encodeURIComponent(id)}`);

/** The server's explanation for this key, of one tool or of the list. Not an explorer endpoint. */
export const explain = (name, signal) =>
  request('GET', `/v1/explain${name === undefined ? '' : `?tool=${encodeURIComponent(name)}`}`, {
    signal,
  });

/** The toolset that the page's own address names, for its list. */
function ofToolset() {
  const name = new URLSearchParams(location.search).get('toolset');
  return name === null ? '' : `?toolset=${encodeURIComponent(name)}`;
}

export function toolPath(name) {
  return `${base}tools/${encodeURIComponent(name)}`;
}

/** Returns the Open Tool Calling id of a tool, found by name in the server's own OTC list. */
export async function otcToolId(name) {
  const reply = await request('GET', '/tools', {});
  const list = reply.status === 200 ? reply.data?.tools : undefined;
  if (!Array.isArray(list)) return undefined;
  const id = list.find((tool) => tool?.name === name)?.id;
  return typeof id === 'string' ? id : undefined;
}

/** The credential of the page in a request: its key, or its half of the session of the browser. */
function credential() {
  const auth = authorization();
  if (auth !== undefined) return { Authorization: auth };
  return state.session === '' ? {} : { 'Toolcrib-Session': state.session };
}

/** Sends a request with the credential of the page, and returns the response as it is. */
export function fetchWithKey(path, { headers = {}, ...options } = {}) {
  return fetch(path, { ...options, headers: { ...headers, ...credential() } });
}

/** Sends a request with the credential of the page. */
export async function request(method, path, { body, signal } = {}) {
  const headers = { Accept: 'application/json' };
  const sent = JSON.stringify(credential());
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const started = performance.now();
  const response = await fetchWithKey(path, { method, headers, body, signal, cache: 'no-cache' });
  const text = await response.text();
  // The list of tools finds out whether the credential has ended, for the whole page.
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

/** Returns the number of seconds of a `Retry-After` header. */
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

// The state of the page, in memory only and lost with the page, except for a session. A new key starts
// with an empty state: it must not show another principal's tools and results.

export const state = {
  /** The key from the form. */
  token: '',
  /** The session secret if the user stays signed in; `token` is empty then. */
  session: '',
  executeEnabled: window.executeEnabled === true,
  /** loading | ready | signin | error | idle (a new key, not used yet) */
  status: 'loading',
  problem: '',
  /** The caller, as `/v1/whoami` describes it; undefined until the gateway has accepted the key. */
  who: undefined,
  /** The number of approvals that the caller can answer. */
  pending: 0,
  /** The number of sources that need attention, for callers who may see them. */
  unhealthy: 0,
  /** Identity providers for sign-in, as {issuer, name}. */
  providers: [],
  /** Why the last sign-in failed or expired, as {text, said}. */
  signInProblem: undefined,
  tools: [],
  /** Why the list could not be refreshed; undefined while it is current. */
  stale: undefined,
  /** The tool that the user has just opened; the focus goes into its form. */
  opened: undefined,
  skipped: 0,
  /** How many tools of the list are still to come. */
  coming: 0,
  selected: undefined,
  query: '',
  filters: new Map(),
};

const listeners = new Map();

/**
 * Calls `listener` at each event, until the returned function is called. Events: `tools` (list or its
 * status), `filter`, `pins`, `first-run`, `select`, `focus-tool`, `focus-list`, `token`, `execute`, `reload`,
 * `keys`, `who`, `signed-out`, `counts`, `palette`, `providers` and, from the stream of changes, `live:…`.
 */
export function on(event, listener) {
  if (!listeners.has(event)) listeners.set(event, new Set());
  listeners.get(event).add(listener);
  return () => listeners.get(event).delete(listener);
}

export function emit(event, value) {
  for (const listener of [...(listeners.get(event) ?? [])]) listener(value);
}

export function disableExecution() {
  if (!state.executeEnabled) return;
  state.executeEnabled = false;
  emit('execute');
}

export function select(name) {
  if (state.selected === name) return;
  state.selected = name;
  emit('select', name);
}

/** Whether the caller has a scope of a route, such as `audit:read`. */
export function may(scope) {
  return state.who?.may?.includes(scope) === true;
}

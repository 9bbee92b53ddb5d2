// The state of the page. All of it is in memory and lost with the page. A new key starts from an
// empty state, because another principal's tools and results must not be visible to it.

export const state = {
  token: '',
  executeEnabled: window.executeEnabled === true,
  /** loading | ready | signin | error | idle (a new key that has not been used yet) */
  status: 'loading',
  problem: '',
  tools: [],
  skipped: 0,
  selected: undefined,
  query: '',
  filters: new Map(),
};

const listeners = new Map();

/** Events: `tools` (list or its status), `filter`, `select`, `token`, `execute`. */
export function on(event, listener) {
  if (!listeners.has(event)) listeners.set(event, []);
  listeners.get(event).push(listener);
}

export function emit(event, value) {
  for (const listener of listeners.get(event) ?? []) listener(value);
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

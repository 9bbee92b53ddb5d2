// What the page knows. Everything here lives in memory and is gone with the page; a new key starts
// from nothing, because another principal's tools and results are not this one's to see.

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

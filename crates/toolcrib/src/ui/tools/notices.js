// The content of the right pane when no tool is open: an overview, a problem.
import { html, number, plural } from '../lib/ui.js';
import { classification } from '../lib/danger.js';
import { state } from '../state.js';

const isApple = /^(Mac|iP)/.test(navigator.platform);

/** `actions` is the row of buttons. */
export function Notice({ title, actions, children, more }) {
  return html`<div class="card" role="alert">
    <h2>${title}</h2>
    <p>${children}</p>
    <div class="row">${actions}</div>
    ${more}
  </div>`;
}

export function Overview() {
  if (state.status !== 'ready' || state.tools.length === 0) return html`<div class="overview"></div>`;
  const sources = new Map();
  for (const tool of state.tools) {
    const { source } = classification(tool);
    if (source !== undefined) sources.set(source, (sources.get(source) ?? 0) + 1);
  }
  const rows = [...sources].sort(([a], [b]) => a.localeCompare(b));
  return html`<div class="overview">
    <h2>${plural(state.tools.length, 'tool')}</h2>
    <p class="muted">${
      state.executeEnabled
        ? 'Pick a tool to read its schema, check an input, run it and copy the call.'
        : 'Pick a tool to read its schema and check an input. Execution is switched off on this server.'
    }</p>
    ${
      rows.length > 0 &&
      html`<dl class="tiles">
        ${rows.map(([source, count]) => html`<div key=${source}><dt><bdi>${source}</bdi></dt><dd>${number(count)}</dd></div>`)}
      </dl>`
    }
    <dl class="keys">
      <div><dt><kbd>/</kbd></dt><dd>search</dd></div>
      <div><dt><kbd>↑</kbd> <kbd>↓</kbd></dt><dd>move in the list</dd></div>
      <div><dt><kbd>Enter</kbd></dt><dd>open a tool</dd></div>
      <div><dt><kbd>${isApple ? '⌘' : 'Ctrl'}</kbd>+<kbd>Enter</kbd></dt><dd>execute the open tool</dd></div>
    </dl>
  </div>`;
}

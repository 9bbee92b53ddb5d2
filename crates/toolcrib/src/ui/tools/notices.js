// The content of the right pane when no tool is open: sign in, an overview, a problem.
import { html, number, plural, Icon } from '../lib/ui.js';
import { classification } from '../lib/danger.js';
import { state } from '../state.js';
import { focusToken } from '../auth.js';
import { signInWith } from '../shell/session.js';

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

export function SignIn() {
  const retry = state.token !== '' && state.status === 'signin';
  const kind = state.providers.length > 0 ? '' : ' primary';
  return html`<div class="card signin" id="signin">
    <div class="card-icon"><${Icon} name="key" /></div>
    <h2>${heading(retry)}</h2>
    <${SignInProblem} />
    <${Providers} />
    <p>${
      retry
        ? 'Check that it is complete, and that it has neither expired nor been revoked.'
        : state.providers.length > 0
          ? 'This server shows each caller the tools that caller may use. Agents and scripts use a key:'
          : 'This server shows each caller the tools that caller may use, so it requires a key.'
    }</p>
    <ol>
      <li>Get a key from the operator of this server, who creates one with <code>toolcrib keys create</code>. The keys of <code>toolcrib serve --demo</code> are printed by <code>toolcrib demo keys</code>.</li>
      <li>Paste it into <strong>API key</strong> at the top of this page and press <strong>Use key</strong>.</li>
    </ol>
    <p class="muted">The key stays in this page’s memory. It is sent to this server only, and forgotten when you close or reload the page.</p>
    <div class="row">
      <button type="button" class=${`button${kind}`} onClick=${focusToken}>${retry ? 'Enter another key' : 'Enter a key'}</button>
    </div>
  </div>`;
}

function heading(retry) {
  if (retry) return 'This key was not accepted';
  return state.providers.length > 0 ? 'Sign in' : 'Sign in with an API key';
}

/** Why the last sign-in failed: in words, and below it in those of the identity provider. */
function SignInProblem() {
  if (state.signInProblem === undefined) return null;
  const { text, said } = state.signInProblem;
  return html`<div class="verdict bad" role="alert" id="sign-in-problem">
    <p>${text}</p>
    ${said && html`<p class="muted">The identity provider says: <bdi>${said}</bdi></p>`}
  </div>`;
}

function Providers() {
  if (state.providers.length === 0) return null;
  return html`<div class="row">
    ${state.providers.map(
      ({ issuer, name }) => html`<button key=${issuer} type="button" class="button primary" data-provider=${issuer}
        onClick=${() => signInWith(issuer)}>Sign in with <bdi>${name}</bdi></button>`,
    )}
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

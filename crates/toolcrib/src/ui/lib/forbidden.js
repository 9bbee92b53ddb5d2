// Shown in place of a screen that the caller may not open.
import { html } from './ui.js';

/** One of `scopes` is required; empty if the screen does not exist. */
export function Forbidden({ scopes }) {
  const isKnown = scopes.length > 0;
  return html`<div class="empty">
    <h2>${isKnown ? 'Your key does not open this screen' : 'Screen not found'}</h2>
    ${isKnown &&
    html`<p>It requires the scope ${scopes.map((scope, at) => html`${at > 0 && ' or '}<code>${scope}</code>`)}.
      An administrator of your tenant can give you a role with it.</p>`}
    <p><a href="#">Go to the tools</a></p>
  </div>`;
}

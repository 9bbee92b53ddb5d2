// What a caller reads in place of a screen that it may not open.
import { html } from './ui.js';

/** `scopes` are those of which one is required; empty if there is no such screen. */
export function Forbidden({ scopes }) {
  const isKnown = scopes.length > 0;
  return html`<div class="empty">
    <h2>${isKnown ? 'Your key does not open this screen' : 'There is no such screen'}</h2>
    ${isKnown &&
    html`<p>It requires the scope ${scopes.map((scope, at) => html`${at > 0 && ' or '}<code>${scope}</code>`)}.
      Whoever manages the keys of your tenant can give you a role with it.</p>`}
    <p><a href="#">Go to the tools</a></p>
  </div>`;
}

// The Calls tab: saved calls, calls made on this page, and calls in the record.
import { html, useReducer } from '../lib/ui.js';
import { formatMs } from '../lib/format.js';
import { hasGateway, isSignedIn } from '../shell/session.js';
import { RecentCalls } from './recent.js';
import { verdict } from './result.js';
import { removeCall, savedCalls } from './saved.js';
import { SavedRow } from './saved-row.js';
import { SharedCalls } from './shared-calls.js';

const TONES = { ok: 'green', error: 'red', waiting: 'amber', refused: 'amber', cancelled: 'grey' };

/** `calls` were made on this page. `visit` counts how often the tab was opened. */
export function Calls({ tool, calls, visit, open, rerun }) {
  const [, drawAgain] = useReducer((turn) => turn + 1, 0);
  const remove = (name) => {
    removeCall(tool.name, name);
    drawAgain();
  };
  const saved = savedCalls(tool.name);
  return html`
    <section class="sub" aria-label="Saved calls">
      <h3>Saved in this browser</h3>
      ${
        saved.length === 0
          ? html`<p class="muted">No saved calls yet. “Save call” under the arguments keeps them here, without secrets.</p>`
          : html`<ul class="history saved">
              ${saved.map(
                ({ name, args }) =>
                  html`<${SavedRow} key=${name} ...${{ tool, name, args, open, rerun }} remove=${() => remove(name)} />`,
              )}
            </ul>`
      }
    </section>
    ${hasGateway && isSignedIn() && html`<${SharedCalls} ...${{ tool, visit, open, rerun }} />`}
    <section class="sub" aria-label="Calls on this page">
      <h3>On this page</h3>
      ${
        calls.length === 0
          ? html`<p class="muted">Calls you make are listed here until the page is closed. They are not stored.</p>`
          : html`<ol class="history">${calls.map((call) => html`<${Call} ...${call} open=${open} rerun=${rerun} />`)}</ol>`
      }
    </section>
    <${RecentCalls} tool=${tool} visit=${visit} />`;
}

function Call({ body, outcome, at, open, rerun }) {
  const word = verdict(outcome);
  const { reply } = outcome;
  const facts = [reply ? `HTTP ${reply.status}` : undefined, formatMs(reply?.ms ?? outcome.ms)];
  return html`<li>
    <span class=${`badge ${TONES[word]}`}>${word}</span>
    <time datetime=${at.toISOString()}>${at.toLocaleTimeString()}</time>
    <span class="muted nowrap">${facts.filter(Boolean).join(' · ')}</span>
    <code class="args">${body.slice(0, 300)}</code>
    <span class="row">
      <button type="button" class="quiet" onClick=${() => open(body, outcome)}>Open</button>
      <button type="button" class="quiet" onClick=${() => rerun(body)}>Run again</button>
    </span>
  </li>`;
}

// The marks under the name of an open tool: how dangerous it is, and the unverified hints of its
// upstream (`annotations`).
import { html, Level } from '../lib/ui.js';
import { own } from '../json.js';
import { dangersOf, needsApproval } from '../lib/danger.js';

const HINTS = [
  {
    name: 'readOnlyHint',
    value: true,
    label: 'read-only',
    color: 'green',
    title: 'The upstream says: makes no changes',
  },
  {
    name: 'idempotentHint',
    value: true,
    label: 'idempotent',
    color: 'blue',
    title: 'The upstream says: repeating a call has no further effect',
  },
  {
    name: 'openWorldHint',
    value: false,
    label: 'closed world',
    color: 'grey',
    title: 'The upstream says: talks to no outside system',
  },
];

export function Badges({ tool }) {
  const hints = HINTS.filter(({ name, value }) => own(tool.annotations, name) === value);
  return html`<div class="badges">
    ${dangersOf(tool).map((level) => html`<${Level} key=${level} of=${level} />`)}
    ${
      needsApproval(tool) &&
      html`<span class="badge violet" title="Calls wait until a person agrees">needs approval</span>`
    }
    ${hints.map(
      ({ label, color, title }) =>
        html`<span key=${label} class=${`badge ${color} hint`} title=${title}>${label}</span>`,
    )}
  </div>`;
}

// The tools of a source that are new or changed.
import { html, plural, useData, Loaded } from '../lib/ui.js';
import { Change } from '../lib/pin-change.js';

export function Changes({ source, onApproved }) {
  const found = useData('/v1/pins');
  return html`<section class="panel padded">
    <h3>Changed tools</h3>
    <${Loaded} of=${found} rows=${2}>
      ${({ pins }) => {
        const waiting = pins.filter((it) => it.sourceId === source && it.state !== 'approved');
        if (waiting.length === 0)
          return html`<p class="muted">Every tool has its approved form.</p>`;
        return html`<p class="note">
            ${plural(waiting.length, 'tool differs', 'tools differ')} from the approved form. A changed
            description or schema can turn a harmless tool into another one: read what changed first.
          </p>
          ${waiting.map(
            (pin) => html`<${Change} key=${pin.toolId} pin=${pin}
              onApproved=${() => {
                found.reload();
                onApproved();
              }} />`,
          )}`;
      }}
    <//>
  </section>`;
}

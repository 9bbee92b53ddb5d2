// The calls of a tool that people saved on the server, for everyone of their tenant who may use it.
import { html, useData, useState, Loaded, Time } from '../lib/ui.js';
import { RemoveShared } from '../lib/shared-item.js';
import { SavedRow } from './saved-row.js';

/** `visit` counts how often the tab was opened: each time the calls are loaded again. */
export function SharedCalls({ tool, visit, open, rerun }) {
  const found = useData(`/v1/saved?kind=call&tool=${encodeURIComponent(tool.name)}`, { key: String(visit) });
  const [removing, setRemoving] = useState();
  return html`<section class="sub" aria-label="Shared calls">
    ${removing && html`<${RemoveShared} item=${removing} words="call" onClose=${() => setRemoving()} onRemoved=${found.reload} />`}
    <h3>Saved for everyone</h3>
    <${Loaded} of=${found} rows=${1}>
      ${({ saved }) =>
        saved.length === 0
          ? html`<p class="muted">No shared calls yet. “Save call” can keep one for everyone of your tenant who may use this tool.</p>`
          : html`<ul class="history saved shared">${saved.map((it) => html`<${Shared} key=${it.id} ...${{ it, tool, open, rerun }} onRemove=${() => setRemoving(it)} />`)}</ul>`}
    <//>
  </section>`;
}

function Shared({ it, tool, open, rerun, onRemove }) {
  const { name, savedBy, savedAt, canRemove } = it;
  const note = html`by <bdi>${savedBy}</bdi>, <${Time} at=${savedAt} />`;
  if (it.arguments === undefined)
    return html`<li data-saved=${name}>
      <bdi class="strong">${name}</bdi> <span class="muted">${note}</span>
      <span class="bad">cannot be read: the server does not have the key that sealed it</span>
      ${canRemove && html`<button type="button" class="quiet" aria-label=${`Remove ${name}`} onClick=${onRemove}>Remove</button>`}
    </li>`;
  return html`<${SavedRow} ...${{ tool, name, note, open, rerun }} args=${it.arguments} remove=${canRemove ? onRemove : undefined} />`;
}

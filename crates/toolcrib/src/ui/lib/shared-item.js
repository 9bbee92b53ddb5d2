// Removes an item saved for the whole tenant (`/v1/saved`), after a confirmation.
import { html, announce, send, useState, Button, Dialog, Problem } from './ui.js';

/** `words` names the kind: "view", "call". `onRemoved` is called after the removal. */
export function RemoveShared({ item, words, onClose, onRemoved }) {
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  const remove = async () => {
    setBusy(true);
    const reply = await send('DELETE', `/v1/saved/${encodeURIComponent(item.id)}`);
    setBusy(false);
    // A missing item (404) is the result that the user wants.
    if (reply.problem !== undefined && reply.status !== 404) return setProblem(reply.problem);
    announce(`The ${words} is removed`);
    onRemoved();
    return onClose();
  };
  return html`<${Dialog} title=${`Remove the ${words}`} onClose=${onClose}>
    <p>This removes <bdi class="strong">${item.name}</bdi> for everyone of the tenant.</p>
    ${problem && html`<${Problem} text=${problem} />`}
    <div class="row end"><${Button} kind="danger" data-confirm="remove" busy=${busy} onClick=${remove}>Remove<//></div>
  <//>`;
}

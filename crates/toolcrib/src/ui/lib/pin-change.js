// The changes of a tool since its approval: both forms side by side, and buttons to approve the new one.
import { html, useState, send, useData, Badge, Button, Loaded, Problem, Time } from './ui.js';
import { visible } from '../json.js';
import { ToolName } from './links.js';
import { differences } from './diff.js';

export function Change({ pin, onApproved }) {
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState();
  const detail = useData(`/v1/pins?tool=${encodeURIComponent(pin.toolId)}`, { enabled: open });
  const approve = async (earlier) => {
    setBusy(true);
    const reply = await send('POST', '/v1/pins/approve', {
      tools: [{ toolId: pin.toolId, digest: pin.seen.digest, earlier }],
    });
    setBusy(false);
    setProblem(reply.problem);
    if (reply.problem === undefined) onApproved();
  };
  return html`<article class="panel padded" data-pin=${pin.toolId}>
    <div class="row">
      <${ToolName} name=${pin.name} style="mono strong" />
      <${Badge} tone=${pin.state === 'new' ? 'blue' : 'violet'}>${pin.state}<//>
      ${pin.quarantined && html`<${Badge} tone="red">in quarantine<//>`}
      ${pin.seen && html`<span class="muted">seen <${Time} at=${pin.seen.at} /></span>`}
    </div>
    <div class="row">
      <${Button} aria-expanded=${open} onClick=${() => setOpen(!open)}>
        ${open ? 'Hide the forms' : 'Show what changed'}
      <//>
      ${pin.seen &&
      html`<${Button} kind="primary" busy=${busy} disabled=${!open} data-approve=${pin.toolId}
        title=${open ? undefined : 'Read what changed first'} onClick=${() => approve('replace')}>Approve this form<//>`}
      ${pin.seen && pin.approved &&
      html`<${Button} busy=${busy} disabled=${!open} data-approve-also=${pin.toolId}
        title=${open ? 'For a tool that alternates between forms' : 'Read what changed first'}
        onClick=${() => approve('keep')}>Approve, and keep the earlier form<//>`}
    </div>
    ${pin.state === 'changed' && pin.changeCount > 1 &&
    html`<p class="muted">It has changed ${pin.changeCount} times. If its forms return, keep the earlier
      ones approved.</p>`}
    ${open &&
    html`<${Loaded} of=${detail} rows=${4}>
      ${({ pins }) => html`<${Forms} pin=${pins[0]} />`}
    <//>`}
    ${problem && html`<${Problem} text=${problem} />`}
  </article>`;
}

function Forms({ pin }) {
  const rows = differences(text(pin?.approved), text(pin?.seen));
  return html`<div class="table-box diff" tabindex="0" role="region" aria-label="Approved and current form">
    <table>
      <thead><tr><th>Approved</th><th>Now</th></tr></thead>
      <tbody>
        ${rows.map(
          ([before, after, kind], at) => html`<tr key=${at} class=${kind}>
            <td>${before !== undefined && html`<code>${kind === 'same' ? '  ' : '− '}${before}</code>`}</td>
            <td>${after !== undefined && html`<code>${kind === 'same' ? '  ' : '+ '}${after}</code>`}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function text(moment) {
  const form = moment?.document;
  return form === undefined ? '' : visible(form);
}

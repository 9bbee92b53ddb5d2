// The forms of a tool that this server knows: the approved one, the current one of its source, and earlier
// ones. Of earlier forms the record has the digest; their text is not kept.
import { html, useEffect, useState, useData, Badge, Loaded, Time } from '../lib/ui.js';
import { Person } from '../lib/links.js';
import { Change } from '../lib/pin-change.js';
import { own } from '../json.js';
import { may } from '../state.js';
import { newestEvents } from './recent.js';

export function Versions({ toolId }) {
  const found = useData(`/v1/pins?tool=${encodeURIComponent(toolId)}`);
  const [events, setEvents] = useState([]);
  useEffect(() => {
    if (!may('audit:read')) return undefined;
    let over = false;
    newestEvents(toolId, 'tool.pin.*').then((page) => !over && setEvents(own(page, 'events') ?? []));
    return () => {
      over = true;
    };
  }, [toolId, found.data]);
  return html`<section class="panel-box wide" aria-label="Versions">
    <h3>Versions</h3>
    <${Loaded} of=${found} rows=${2}>
      ${({ pins }) => {
        const pin = pins?.[0];
        if (pin === undefined)
          return html`<p class="muted">Tools of this source are not pinned, so only the form that you
            see here is known.</p>`;
        const changed = pin.state !== 'approved';
        return html`
          ${
            changed
              ? html`<p>It differs from the approved form. A changed description or schema can turn a
                  harmless tool into another one.</p>`
              : html`<p class="row">
                  <${Badge} tone="green">approved<//>
                  ${pin.quarantined && html`<${Badge} tone="red">in quarantine<//>`}
                  <span>It has the form that was approved <${Time} at=${pin.approved?.at} />.</span>
                </p>`
          }
          <${Table} forms=${formsOf(pin, events, toolId)} />
          ${changed && html`<${Change} pin=${pin} onApproved=${found.reload} />`}`;
      }}
    <//>
  </section>`;
}

function Table({ forms }) {
  const earlier = forms.some(({ now }) => now.length === 0);
  return html`<div class="table-box" tabindex="0" role="region" aria-label="Versions of the tool">
      <table data-versions>
        <thead><tr><th>Form</th><th>Seen</th><th>Approved</th><th>Now</th></tr></thead>
        <tbody>
          ${forms.map(
            ({ digest, seen, approved, by, now }) => html`<tr key=${digest} data-digest=${digest}>
              <td><code title=${digest}>${digest.slice(0, 12)}</code></td>
              <td>${seen === undefined ? html`<span class="muted">with its approval</span>` : html`<${Time} at=${seen} />`}</td>
              <td>${
                approved === undefined
                  ? html`<span class="muted">no</span>`
                  : html`<${Time} at=${approved} />${approver(by)}`
              }</td>
              <td>${now.map((word) => html`<${Badge} key=${word} tone=${word === 'approved' ? 'green' : 'blue'}>${word}<//> `)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    <p class="muted">${
      earlier
        ? 'Of earlier forms the record has the digest; their text is not kept.'
        : may('audit:read')
          ? 'The newest 1 000 events of your tenant name no earlier form.'
          : 'Earlier forms are in the record, which requires the scope audit:read.'
    }</p>`;
}

/** A principal of another tenant, whose name is hidden here. */
const OTHER_TENANT = Symbol('another tenant');

function approver(by) {
  if (by === OTHER_TENANT) return ', from outside your tenant';
  return by === undefined ? ', trusted on first use' : html` by <${Person} name=${by} />`;
}

/** The known forms, the newest first. */
function formsOf(pin, events, toolId) {
  const forms = new Map();
  const form = (digest) => {
    if (!forms.has(digest)) forms.set(digest, { digest, now: [] });
    return forms.get(digest);
  };
  // In the order of the record, so that the last approval counts.
  for (const entry of events) {
    const event = own(entry, 'event');
    const payload = own(event, 'payload');
    if (own(payload, 'toolId') !== toolId) continue;
    if (event.type === 'tool.pin.drifted') form(payload.seen).seen ??= event.timestamp;
    if (event.type === 'tool.pin.approved')
      Object.assign(form(payload.approved), {
        approved: event.timestamp,
        by: own(payload, 'principal') ?? OTHER_TENANT,
      });
  }
  const approved = [pin.approved, ...(pin.earlier ?? [])].filter(Boolean);
  for (const { digest, at, by, byOtherTenant } of approved) {
    Object.assign(form(digest), { approved: at, by: byOtherTenant ? OTHER_TENANT : by });
    form(digest).now.push('approved');
    // Of several approved forms, the pin does not say which one the source shows now.
    if (!pin.seen && approved.length === 1) form(digest).now.push('current');
  }
  if (pin.seen) {
    form(pin.seen.digest).seen ??= pin.seen.at;
    form(pin.seen.digest).now.push('current');
  }
  const at = ({ seen, approved }) => Math.max(Date.parse(seen) || 0, Date.parse(approved) || 0);
  return [...forms.values()].sort((a, b) => at(b) - at(a));
}

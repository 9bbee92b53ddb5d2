// The clients that act for people after a sign-in in a browser: the caller's own, or those of everyone in the
// tenant.
import {
  html,
  useEffect,
  useRef,
  useState,
  announce,
  plural,
  send,
  useData,
  useTick,
  Badge,
  Dialog,
  Empty,
  Loaded,
  Problem,
  Time,
} from '../lib/ui.js';
import { Person } from '../lib/links.js';

/** The scope for the clients of other people. */
export const MANAGE_CLIENTS = 'keys:manage';

/** How long a use is known, in ms: about as long as the server keeps the access tokens. */
const KNOWN = 24 * 60 * 60 * 1000;

export function Clients({ who, all }) {
  const found = useData(all ? '/v1/clients?all=true' : '/v1/clients');
  const [ending, setEnding] = useState();
  const box = useRef();
  const ended = useRef(false);
  useEffect(() => {
    if (!ended.current) return;
    ended.current = false;
    box.current?.focus({ preventScroll: true }); // the focused row was removed
  }, [found.data]);
  useTick();
  return html`<div>
    <div class="screen-head">
      <div>
        <h2>Connections</h2>
        <p>
          ${all
            ? html`The clients that people in <bdi>${who.tenant}</bdi> signed in with. They act for these people.`
            : 'The clients that you signed in with. They act for you, with your rights, until you end their access.'}
        </p>
      </div>
    </div>
    ${ending &&
    html`<${End} it=${ending} who=${who} onClose=${() => setEnding()}
      onEnded=${() => {
        ended.current = true;
        found.reload();
      }} />`}
    <div ref=${box} tabindex="-1">
      <${Loaded} of=${found}>
        ${({ clients }) =>
          clients.length === 0
            ? html`<${Empty} title="No clients">
                <p class="muted" id="no-clients">
                  ${all
                    ? 'No client acts for anyone.'
                    : 'You have not signed in with a client. Clients with a key are not listed here.'}
                </p>
              <//>`
            : html`<div class="bar"><span class="muted">${plural(clients.length, 'client')}</span></div>
                <div class="table-box" tabindex="0" role="region" aria-label="Clients">
                  <table class="table">
                    <thead>
                      <tr>
                        <th>Client</th><th>Id</th><th>Vouched for by</th>${all && html`<th>Acts for</th>`}<th>Since</th>
                        <th>Last used</th><th>Expires</th><th>Actions</th>
                      </tr>
                    </thead>
                    <tbody>
                      ${clients.map(
                        (it) => html`<${Row} key=${it.id} it=${it} all=${all} onEnd=${() => setEnding(it)} />`,
                      )}
                    </tbody>
                  </table>
                </div>`}
      <//>
    </div>
  </div>`;
}

function Row({ it, all, onEnd }) {
  return html`<tr data-client-grant=${it.id}>
    <td><bdi class="strong">${it.name}</bdi></td>
    <td class="wrap"><code>${it.clientId}</code></td>
    <td><${Voucher} of=${it} /></td>
    ${all && html`<td><${Person} name=${it.principal} /></td>`}
    <td><${Time} at=${it.createdAt} />${it.by === 'assertion' && ', by an assertion'}</td>
    <td><${Time} at=${it.lastUsedAt} fallback=${unused(it)} /></td>
    <td><${Time} at=${it.expiresAt} /></td>
    <td class="nowrap">
      <button type="button" class="quiet" data-end onClick=${onEnd}>
        End access<span class="sr"> of ${it.name}</span>
      </button>
    </td>
  </tr>`;
}

/** Who says that the client is what its name says. */
function Voucher({ of }) {
  if (of.vouchedBy === 'host') return html`<bdi class="mono">${of.host}</bdi>`;
  if (of.vouchedBy === 'operator') return 'the operator';
  return html`<${Badge} tone="amber">itself<//>`;
}

/** What is known of a client without a last use. */
function unused({ createdAt }) {
  return Date.now() - Date.parse(createdAt) < KNOWN ? 'not yet' : 'over a day ago';
}

function End({ it, who, onClose, onEnded }) {
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  const end = async (event) => {
    event.preventDefault();
    setBusy(true);
    const reply = await send('DELETE', `/v1/clients/${encodeURIComponent(it.id)}`);
    setBusy(false);
    // A missing client (404) is the result that the user wants.
    const failed = reply.status === 404 ? undefined : reply.problem;
    setProblem(failed);
    if (failed !== undefined) return;
    announce('The access has ended');
    onEnded();
    onClose();
  };
  const isOwn = it.principal === who.principal;
  return html`<${Dialog} title="End the access of a client" onClose=${onClose}>
    <form class="form" onSubmit=${end}>
      <p>
        <bdi class="strong">${it.name}</bdi> stops acting for ${isOwn ? 'you' : html`<bdi>${it.principal}</bdi>`} at
        once, on every server. It can ask ${isOwn ? 'you' : 'this person'} to sign in again.
      </p>
      ${problem && html`<${Problem} text=${problem} />`}
      <div class="row end">
        <button class="button danger" disabled=${busy} data-confirm="end-client">End the access</button>
      </div>
    </form>
  <//>`;
}

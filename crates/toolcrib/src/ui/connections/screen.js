// Connections: the accounts that calls act with, at the services of the sources, and the clients that act for
// people.
import {
  html,
  useEvents,
  useState,
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
import { Forbidden } from '../lib/forbidden.js';
import { Person, SourceName } from '../lib/links.js';
import { href } from '../lib/address.js';
import { may } from '../state.js';
import { Clients, MANAGE_CLIENTS } from './clients.js';
import { Consent } from './consent.js';
import { Returned } from './returned.js';

const MANAGE = 'connections:manage';

const STATES = {
  active: ['green', 'connected'],
  needs_consent: ['amber', 'connect again'],
  absent: ['grey', 'not connected'],
};

export function Connections({ route, who }) {
  const [part, name] = route.path;
  if (part === 'returned') return html`<${Returned} />`;
  if (part === 'link') return html`<${Consent} key=${name} wanted=${{ link: name }} who=${who} />`;
  if (part === 'new' && name) {
    const isOfTenant = route.query.get('of') === 'tenant';
    const wanted = isOfTenant ? { source: name, tenant: true } : { source: name };
    return html`<${Consent} key=${`${name} ${isOfTenant}`} wanted=${wanted} who=${who} />`;
  }
  const open = PARTS.find(({ path }) => path.join('/') === route.path.join('/')) ?? PARTS[0];
  const { scope, view, all } = open;
  return html`<div>
    <${Parts} open=${open} />
    ${scope !== undefined && !may(scope)
      ? html`<${Forbidden} scopes=${[scope]} />`
      : html`<${view} key=${open.name} who=${who} all=${all} />`}
  </div>`;
}

const PARTS = [
  { path: [], name: 'Accounts', view: List, all: false },
  { path: ['all'], name: 'Everyone’s accounts', view: List, all: true, scope: MANAGE },
  { path: ['clients'], name: 'Clients', view: Clients, all: false },
  { path: ['clients', 'all'], name: 'Everyone’s clients', view: Clients, all: true, scope: MANAGE_CLIENTS },
];

function Parts({ open }) {
  return html`<nav class="row parts" aria-label="Parts of this screen">
    ${PARTS.filter(({ scope }) => scope === undefined || may(scope)).map(
      (it) => html`<a key=${it.name} class="button" href=${href('connections', it.path)}
        data-part=${['connections', ...it.path].join('-')} aria-current=${it === open ? 'page' : undefined}>${it.name}</a>`,
    )}
  </nav>`;
}

/** The caller's own accounts, or those of everyone in the tenant. */
function List({ who, all }) {
  const found = useData(all ? '/v1/connections?all=true' : '/v1/connections');
  const [ending, setEnding] = useState();
  useEvents(['live:catalog', 'live:open'], found.reload);
  useTick();
  return html`<div>
    <div class="screen-head">
      <div>
        <h2>Connections</h2>
        <p>
          ${all
            ? html`The accounts that are connected in <bdi>${who.tenant}</bdi>. Their tokens are never shown.`
            : 'Accounts at other services that your tools act with. No one sees their tokens.'}
        </p>
      </div>
    </div>
    ${ending && html`<${Disconnect} it=${ending} who=${who} onClose=${() => setEnding()} onChanged=${found.reload} />`}
    <${Loaded} of=${found}>
      ${({ connections }) =>
        connections.length === 0
          ? html`<${Empty} title="No accounts">
              <p class="muted">
                ${all ? 'No account is connected yet.' : 'None of your tools needs an account of yours.'}
              </p>
            <//>`
          : html`<div class="table-box" tabindex="0" role="region" aria-label="Connections">
              <table class="table">
                <thead>
                  <tr><th>Source</th><th>State</th><th>Whose</th><th>Service</th><th>Account</th><th>Access</th><th>Connected</th><th>Last use</th><th>Actions</th></tr>
                </thead>
                <tbody>
                  ${connections.map(
                    (it) => html`<${Row} key=${it.id ?? `${it.source} ${it.of}`} it=${it} who=${who}
                      onEnd=${() => setEnding(it)} />`,
                  )}
                </tbody>
              </table>
            </div>`}
    <//>
  </div>`;
}

function Row({ it, who, onEnd }) {
  const [tone, word] = STATES[it.state] ?? ['grey', it.state];
  const isOfTenant = it.of === 'tenant';
  const isOwn = !isOfTenant && it.principal === who.principal;
  const mayConnect = isOfTenant ? may(MANAGE) : isOwn;
  return html`<tr data-connection=${it.source} data-of=${it.of}>
    <td>
      <${SourceName} name=${it.source} />
      <${Needing} it=${it} />
    </td>
    <td><${Badge} tone=${tone}>${word}<//></td>
    <td>${isOfTenant ? 'the tenant’s' : isOwn ? 'yours' : html`<${Person} name=${it.principal} />`}</td>
    <td><bdi>${it.host}</bdi></td>
    <td>${it.account ? html`<bdi>${it.account}</bdi>` : html`<span class="muted">–</span>`}</td>
    <td class="wrap">
      ${it.scopes?.map((scope) => html`<code key=${scope}>${scope}</code> `)}
      ${it.missingScopes?.length > 0 &&
      html`<span class="muted">A call also needed ${it.missingScopes.map((scope) => html`<code key=${scope}>${scope}</code> `)}</span>`}
    </td>
    <td>${it.connectedAt ? html`<${Time} at=${it.connectedAt} />` : html`<span class="muted">–</span>`}</td>
    <td>${it.id ? html`<${Time} at=${it.lastUsedAt} fallback="not yet" />` : html`<span class="muted">–</span>`}</td>
    <td class="nowrap">
      ${mayConnect &&
      html`<a class=${it.state === 'active' ? 'quiet' : 'button'} data-connect
        href=${href('connections', ['new', it.source], { of: isOfTenant ? 'tenant' : undefined })}>
        ${it.state === 'absent' ? 'Connect' : 'Connect again'}</a>`}
      ${it.id && html` <button type="button" class="quiet" data-disconnect onClick=${onEnd}>Disconnect</button>`}
      ${!mayConnect && !it.id && html`<span class="muted">An administrator connects it.</span>`}
    </td>
  </tr>`;
}

/** The tools of the caller that need the account. */
function Needing({ it }) {
  if (it.tools === 0) return undefined;
  const more = it.tools - it.toolNames.length;
  return html`<details data-needing>
    <summary>${plural(it.tools, 'tool')}</summary>
    <ul class="plain">
      ${it.toolNames.map((name) => html`<li key=${name}><bdi class="mono">${name}</bdi></li>`)}
      ${more > 0 && html`<li>and ${more} more</li>`}
    </ul>
  </details>`;
}

function Disconnect({ it, who, onClose, onChanged }) {
  const [problem, setProblem] = useState();
  const [isUntold, setUntold] = useState(false);
  const [busy, setBusy] = useState(false);
  const end = async (event) => {
    event.preventDefault();
    setBusy(true);
    const reply = await send('DELETE', `/v1/connections/${encodeURIComponent(it.id)}`);
    setBusy(false);
    // A missing account (404) is the result that the user wants.
    const failed = reply.status === 404 ? undefined : reply.problem;
    setProblem(failed);
    if (failed !== undefined) return;
    onChanged();
    if (reply.data?.revoked === false) setUntold(true);
    else onClose();
  };
  if (isUntold)
    return html`<${Dialog} title="The account is disconnected" onClose=${onClose}>
      <p id="connection-untold">
        This server has forgotten its tokens, but <bdi>${it.host}</bdi> did not confirm that it ended them. To be
        sure, end the access in the settings of the account there.
      </p>
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Close</button></div>
    <//>`;
  const isOwn = it.of === 'principal' && it.principal === who.principal;
  return html`<${Dialog} title="Disconnect the account" onClose=${onClose}>
    <form class="form" onSubmit=${end}>
      <p>
        The tools of <bdi class="mono">${it.source}</bdi> stop acting with${' '}
        ${it.of === 'tenant' ? 'the account of the tenant' : isOwn ? 'your account' : html`the account of <bdi>${it.principal}</bdi>`}${' '}
        at <bdi>${it.host}</bdi>. The server forgets its tokens, and then asks the service to end them. The
        service may list this access a while longer.
      </p>
      ${problem && html`<${Problem} text=${problem} />`}
      <div class="row end">
        <button class="button danger" disabled=${busy} data-confirm="disconnect">Disconnect</button>
      </div>
    </form>
  <//>`;
}

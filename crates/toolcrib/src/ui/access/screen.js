// Access: who may do what.
import {
  html,
  useEffect,
  useRef,
  useState,
  ago,
  plural,
  send,
  useData,
  useTick,
  Badge,
  Button,
  Dialog,
  Empty,
  Loaded,
  Problem,
  Time,
} from '../lib/ui.js';
import { useDraft } from '../lib/drafts.js';
import { Forbidden } from '../lib/forbidden.js';
import { Person, RoleName } from '../lib/links.js';
import { href } from '../lib/address.js';
import { go } from '../shell/routes.js';
import { may } from '../state.js';
import { NewKey, Secret } from './new-key.js';
import { Roles } from './roles.js';
import { Sessions } from './sessions.js';

const PARTS = [
  ['keys', 'Keys', 'keys:manage'],
  ['roles', 'Roles', 'roles:read'],
  ['sessions', 'Sign-ins'],
];

export function Access({ route, who }) {
  const tabs = PARTS.filter(([, , scope]) => scope === undefined || may(scope));
  const wanted = PARTS.find(([id]) => id === route.path[0]) ?? tabs[0];
  const [open, , scope] = wanted ?? [];
  const isOpen = scope === undefined || may(scope);
  const name = route.path[1];
  return html`<div>
    ${tabs.length > 1 &&
    html`<nav class="row parts" aria-label="Parts of this screen">
      ${tabs.map(
        ([id, name]) => html`<a key=${id} class="button" href=${href('access', [id])} data-part=${id}
          aria-current=${id === open ? 'page' : undefined}>${name}</a>`,
      )}
    </nav>`}
    ${!isOpen && html`<${Forbidden} scopes=${[scope]} />`}
    ${isOpen && open === 'keys' && html`<${Keys} key=${name ?? ''} who=${who} id=${name} query=${route.query} />`}
    ${isOpen && open === 'sessions' && html`<${Sessions} who=${who} />`}
    ${isOpen && open === 'roles' && html`<h2>Access</h2><${Roles} key=${name ?? ''} name=${name} />`}
  </div>`;
}

/** The keys of the tenant, or only the key `id`. An address can open the form for a key with a role. */
function Keys({ who, id, query }) {
  const found = useData('/v1/keys');
  const [making, setMaking] = useDraft('new key open', false);
  const isAsked = query.get('new') === 'key';
  const role = query.get('role') ?? undefined;
  useEffect(() => isAsked && setMaking(true), [isAsked, role]);
  const close = () => {
    setMaking(false);
    if (isAsked) go('access', ['keys'], {}, { replace: true });
  };
  const [all, setAll] = useState(false);
  // Not state of a row: a rotated key leaves the list while its successor is shown.
  const [asking, setAsking] = useState();
  const box = useRef();
  const revoked = useRef(false);
  useEffect(() => {
    if (!revoked.current) return;
    revoked.current = false;
    box.current?.focus({ preventScroll: true }); // the focused row was removed
  }, [found.data]);
  useTick();
  return html`<div>
    <div class="screen-head">
      <div>
        <h2>Access</h2>
        <p>The keys of <bdi>${who.tenant}</bdi>. A key is shown once, when it is created.</p>
      </div>
      <${Button} kind="primary" id="new-key" onClick=${() => setMaking(true)}>Create a key<//>
    </div>
    ${making &&
    html`<${NewKey} key=${role} who=${who} role=${role} onClose=${close} onCreated=${found.reload} />`}
    ${asking?.what === 'rotate' &&
    html`<${Rotate} it=${asking.key} onClose=${() => setAsking()} onChanged=${found.reload} />`}
    ${asking?.what === 'revoke' &&
    html`<${Revoke} it=${asking.key} own=${asking.key.id === who.keyId} onClose=${() => setAsking()}
      onChanged=${() => {
        revoked.current = true;
        found.reload();
      }} />`}
    <${Loaded} of=${found}>
      ${({ keys }) => {
        const usable = keys.filter((key) => stateOf(key) === 'active');
        const shown = id !== undefined ? keys.filter((key) => key.id === id) : all ? keys : usable;
        if (id !== undefined && shown.length === 0)
          return html`<${Empty} title="Key not found">
            <p class="muted">The link may be incomplete, or the key belongs to another tenant.</p>
            <p><a href=${href('access', ['keys'])}>All keys</a></p>
          <//>`;
        if (keys.length === 0)
          return html`<${Empty} title="No keys yet"><p class="muted">Create the first one.</p><//>`;
        return html`${id !== undefined && html`<p><a href=${href('access', ['keys'])}>All keys</a></p>`}
          ${id === undefined && html`<div class="bar">
            <span class="muted">${plural(usable.length, 'active key')}</span>
            <label class="check">
              <input type="checkbox" checked=${all} onChange=${(event) => setAll(event.target.checked)} />
              Show revoked and expired keys
            </label>
          </div>`}
          <div class="table-box" ref=${box} tabindex="0" role="region" aria-label="Keys">
            <table class="table">
              <thead>
                <tr>
                  <th>Name</th><th>Principal</th><th>State</th><th>Roles and scopes</th><th>Last used</th>
                  <th>Created</th><th>Expires</th><th>Actions</th>
                </tr>
              </thead>
              <tbody>
                ${shown.map(
                  (key) => html`<${Row} key=${key.id} it=${key} own=${key.id === who.keyId}
                    onAsk=${(what) => setAsking({ what, key })} />`,
                )}
              </tbody>
            </table>
          </div>`;
      }}
    <//>
  </div>`;
}

function stateOf(key) {
  if (key.revokedAt) return 'revoked';
  if (key.expiresAt && new Date(key.expiresAt) <= new Date()) return 'expired';
  return 'active';
}

function Row({ it, own, onAsk }) {
  const state = stateOf(it);
  const tone = { active: 'green', revoked: 'red', expired: 'grey' }[state];
  return html`<tr data-key=${it.id}>
    <td><bdi class="strong">${it.name}</bdi>${own && html` <${Badge} tone="blue">yours<//>`}</td>
    <td><${Person} name=${it.principal} /></td>
    <td><${Badge} tone=${tone}>${state}<//></td>
    <td class="wrap">
      ${it.roles.map((role) => html`<${Badge} key=${role}><${RoleName} name=${role} /><//> `)}
      ${it.scopes.map((scope) => html`<code key=${scope}>${scope}</code> `)}
    </td>
    <td><${Time} at=${it.lastUsedAt} /></td>
    <td><${Time} at=${it.createdAt} /></td>
    <td>${it.expiresAt ? html`<${Time} at=${it.expiresAt} />` : html`<span class="muted">never</span>`}</td>
    <td class="nowrap">
      ${state === 'active' &&
      html`<button type="button" class="quiet" onClick=${() => onAsk('rotate')}>Rotate</button>
        <button type="button" class="quiet" onClick=${() => onAsk('revoke')}>Revoke</button>`}
    </td>
  </tr>`;
}

function Rotate({ it, onClose, onChanged }) {
  const [overlap, setOverlap] = useState('3600');
  const [made, setMade] = useState();
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  const rotate = async (event) => {
    event.preventDefault();
    setBusy(true);
    const reply = await send('POST', `/v1/keys/${encodeURIComponent(it.id)}/rotate`, {
      overlapSeconds: Number(overlap),
    });
    setBusy(false);
    setProblem(reply.problem);
    if (reply.problem !== undefined) return;
    setMade(reply.data);
    onChanged();
  };
  return html`<${Dialog} title=${`Rotate ${it.name}`} onClose=${onClose}>
    ${made
      ? html`<${Secret} text=${made.key}
          note=${`The old key ${made.oldKeyEndsAt ? `works until ${ago(new Date(made.oldKeyEndsAt))}` : 'has stopped working'}.`} />`
      : html`<form class="form" onSubmit=${rotate}>
          <p class="note">
            You get a new key with the same principal, roles and scopes. Both keys work for a while,
            so that you can replace the old one without an outage.
          </p>
          <label>
            <span class="label">The old key works for another</span>
            <select class="input" value=${overlap} onChange=${(event) => setOverlap(event.target.value)}>
              <option value="0">moment: it expires at once</option>
              <option value="3600">hour</option>
              <option value="86400">day</option>
              <option value="604800">week</option>
            </select>
          </label>
          ${problem && html`<${Problem} text=${problem} />`}
          <div class="row end"><button class="button primary" disabled=${busy}>Rotate the key</button></div>
        </form>`}
  <//>`;
}

function Revoke({ it, own, onClose, onChanged }) {
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  const revoke = async (event) => {
    event.preventDefault();
    setBusy(true);
    const reply = await send('DELETE', `/v1/keys/${encodeURIComponent(it.id)}`);
    setBusy(false);
    setProblem(reply.problem);
    if (reply.problem !== undefined) return;
    onChanged();
    onClose();
  };
  return html`<${Dialog} title=${`Revoke ${it.name}`} onClose=${onClose}>
    <form class="form" onSubmit=${revoke}>
      <p>
        Requests with this key are refused from now on, on every server. This cannot be undone.
        ${own && html` <strong>It is the key that you are signed in with.</strong>`}
      </p>
      ${problem && html`<${Problem} text=${problem} />`}
      <div class="row end">
        <button class="button danger" disabled=${busy} data-confirm="revoke">Revoke the key</button>
      </div>
    </form>
  <//>`;
}

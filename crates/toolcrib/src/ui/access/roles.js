// The roles, and the tools that each of them sees.
import { html, useState, plural, useData, Badge, Button, Danger, Dialog, Empty, Loaded } from '../lib/ui.js';
import { Proposal, ProposalDialog } from '../lib/proposal.js';
import { href } from '../lib/address.js';
import { useDraft } from '../lib/drafts.js';
import { SourceName, ToolName } from '../lib/links.js';
import { may } from '../state.js';
import { words } from '../lib/key-form.js';

export function Roles({ name }) {
  const [turn, setTurn] = useState(0);
  const found = useData('/v1/roles', { key: String(turn) });
  const config = useData('/v1/config', { enabled: may('config:write') });
  const [asking, setAsking] = useDraft('roles dialog');
  const onWritten = () => {
    config.reload();
    for (const ms of [300, 1_000, 3_000, 8_000]) setTimeout(() => setTurn((it) => it + 1), ms);
  };
  if (name !== undefined) return html`<${One} name=${name} config=${config.data} onWritten=${onWritten} />`;
  return html`<section>
    <div class="screen-head">
      <p class="muted">A role is a name for scopes. Keys have roles.</p>
      ${config.data && html`<${Button} kind="primary" id="new-role" onClick=${() => setAsking('add')}>Add a role<//>`}
    </div>
    ${config.data && asking === 'add' && html`<${RoleDialog} onClose=${() => setAsking()} onWritten=${onWritten} />`}
    <${Loaded} of=${found}>
      ${({ roles }) =>
        roles.length === 0
          ? html`<${Empty} title="No role grants anything here">
              <p class="muted">Roles are <code>[[role]]</code> tables of the configuration.</p><//>`
          : html`<div class="table-box" tabindex="0" role="region" aria-label="Roles">
              <table class="table">
                <thead><tr><th>Role</th><th class="right">Tools</th><th>Scopes</th></tr></thead>
                <tbody>
                  ${roles.map(
                    (it) => html`<tr key=${it.name} data-role=${it.name}>
                      <td><a href=${href('access', ['roles', it.name])}><bdi class="strong">${it.name}</bdi></a></td>
                      <td class="right">${it.tools}</td>
                      <td class="wrap">${it.scopes.map((scope) => html`<code key=${scope}>${scope}</code> `)}</td>
                    </tr>`,
                  )}
                </tbody>
              </table>
            </div>`}
    <//>
  </section>`;
}

function One({ name, config, onWritten }) {
  const found = useData(`/v1/roles/${encodeURIComponent(name)}`);
  const [asking, setAsking] = useDraft(`dialog of the role ${name}`);
  const settings = config?.roles?.find((it) => it.name === name);
  const done = () => {
    onWritten();
    for (const ms of [400, 1_500, 4_000, 9_000]) setTimeout(found.reload, ms);
  };
  return html`<section>
    <div class="screen-head">
      <div>
        <p><a href=${href('access', ['roles'])}>Roles</a></p>
        <h3><bdi>${name}</bdi></h3>
      </div>
      ${settings &&
      html`<div class="row">
        <${Button} data-change onClick=${() => setAsking('change')}>Change<//>
        <${Button} data-remove onClick=${() => setAsking('remove')}>Remove<//>
      </div>`}
    </div>
    ${settings && asking === 'change' && html`<${RoleDialog} role=${settings} onClose=${() => setAsking()} onWritten=${done} />`}
    ${asking === 'remove' &&
    html`<${ProposalDialog} title=${`Remove ${name}`} onClose=${() => setAsking()} onWritten=${done}
      changes=${[{ action: 'remove', kind: 'role', name }]}>
      <p class="note">Keys with this role stay and lose its scopes.</p>
    <//>`}
    ${found.status === 404
      ? html`<${Empty} title="Role not found">
          <p class="muted">
            The link may be incomplete, the role may have been removed, or it has no effect in your tenant.
          </p>
          <p><a href=${href('access', ['roles'])}>All roles</a></p>
        <//>`
      : html`<${Loaded} of=${found}>
      ${({ role, tools }) => html`<p>
          ${role.scopes.map((scope) => html`<code key=${scope}>${scope}</code> `)}
        </p>
        ${role.may.length > 0 &&
        html`<p class="muted">It may also use ${role.may.map((scope) => html`<code key=${scope}>${scope}</code> `)}</p>`}
        <p>It sees ${plural(tools.length, 'tool')}.</p>
        ${tools.length > 0 &&
        html`<div class="table-box" tabindex="0" role="region" aria-label="Tools of the role">
          <table class="table">
            <thead><tr><th>Tool</th><th>Source</th><th>Effect</th><th>Approval</th></tr></thead>
            <tbody>
              ${tools.map(
                (it) => html`<tr key=${it.toolId} data-tool=${it.name}>
                  <td><${ToolName} name=${it.name} /></td>
                  <td><${SourceName} name=${it.source} /></td>
                  <td><${Danger} tier=${it.safetyTier} destructive=${it.destructive} /></td>
                  <td>${it.approval === 'never' ? html`<span class="muted">none</span>` : html`<${Badge} tone="violet">${it.approval}<//>`}</td>
                </tr>`,
              )}
            </tbody>
          </table>
        </div>`}`}
    <//>`}
  </section>`;
}

/** Adds a role, or changes its scopes. */
function RoleDialog({ role, onClose, onWritten }) {
  const [form, setForm] = useDraft(`form of the role ${role?.name ?? ''}`, {
    name: role?.name ?? '',
    scopes: (role?.scopes ?? []).join('\n'),
    tools: '',
  });
  const { name, scopes, tools } = form;
  const set = (key) => (event) => setForm({ ...form, [key]: event.target.value });
  const [changes, setChanges] = useState();
  const submit = (event) => {
    event.preventDefault();
    // A glob may have commas.
    const named = tools.split(/\s+/).filter((it) => it !== '');
    setChanges([
      {
        action: role ? 'set' : 'add',
        kind: 'role',
        name: name.trim(),
        settings: { scopes: words(scopes) },
        ...(named.length > 0 ? { tools: named } : {}),
      },
    ]);
  };
  return html`<${Dialog} title=${role ? `Change ${role.name}` : 'Add a role'} onClose=${onClose} wide>
    ${changes
      ? html`<${Proposal} changes=${changes} onWritten=${onWritten} />`
      : html`<form class="form" onSubmit=${submit}>
          <label>
            <span class="label">Name</span>
            <input class="input" value=${name} disabled=${role !== undefined} required autofocus
              onInput=${set('name')} />
          </label>
          <label>
            <span class="label">Scopes</span>
            <textarea class="input mono" rows="5" required=${tools.trim() === ''} value=${scopes} placeholder="files:read"
              onInput=${set('scopes')}></textarea>
            <span class="hint">One on each line. A tool of source S requires tools:S unless a rule says otherwise; a final * matches everything after it.</span>
          </label>
          <label>
            <span class="label">Tools</span>
            <input class="input mono" id="role-tools" value=${tools} placeholder="files__read_*" autocomplete="off" spellcheck=${false}
              onInput=${set('tools')} />
            <span class="hint">Tool names, with * as a wildcard, separated by spaces. The role gets the scopes these tools require; the next step shows which others it would reach.</span>
          </label>
          <div class="row end"><button class="button primary" data-continue>Show what changes</button></div>
        </form>`}
  <//>`;
}

// Creates a key and shows it once.
import { html, useEffect, useRef, useState, send, Copy, Dialog, Problem, Time } from '../lib/ui.js';
import { ending, words } from '../lib/key-form.js';

/** A key that is shown once. */
export function Secret({ text, note }) {
  const element = useRef();
  // The form that had the focus is gone.
  useEffect(() => element.current.focus(), []);
  return html`<div class="form" ref=${element} tabindex="-1">
    <p class="warn">Copy the key now. It is not stored in readable form and cannot be shown again.</p>
    <div class="secret"><code data-new-key>${text}</code><${Copy} text=${text} /></div>
    ${note && html`<p class="note">${note}</p>`}
  </div>`;
}

/** The name as a principal, which has no spaces. */
const asPrincipal = (name) => name.trim().replace(/[^\w.@-]+/g, '-');

export function NewKey({ who, onClose, onCreated }) {
  const [name, setName] = useState('');
  const [principal, setPrincipal] = useState('');
  const [roles, setRoles] = useState('');
  const [scopes, setScopes] = useState('');
  const [days, setDays] = useState('90');
  const [made, setMade] = useState();
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  const create = async (event) => {
    event.preventDefault();
    if (words(roles).length + words(scopes).length === 0) {
      setProblem('A key needs at least one role or scope: without them it may do nothing.');
      return;
    }
    setBusy(true);
    const reply = await send('POST', '/v1/keys', {
      name: name.trim(),
      principal: principal.trim() || asPrincipal(name),
      roles: words(roles),
      scopes: words(scopes),
      ...ending(who, days),
    });
    setBusy(false);
    setProblem(reply.problem);
    if (reply.problem !== undefined) return;
    setMade(reply.data);
    onCreated?.(reply.data);
  };
  const field = (value, set) => ({
    class: 'input',
    value,
    autocomplete: 'off',
    spellcheck: false,
    onInput: (event) => set(event.target.value),
  });
  return html`<${Dialog} title=${made ? 'The new key' : 'Create a key'} onClose=${onClose}>
    ${made
      ? html`<${Secret} text=${made.key} note=${`Principal ${made.principal}, tenant ${made.tenant}.`} />`
      : html`<form class="form" onSubmit=${create}>
          <label>
            <span class="label">Name</span>
            <input ...${field(name, setName)} required maxlength="100" autofocus />
            <span class="hint">What people call it, such as “nightly report”.</span>
          </label>
          <label>
            <span class="label">Principal</span>
            <input ...${field(principal, setPrincipal)} placeholder=${asPrincipal(name)} />
            <span class="hint">Who acts with it; the record and the limits name this principal. By default its name.</span>
          </label>
          <label>
            <span class="label">Roles</span>
            <input ...${field(roles, setRoles)} list="known-roles" />
            <datalist id="known-roles">${who.roles.map((role) => html`<option key=${role} value=${role} />`)}</datalist>
            <span class="hint">Roles of the configuration, separated by spaces.</span>
          </label>
          <label>
            <span class="label">Scopes</span>
            <input ...${field(scopes, setScopes)} placeholder="files:read tools:web" />
            <span class="hint">You can give only what you have yourself.</span>
          </label>
          <label>
            <span class="label">Expires</span>
            <select class="input" value=${days} onChange=${(event) => setDays(event.target.value)}>
              <option value="7">in a week</option>
              <option value="30">in 30 days</option>
              <option value="90">in 90 days</option>
              <option value="365">in a year</option>
              <option value="">never</option>
            </select>
            ${who.keysExpireBy !== undefined &&
            html`<span class="hint">At the latest <${Time} at=${who.keysExpireBy} />, as the credential you signed in with allows.</span>`}
          </label>
          ${problem && html`<${Problem} text=${problem} />`}
          <div class="row end"><button class="button primary" disabled=${busy}>Create the key</button></div>
        </form>`}
  <//>`;
}

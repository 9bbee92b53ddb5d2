// Creates a key and shows it once.
import { html, useEffect, useRef, useState, send, Copy, Dialog, Problem, Time } from '../lib/ui.js';
import { useDraft } from '../lib/drafts.js';
import { asPrincipal, ending, words } from '../lib/key-form.js';
import { RoleChoice } from '../lib/role-choice.js';

/** A new key, shown only once. */
export function Secret({ text, note }) {
  const element = useRef();
  // The focused form was removed.
  useEffect(() => element.current.focus(), []);
  return html`<div class="form" ref=${element} tabindex="-1">
    <p class="warn">Copy the key now. It is not stored in readable form and cannot be shown again.</p>
    <div class="secret"><code data-new-key>${text}</code><${Copy} text=${text} /></div>
    ${note && html`<p class="note">${note}</p>`}
  </div>`;
}

/** `role` is selected at first, and names the key. */
export function NewKey({ who, role, onClose, onCreated }) {
  const [form, setForm] = useDraft('new key', {
    name: role ?? '',
    principal: '',
    roles: [],
    scopes: '',
    days: '90',
  });
  const { name, principal, roles, scopes, days } = form;
  const set = (key) => (value) => setForm({ ...form, [key]: value });
  const [made, setMade] = useState();
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  const create = async (event) => {
    event.preventDefault();
    if (roles.length + words(scopes).length === 0) {
      setProblem('A key needs at least one role or scope: without them it has no rights.');
      return;
    }
    setBusy(true);
    const reply = await send('POST', '/v1/keys', {
      name: name.trim(),
      principal: principal.trim() || asPrincipal(name),
      roles,
      scopes: words(scopes),
      ...ending(who, days),
    });
    setBusy(false);
    setProblem(reply.problem);
    if (reply.problem !== undefined) return;
    setMade(reply.data);
    onCreated?.(reply.data);
  };
  const field = (key) => ({
    class: 'input',
    value: form[key],
    autocomplete: 'off',
    spellcheck: false,
    onInput: (event) => set(key)(event.target.value),
  });
  return html`<${Dialog} title=${made ? 'The new key' : 'Create a key'} onClose=${onClose}>
    ${made
      ? html`<${Secret} text=${made.key} note=${`Principal ${made.principal}, tenant ${made.tenant}.`} />`
      : html`<form class="form" onSubmit=${create}>
          <label>
            <span class="label">Name</span>
            <input ...${field('name')} required maxlength="100" autofocus />
            <span class="hint">What people call it, such as “nightly report”.</span>
          </label>
          <label>
            <span class="label">Principal</span>
            <input ...${field('principal')} placeholder=${asPrincipal(name)} />
            <span class="hint">Who acts with it, in the record and for limits. Default: the key's name.</span>
          </label>
          <${RoleChoice} who=${who} chosen=${roles} onChange=${set('roles')} wanted=${role} />
          <label>
            <span class="label">Scopes</span>
            <input ...${field('scopes')} placeholder="files:read tools:web" />
            <span class="hint">You can give only what you have yourself.</span>
          </label>
          <label>
            <span class="label">Expires</span>
            <select class="input" value=${days} onChange=${(event) => set('days')(event.target.value)}>
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

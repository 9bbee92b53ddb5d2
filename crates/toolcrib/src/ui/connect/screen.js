// Connect: pick a client, get its configuration with a separate key, and see its first call.
import { html, useEffect, useRef, useState, announce, send, Badge, Button, Copy, Problem } from '../lib/ui.js';
import { useDraft } from '../lib/drafts.js';
import { ending, words } from '../lib/key-form.js';
import { RoleChoice } from '../lib/role-choice.js';
import { request } from '../api.js';
import { go } from '../shell/routes.js';
import { may } from '../state.js';
import { CLIENTS } from './clients.js';

const EVERY_MS = 1_500;

/** The lines of a snippet with their values. */
const filled = (lines, values) => lines.join('\n').replace(/\{(at|key)\}/g, (_, name) => values[name]);

export function Connect({ route, who }) {
  const client = CLIENTS.find((it) => it.id === route.path[0]);
  return html`<div>
    <div class="screen-head">
      <div>
        <h2>Connect</h2>
        <p>Connect a client to this server: its configuration, and a key with only the rights that it needs.</p>
      </div>
    </div>
    <div class="clients" role="group" aria-label="Client">
      ${CLIENTS.map(
        (it) => html`<button type="button" class="client" key=${it.id} data-client=${it.id}
          aria-pressed=${it === client} onClick=${() => go('connect', [it.id])}>${it.name}</button>`,
      )}
    </div>
    ${client && html`<${Steps} key=${client.id} client=${client} who=${who} />`}
  </div>`;
}

function Steps({ client, who }) {
  const [made, setMade] = useState();
  const key = made?.key ?? 'YOUR_KEY';
  const snippet = filled(client.snippet, { at: location.origin, key });
  return html`<ol class="steps">
    <li>
      <h3>A key for ${client.name}</h3>
      ${may('keys:manage')
        ? html`<${KeyForClient} client=${client} who=${who} made=${made} onMade=${setMade} />`
        : html`<p class="note">
            Get one from an administrator of <bdi>${who.tenant}</bdi>, and replace${' '}
            <code>YOUR_KEY</code> below. Do not share your own key with a client that others use.
          </p>`}
    </li>
    <li>
      <h3>Its configuration</h3>
      <p>${client.where}</p>
      <div class="snippet-box"><pre tabindex="0" data-snippet>${snippet}</pre><${Copy} text=${snippet} /></div>
      ${made && !snippet.includes(key) && html`<p>The key: <code data-new-key>${key}</code> <${Copy} text=${key} /></p>`}
    </li>
    <li>
      <h3>The first request</h3>
      ${made
        ? html`<${FirstRequest} id=${made.id} />`
        : html`<p class="note">After you make a key here, this page shows its first request.</p>`}
    </li>
  </ol>`;
}

function KeyForClient({ client, who, made, onMade }) {
  const [form, setForm] = useDraft(`key for ${client.id}`, { roles: [], scopes: '' });
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  const done = useRef();
  // The focused form was removed.
  useEffect(() => made && done.current?.focus({ preventScroll: true }), [made]);
  if (made)
    return html`<p class="done" ref=${done} tabindex="-1">
      The key <code>${made.id}</code> is in the configuration below. It is not shown again after you
      leave this screen, and works until ${new Date(made.expiresAt).toLocaleString()}.
    </p>`;
  const create = async (event) => {
    event.preventDefault();
    const scopes = words(form.scopes);
    if (form.roles.length + scopes.length === 0) {
      setProblem('Choose at least one role or scope for the client.');
      return;
    }
    setBusy(true);
    const reply = await send('POST', '/v1/keys', {
      name: client.name,
      principal: `${client.id}-${Math.random().toString(36).slice(2, 8)}`,
      roles: form.roles,
      scopes,
      ...ending(who, 90),
    });
    setBusy(false);
    setProblem(reply.problem);
    if (reply.problem === undefined) onMade(reply.data);
  };
  return html`<form class="form" onSubmit=${create}>
    <${RoleChoice} who=${who} chosen=${form.roles} onChange=${(roles) => setForm({ ...form, roles })} />
    <label>
      <span class="label">Scopes</span>
      <input class="input" value=${form.scopes} autocomplete="off" spellcheck=${false} placeholder="files:read"
        onInput=${(event) => setForm({ ...form, scopes: event.target.value })} />
      <span class="hint">Separated by spaces; only scopes that you have yourself.</span>
    </label>
    ${problem && html`<${Problem} text=${problem} />`}
    <div class="row"><${Button} kind="primary" busy=${busy} type="submit">Make a key for it<//></div>
  </form>`;
}

/** Polls the key until it has been used. */
function FirstRequest({ id }) {
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (seen) return undefined;
    const timer = setInterval(async () => {
      if (document.hidden) return;
      try {
        const reply = await request('GET', '/v1/keys', {});
        const key = reply.data?.keys?.find((it) => it.id === id);
        if (!key?.lastUsedAt) return;
        setSeen(true);
        announce('The first request has arrived');
      } catch {
        // The next poll tries again.
      }
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, [seen]);
  return seen
    ? html`<p class="done" role="status" data-first-request>✓ The client has reached this server.</p>`
    : html`<p><${Badge} tone="amber">waiting<//> Start the client; the first request appears here by itself.</p>`;
}

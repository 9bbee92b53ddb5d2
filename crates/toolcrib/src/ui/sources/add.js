// Adds a source in three steps: where it is, who may use it, and what changes.
import { html, useState, plural, send, Badge, Dialog, Problem } from '../lib/ui.js';
import { useDraft } from '../lib/drafts.js';
import { Proposal } from '../lib/proposal.js';
import { wordsOf } from './words.js';

const KINDS = [
  { id: 'command', name: 'MCP server: a program', label: 'Command', example: 'npx -y @scope/server /srv/docs' },
  { id: 'url', name: 'MCP server: an address', label: 'Address', example: 'https://tools.example.com/mcp' },
  { id: 'document', name: 'REST service: OpenAPI', label: 'OpenAPI document', example: 'https://api.example.com/openapi.json' },
];

const SAYS = {
  reads: ['blue', 'reads'],
  changes: ['amber', 'changes'],
  destroys: ['red', 'deletes'],
  unknown: ['grey', 'not declared'],
};

/** The names of the variables in a text field. */
const names = (text) => text.split(/[\s,]+/).filter((it) => it !== '');

function settingsOf({ kind, where, variables }) {
  const place = (name) => [name, { env: name }];
  if (kind === 'command') {
    const env = Object.fromEntries(names(variables).map(place));
    return { kind: 'mcp', command: wordsOf(where), ...(variables.trim() === '' ? {} : { env }) };
  }
  const token = names(variables)[0];
  const headers = token === undefined ? {} : { headers: { Authorization: { env: token } } };
  return kind === 'url'
    ? { kind: 'mcp', url: where.trim(), ...headers }
    : { kind: 'connector', document: where.trim(), ...headers };
}

export function AddSource({ config, onClose, onWritten }) {
  const [form, setForm] = useDraft('new source', { kind: 'command', name: '', where: '', variables: '' });
  const [found, setFound] = useState();
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  const [changes, setChanges] = useState();
  const set = (name) => (event) => setForm({ ...form, [name]: event.target.value });
  const name = form.name.trim();
  const add = (more = {}) => ({
    action: 'add',
    kind: 'source',
    name,
    settings: { ...settingsOf(form), ...more },
  });
  const connect = async (event) => {
    event.preventDefault();
    setBusy(true);
    const reply = await send('POST', '/v1/config/propose', { changes: [add()], connect: true });
    setBusy(false);
    const said = reply.data?.problems?.map((it) => it.message).join('. ');
    const unknown = reply.data?.preview?.unknown?.find((it) => it.source === name);
    setProblem(reply.problem ?? (said || unknown?.reason));
    setFound(reply.data?.preview?.sources?.find((it) => it.source === name));
  };
  if (changes)
    return html`<${Dialog} title=${`Add ${name}: what changes`} onClose=${onClose} wide>
      <${Proposal} changes=${changes} connect onWritten=${onWritten} />
    <//>`;
  if (found)
    return html`<${Dialog} title=${`Add ${name}: who may use it?`} onClose=${onClose} wide>
      <${Grant} found=${found} config=${config} onReady=${(more, others) => setChanges([add(more), ...others])} />
    <//>`;
  const kind = KINDS.find((it) => it.id === form.kind);
  return html`<${Dialog} title="Add a source" onClose=${onClose} wide>
    <form class="form" onSubmit=${connect}>
      <fieldset>
        <legend>What is it?</legend>
        <div class="choices">
          ${KINDS.map(
            (it) => html`<label class="check" key=${it.id}>
              <input type="radio" name="kind" value=${it.id} checked=${form.kind === it.id}
                onChange=${set('kind')} />
              ${it.name}
            </label>`,
          )}
        </div>
      </fieldset>
      <label>
        <span class="label">Name</span>
        <input class="input" id="source-name" value=${form.name} onInput=${set('name')} required autofocus
          pattern="[a-z0-9_\\-]{1,32}" title="Lower-case letters, digits, _ and -, at most 32"
          autocomplete="off" spellcheck=${false} placeholder="files" />
        <span class="hint">Every tool name starts with it. Lower-case letters, digits, _ and -.</span>
      </label>
      <label>
        <span class="label">${kind.label}</span>
        <input class="input mono" id="source-where" value=${form.where} onInput=${set('where')} required
          autocomplete="off" spellcheck=${false} placeholder=${kind.example} />
        ${form.kind === 'command' &&
        html`<span class="hint">The program runs on the machine of the server, with its rights, without a shell.</span>`}
      </label>
      <label>
        <span class="label">${form.kind === 'command' ? 'Variables that it needs' : 'Variable with its token'}</span>
        <input class="input mono" value=${form.variables} onInput=${set('variables')} autocomplete="off"
          spellcheck=${false} placeholder=${form.kind === 'command' ? 'FILES_TOKEN' : 'CRM_AUTHORIZATION'} />
        <span class="hint">Names of variables of the server. A secret itself is never in the file.</span>
      </label>
      ${problem && html`<${Problem} text=${problem} />`}
      <div class="row end">
        <button class="button primary" disabled=${busy} aria-busy=${busy ? 'true' : undefined} data-connect>
          ${busy ? 'Connecting…' : 'Connect and show its tools'}
        </button>
      </div>
    </form>
  <//>`;
}

/** Who may use the source, and which rules it gets. */
function Grant({ found, config, onReady }) {
  const roles = config.roles ?? [];
  const [role, setRole] = useDraft('role of the new source', '');
  const [fresh, setFresh] = useDraft('new role of the new source', '');
  const reading = found.tools.filter((it) => it.statement === 'reads');
  const [reach, setReach] = useState(reading.length > 0 ? 'reads' : 'all');
  const [chosen, setChosen] = useState(() => new Set(found.proposals.map((_, at) => at)));
  const id = found.source;
  const toggle = (at) => {
    const next = new Set(chosen);
    if (!next.delete(at)) next.add(at);
    setChosen(next);
  };
  const isReading = (it) => it.change.settings.safety_tier === 'read';
  const ready = (event) => {
    event.preventDefault();
    const tools = {};
    found.proposals.forEach((it, at) => {
      const reads = isReading(it);
      const narrow = role !== '' && reach === 'reads' && reads;
      if (!chosen.has(at) && !narrow) return;
      tools[it.change.name] = {
        ...it.change.settings,
        // Other tools keep the scope of the source, which this role does not get.
        ...(narrow ? { scopes: [`tools:${id}:read`] } : {}),
      };
    });
    const more = Object.keys(tools).length > 0 ? { tools } : {};
    const grant = reach === 'reads' ? `tools:${id}:read` : `tools:${id}`;
    const existing = roles.find((it) => it.name === role);
    const others = [];
    if (role !== '') {
      const scopes = [...new Set([...(existing?.scopes ?? []), grant])];
      others.push(
        existing
          ? { action: 'set', kind: 'role', name: role, settings: { scopes } }
          : { action: 'add', kind: 'role', name: fresh.trim(), settings: { scopes } },
      );
    }
    onReady(more, others);
  };
  return html`<form class="form" onSubmit=${ready}>
    <p>It is connected and has ${plural(found.tools.length, 'tool')}.
      ${found.requiresApproval && ' They stay hidden until they are approved.'}</p>
    <label>
      <span class="label">Role that may use it</span>
      <select class="input" id="source-role" value=${role} onChange=${(event) => setRole(event.target.value)}>
        <option value="">no role for now</option>
        ${roles.map((it) => html`<option key=${it.name} value=${it.name}>${it.name}</option>`)}
        <option value="+">a new role…</option>
      </select>
    </label>
    ${role === '+' &&
    html`<label>
      <span class="label">Name of the new role</span>
      <input class="input" id="source-new-role" value=${fresh} required
        onInput=${(event) => setFresh(event.target.value)} />
    </label>`}
    ${role !== '' &&
    html`<fieldset>
      <legend>What may it use?</legend>
      <label class="check">
        <input type="radio" name="reach" checked=${reach === 'reads'} disabled=${reading.length === 0}
          onChange=${() => setReach('reads')} />
        Only the ${plural(reading.length, 'tool that says it reads', 'tools that say they read')}
      </label>
      <label class="check">
        <input type="radio" name="reach" checked=${reach === 'all'} onChange=${() => setReach('all')} />
        All ${plural(found.tools.length, 'tool')}
      </label>
    </fieldset>`}
    ${found.proposals.length > 0 &&
    html`<fieldset>
      <legend>Proposed rules</legend>
      ${found.proposals.map(
        (it, at) => html`<label class="check" key=${at} data-proposed=${it.change.name}>
          <input type="checkbox" checked=${chosen.has(at)} onChange=${() => toggle(at)} />
          <span>
            <strong>${isReading(it) ? 'Mark as reading' : 'Require approval'}</strong>:
            ${it.tools.map((tool) => html` <bdi class="mono" key=${tool}>${tool}</bdi>`)}
            <span class="hint"> ${isReading(it) && role !== '' && reach === 'reads'
              ? html`They say that they only read, and get the scope <code>${`tools:${id}:read`}</code>.`
              : html`<bdi>${it.reason}</bdi>`}</span>
          </span>
        </label>`,
      )}
    </fieldset>`}
    <${Tools} tools=${found.tools} />
    <div class="row end"><button class="button primary" data-continue>Show what changes</button></div>
  </form>`;
}

/** The tools, and what each says about itself. */
export function Tools({ tools }) {
  return html`<div class="table-box short" tabindex="0" role="region" aria-label="Tools of the source">
    <table class="table">
      <thead><tr><th>Tool</th><th>Declared effect</th><th>Description</th></tr></thead>
      <tbody>
        ${tools.map(
          (it) => html`<tr key=${it.name}>
            <td><bdi class="mono">${it.name}</bdi></td>
            <td><${Badge} tone=${SAYS[it.statement]?.[0]}>${SAYS[it.statement]?.[1] ?? it.statement}<//></td>
            <td class="wrap muted"><bdi>${it.description}</bdi></td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

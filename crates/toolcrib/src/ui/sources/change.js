// Changes and removes sources, rules and toolsets of the configuration.
import { html, useState, Badge, Button, Dialog } from '../lib/ui.js';
import { isObject, own } from '../json.js';
import { useDraft } from '../lib/drafts.js';
import { ToolName } from '../lib/links.js';
import { Proposal, ProposalDialog } from '../lib/proposal.js';
import { lineOf, wordsOf } from './words.js';

/** The server's masks for a value, or a part of it, that may be a secret. */
const MASKS = ['***', '[redacted]'];

/** The value of a text that is JSON; otherwise the text itself. */
function valueOf(text) {
  if (text.trim() === '') return null;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The server merges tables, so `null` must remove each missing member. */
function withRemoved(before, after) {
  if (!isObject(before) || !isObject(after)) return after;
  const removed = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
  const kept = Object.entries(after).map(([key, it]) => [key, withRemoved(own(before, key), it)]);
  return Object.fromEntries([...kept, ...removed.map((key) => [key, null])]);
}

const textOf = (value) => (typeof value === 'string' ? value : JSON.stringify(value));
const hasMask = (value) => MASKS.some((mask) => JSON.stringify(value ?? '').includes(mask));

/** Settings that have their own place on the page. */
const APART = ['id', 'kind', 'tools', 'command', 'url', 'document'];

export function ChangeSource({ source, onClose, onWritten }) {
  const main = ['command', 'url', 'document'].find((key) => source[key] !== undefined);
  const before = main === 'command' ? lineOf(source.command) : source[main];
  const [where, setWhere] = useDraft(`address of ${source.id}`, before ?? '');
  const others = Object.entries(source).filter(([key]) => !APART.includes(key));
  const [texts, setTexts] = useDraft(`settings of ${source.id}`, () => Object.fromEntries(others.map(([key, it]) => [key, textOf(it)])));
  const [fresh, setFresh] = useDraft(`new setting of ${source.id}`, { key: '', value: '' });
  const [changes, setChanges] = useState();
  const submit = (event) => {
    event.preventDefault();
    const settings = {};
    if (main && where !== before) settings[main] = main === 'command' ? wordsOf(where) : where.trim();
    for (const [key, it] of others) if (texts[key] !== textOf(it)) settings[key] = withRemoved(it, valueOf(texts[key]));
    if (fresh.key.trim() !== '') settings[fresh.key.trim()] = valueOf(fresh.value);
    setChanges([{ action: 'set', kind: 'source', name: source.id, settings }]);
  };
  if (changes)
    return html`<${ProposalDialog} title=${`Change ${source.id}`} changes=${changes} connect onClose=${onClose}
      onWritten=${onWritten} />`;
  return html`<${Dialog} title=${`Change ${source.id}`} onClose=${onClose} wide>
    <form class="form" onSubmit=${submit}>
      ${main &&
      html`<label>
        <span class="label">${main === 'command' ? 'Command' : main === 'url' ? 'Address' : 'OpenAPI document'}</span>
        <input class="input mono" value=${where} disabled=${hasMask(before)} required
          onInput=${(event) => setWhere(event.target.value)} />
        ${hasMask(before) && html`<span class="hint">A part of it may be a secret: change it in the file.</span>`}
      </label>`}
      ${others.map(
        ([key, it]) => html`<label key=${key}>
          <span class="label mono">${key}</span>
          <input class="input mono" value=${texts[key]} disabled=${hasMask(it)} data-setting=${key}
            onInput=${(event) => setTexts({ ...texts, [key]: event.target.value })} />
        </label>`,
      )}
      <div class="row">
        <input class="input mono" aria-label="Another key" placeholder="connect_timeout" value=${fresh.key}
          onInput=${(event) => setFresh({ ...fresh, key: event.target.value })} />
        <input class="input mono" aria-label="Its value" placeholder="60s" value=${fresh.value}
          onInput=${(event) => setFresh({ ...fresh, value: event.target.value })} />
      </div>
      <p class="note">A value is text or JSON. An empty value removes the key.</p>
      <div class="row end"><button class="button primary" data-continue>Show what changes</button></div>
    </form>
  <//>`;
}

/** The rules of a source, and rules that its tools suggest. */
export function Rules({ source, settings, proposals, onWritten }) {
  const [asking, setAsking] = useState();
  const [editing, setEditing] = useDraft(`rule dialog of ${source}`);
  const rules = Object.entries(settings?.tools ?? {});
  const remove = (name) =>
    setAsking({ title: `Remove the rule ${name}`, changes: [{ action: 'remove', kind: 'rule', source, name }] });
  const own = proposals.filter((it) => it.source === source);
  return html`<section class="panel padded" aria-label="Rules">
    <div class="screen-head">
      <h3>Rules</h3>
      <${Button} data-add-rule onClick=${() => setEditing({})}>Add a rule<//>
    </div>
    ${rules.length === 0
      ? html`<p class="muted">No rule: every tool requires the scope <code>tools:${source}</code>.</p>`
      : html`<dl class="facts">
          ${rules.map(
            ([glob, rule]) => html`<dt key=${glob}><bdi class="mono">${glob}</bdi></dt>
              <dd>
                ${Object.entries(rule).map(([key, it]) => html`<code key=${key}>${key} = ${textOf(it)}</code> `)}
                <button type="button" class="quiet" data-change-rule=${glob}
                  onClick=${() => setEditing({ glob, rule })}>Change</button>
                <button type="button" class="quiet" onClick=${() => remove(glob)}>Remove</button>
              </dd>`,
          )}
        </dl>`}
    ${own.map(
      (it) => html`<div class="row" key=${it.change.name} data-proposed=${it.change.name}>
        <${Badge} tone="violet">proposed<//>
        <span>
          ${it.change.settings.approval ? 'Require approval' : 'Mark as reading'}:
          ${it.tools.map((tool) => html` <${ToolName} key=${tool} name=${tool} />`)}
          <span class="muted"> <bdi>${it.reason}</bdi></span>
        </span>
        <${Button} onClick=${() => setAsking({ title: 'A proposed rule', changes: [it.change] })}>Show what changes<//>
      </div>`,
    )}
    ${editing &&
    html`<${RuleDialog} ...${editing} source=${source} onClose=${() => setEditing()} onWritten=${onWritten} />`}
    ${asking &&
    html`<${ProposalDialog} ...${asking} onClose=${() => setAsking()} onWritten=${onWritten} />`}
  </section>`;
}

/** Adds a rule, or changes the one with these settings. */
function RuleDialog({ source, glob, rule, onClose, onWritten }) {
  const { approval = '', safety_tier: tier = '', scopes = [] } = rule ?? {};
  const [form, setForm] = useDraft(`rule ${source} ${glob ?? ''}`, { glob: glob ?? '', approval, tier, scopes: scopes.join(' ') });
  const [changes, setChanges] = useState();
  const set = (name) => (event) => setForm({ ...form, [name]: event.target.value });
  const submit = (event) => {
    event.preventDefault();
    const wanted = {
      approval: form.approval,
      safety_tier: form.tier,
      scopes: form.scopes.split(/[\s,]+/).filter((it) => it !== ''),
    };
    const settings = {};
    for (const [key, value] of Object.entries(wanted)) {
      if (value.length > 0) settings[key] = value;
      else if (rule?.[key] !== undefined) settings[key] = null; // an emptied field removes the key
    }
    setChanges([{ action: rule ? 'set' : 'add', kind: 'rule', source, name: form.glob.trim(), settings }]);
  };
  return html`<${Dialog} title=${rule ? `Change the rule ${glob}` : `Add a rule to ${source}`} onClose=${onClose} wide>
    ${changes
      ? html`<${Proposal} changes=${changes} onWritten=${onWritten} />`
      : html`<form class="form" onSubmit=${submit}>
          <label>
            <span class="label">Tools</span>
            <input class="input mono" value=${form.glob} onInput=${set('glob')} required disabled=${rule !== undefined}
              autofocus=${rule === undefined} placeholder="delete_*" />
            <span class="hint">A pattern over the source's own names.</span>
          </label>
          <label>
            <span class="label">Approval</span>
            <select class="input" value=${form.approval} onChange=${set('approval')}>
              <option value="">as it is</option>
              <option value="always">a person must approve every call</option>
              ${form.approval === 'conditional' && html`<option value="conditional">depends on the arguments</option>`}
              <option value="never">calls run at once</option>
            </select>
          </label>
          <label>
            <span class="label">What they do</span>
            <select class="input" value=${form.tier} onChange=${set('tier')}>
              <option value="">as it is</option>
              ${['pure', 'read', 'write', 'exec'].map((tier) => html`<option key=${tier} value=${tier}>${tier}</option>`)}
            </select>
          </label>
          <label>
            <span class="label">Required scopes</span>
            <input class="input mono" value=${form.scopes} onInput=${set('scopes')} placeholder=${`tools:${source}`} />
          </label>
          <div class="row end"><button class="button primary" data-continue>Show what changes</button></div>
        </form>`}
  <//>`;
}

/** Adds a toolset, or changes the one with these settings. */
export function ToolsetDialog({ name, settings, onClose, onWritten }) {
  const { title = '', allow = [] } = settings ?? {};
  const [form, setForm] = useDraft(`toolset ${name ?? ''}`, { name: name ?? '', title, allow: allow.join(' ') });
  const [changes, setChanges] = useState();
  const set = (key) => (event) => setForm({ ...form, [key]: event.target.value });
  const submit = (event) => {
    event.preventDefault();
    const allow = form.allow.split(/[\s,]+/).filter((it) => it !== '');
    const words = form.title.trim();
    const named = words === '' && title === '' ? {} : { title: words === '' ? null : words };
    const action = name === undefined ? 'add' : 'set';
    setChanges([{ action, kind: 'toolset', name: form.name.trim(), settings: { ...named, allow } }]);
  };
  return html`<${Dialog} title=${name === undefined ? 'Add a toolset' : `Change ${name}`} onClose=${onClose} wide>
    ${changes
      ? html`<${Proposal} changes=${changes} onWritten=${onWritten} />`
      : html`<form class="form" onSubmit=${submit}>
          <label><span class="label">Name</span>
            <input class="input mono" value=${form.name} onInput=${set('name')} required
              disabled=${name !== undefined} autofocus=${name === undefined} /></label>
          <label><span class="label">Title</span>
            <input class="input" value=${form.title} onInput=${set('title')} /></label>
          <label><span class="label">Tools</span>
            <input class="input mono" value=${form.allow} onInput=${set('allow')} required placeholder="files__* mail__read_*" />
            <span class="hint">Patterns over tool names, separated by spaces.</span></label>
          <div class="row end"><button class="button primary" data-continue>Show what changes</button></div>
        </form>`}
  <//>`;
}

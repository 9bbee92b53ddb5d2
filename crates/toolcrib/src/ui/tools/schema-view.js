// The Schema tab: a tree for reading, and the exact JSON.
import { html, Copy, useState } from '../lib/ui.js';
import { JsonBlock } from '../lib/json-block.js';
import { Switch } from '../lib/tabs.js';
import { isObject, own, pretty } from '../json.js';
import {
  alternativeLabel,
  alternatives,
  entrySchema,
  enumTitles,
  enumValues,
  kindOf,
  limits,
  propertiesOf,
  requiredOf,
  simplify,
  typeLabel,
} from './schema.js';

const MAX_CHOICES = 40;

export function SchemaView({ tool }) {
  return html`<div class="stack">
    <${Section} title="Input" value=${tool.inputSchema ?? {}} />
    ${isObject(tool.outputSchema) && html`<${Section} title="Output" value=${tool.outputSchema} />`}
    ${
      isObject(tool.annotations) &&
      html`<section class="sub">
        <h3>Annotations</h3>
        <p class="muted">Hints from the tool’s author. They are unverified.</p>
        <${JsonBlock} value=${tool.annotations} />
      </section>`
    }
  </div>`;
}

function Section({ title, value }) {
  const id = title.toLowerCase();
  const views = [
    [`${id}-tree`, 'Tree'],
    [`${id}-json`, 'JSON'],
  ];
  const [view, setView] = useState(views[0][0]);
  return html`<section class="sub" aria-label=${`${title} schema`}>
    <div class="sub-head">
      <h3>${title}</h3>
      <${Switch} name="schema" label="Show as" views=${views} chosen=${view} onChoose=${setView} />
      <${Copy} text=${() => pretty(value)} />
    </div>
    <div>${view === views[0][0] ? html`<${SchemaTree} schema=${value} />` : html`<${JsonBlock} value=${value} />`}</div>
  </section>`;
}

function SchemaTree({ schema }) {
  const root = isObject(schema) ? schema : {};
  const parts = inside(simplify(root, root), root, 0);
  if (parts.length === 0) return html`<p class="muted">The schema declares no fields.</p>`;
  return html`<div class="schema-tree" tabindex="0" role="region" aria-label="Fields">${parts}</div>`;
}

/** The parts of a schema: alternatives, properties, entries, items. */
function inside(simple, root, depth) {
  const options = alternatives(simple);
  const required = requiredOf(simple);
  const node = (name, schema, more) =>
    html`<${Node} name=${name} schema=${schema} root=${root} depth=${depth} ...${more} />`;
  const parts = Object.entries(propertiesOf(simple)).map(([key, property]) =>
    node(key, property, { required: required.includes(key) }),
  );
  if (options !== undefined) {
    parts.push(html`<p class="muted">One of ${options.length} forms:</p>`);
    options.forEach((option, at) =>
      parts.push(node(alternativeLabel(option, root, at), option, { form: true })),
    );
  }
  const entries = isObject(own(simple, 'additionalProperties')) ? entrySchema(simple) : undefined;
  if (entries !== undefined) parts.push(node('any name', entries, { form: true }));
  return parts;
}

/** A part of a schema. Its content is drawn when it opens, because a schema can contain itself. */
function Node({ name, schema, root, depth, required = false, form = false }) {
  const simple = simplify(schema, root);
  const items = kindOf(simple) === 'array' ? simplify(own(simple, 'items'), root) : undefined;
  const open = depth < 2 && !form;
  const [seen, setSeen] = useState(open);
  const text = own(simple, 'description');
  const head = html`
    ${form ? html`<bdi class="strong">${name}</bdi>` : html`<code class="path"><bdi>${name}</bdi></code>`}
    <span class="muted">${typeLabel(schema, root)}</span>
    ${required && html`<span class="required">required</span>`}`;
  const body = html`
    ${typeof text === 'string' && text !== '' && html`<p class="field-text"><bdi>${text}</bdi></p>`}
    <${Choices} of=${simple} />
    <${Notes} of=${simple} />`;
  if (!hasChildren(items ?? simple))
    return html`<div class="schema-node"><div class="row">${head}</div>${body}</div>`;
  return html`<details class="schema-node" open=${open} onToggle=${(event) => event.target.open && setSeen(true)}>
    <summary><span class="row">${head}</span></summary>
    ${body}
    <div class="tree-children">${seen && inside(items ?? simple, root, depth + 1)}</div>
  </details>`;
}

function hasChildren(simple) {
  return (
    Object.keys(propertiesOf(simple)).length > 0 ||
    alternatives(simple) !== undefined ||
    isObject(own(simple, 'additionalProperties'))
  );
}

function Choices({ of }) {
  if (kindOf(of) !== 'enum') return null;
  const titles = enumTitles(of);
  const values = enumValues(of);
  const left = values.length - MAX_CHOICES;
  return html`<div class="choices">
    ${values.slice(0, MAX_CHOICES).map(
      (value, at) => html`<code>${pretty(value)}</code>
        ${typeof titles[at] === 'string' && html`<bdi class="muted">${titles[at]}</bdi>`}`,
    )}
    ${left > 0 && html`<span class="muted">and ${left} more</span>`}
  </div>`;
}

function Notes({ of }) {
  const list = limits(of);
  if (Object.hasOwn(of, 'default')) list.unshift(`default ${JSON.stringify(of.default)}`);
  return list.length > 0 && html`<p class="field-note">${list.join(' · ')}</p>`;
}

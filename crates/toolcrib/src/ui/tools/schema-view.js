// The Schema tab: a tree for reading, and the exact JSON.
import { h, button, copyButton } from '../dom.js';
import { isObject, jsonBlock, own, pretty } from '../json.js';
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

export function schemaView(tool) {
  const parts = [section('Input', tool.inputSchema ?? {}, 'input')];
  if (isObject(tool.outputSchema)) parts.push(section('Output', tool.outputSchema, 'output'));
  if (isObject(tool.annotations))
    parts.push(
      h(
        'section',
        { class: 'sub' },
        h('h3', { text: 'Annotations' }),
        h('p', { class: 'muted', text: 'Hints from the tool’s author. They are unverified.' }),
        jsonBlock(tool.annotations),
      ),
    );
  return h('div', { class: 'stack' }, parts);
}

function section(title, value, id) {
  const host = h('div', {});
  const views = [
    ['tree', 'Tree', () => schemaTree(value)],
    ['json', 'JSON', () => jsonBlock(value)],
  ];
  const toggles = views.map(([view, label, draw]) =>
    button(label, () => show(view, draw), {
      class: 'toggle',
      data: { schema: `${id}-${view}` },
      'aria-pressed': 'false',
    }),
  );
  const show = (view, draw) => {
    for (const toggle of toggles)
      toggle.setAttribute('aria-pressed', String(toggle.dataset.schema === `${id}-${view}`));
    host.replaceChildren(draw());
  };
  show('tree', views[0][2]);
  return h(
    'section',
    { class: 'sub', 'aria-label': `${title} schema` },
    h(
      'div',
      { class: 'sub-head' },
      h('h3', { text: title }),
      h('div', { class: 'segmented', role: 'group', 'aria-label': 'Show as' }, toggles),
      copyButton(() => pretty(value)),
    ),
    host,
  );
}

function schemaTree(schema) {
  const root = isObject(schema) ? schema : {};
  const parts = inside(simplify(root, root), root, 0);
  if (parts.length === 0) return h('p', { class: 'muted', text: 'The schema declares no fields.' });
  return h(
    'div',
    { class: 'schema-tree', tabindex: '0', role: 'region', 'aria-label': 'Fields' },
    parts,
  );
}

/** What a schema consists of: alternatives, properties, entries, items. */
function inside(simple, root, depth) {
  const parts = [];
  const options = alternatives(simple);
  const required = requiredOf(simple);
  for (const [key, property] of Object.entries(propertiesOf(simple)))
    parts.push(node(key, property, root, depth, { required: required.includes(key) }));
  if (options !== undefined) {
    parts.push(h('p', { class: 'muted', text: `One of ${options.length} forms:` }));
    options.forEach((option, at) =>
      parts.push(node(alternativeLabel(option, root, at), option, root, depth, { form: true })),
    );
  }
  const entries = isObject(own(simple, 'additionalProperties')) ? entrySchema(simple) : undefined;
  if (entries !== undefined) parts.push(node('any name', entries, root, depth, { form: true }));
  return parts;
}

function node(name, schema, root, depth, { required = false, form = false }) {
  const simple = simplify(schema, root);
  const items = kindOf(simple) === 'array' ? simplify(own(simple, 'items'), root) : undefined;
  const children = () => inside(items ?? simple, root, depth + 1);
  const has = hasChildren(items ?? simple);
  const head = [
    form
      ? h('bdi', { class: 'strong', text: name })
      : h('code', { class: 'path' }, h('bdi', { text: name })),
    h('span', { class: 'muted', text: typeLabel(schema, root) }),
    required ? h('span', { class: 'required', text: 'required' }) : undefined,
  ];
  const text = own(simple, 'description');
  const body = [
    typeof text === 'string' && text !== ''
      ? h('p', { class: 'field-text' }, h('bdi', { text }))
      : undefined,
    choices(simple),
    notes(simple),
  ];
  if (!has) return h('div', { class: 'schema-node' }, h('div', { class: 'row' }, head), body);
  const host = h('div', { class: 'tree-children' });
  const details = h(
    'details',
    {
      class: 'schema-node',
      on: {
        toggle: () => details.open && host.childElementCount === 0 && host.append(...children()),
      },
    },
    h('summary', {}, h('span', { class: 'row' }, head)),
    body,
    host,
  );
  if (depth < 2 && !form) {
    details.open = true;
    host.append(...children());
  }
  return details;
}

function hasChildren(simple) {
  return (
    Object.keys(propertiesOf(simple)).length > 0 ||
    alternatives(simple) !== undefined ||
    isObject(own(simple, 'additionalProperties'))
  );
}

function choices(simple) {
  if (kindOf(simple) !== 'enum') return undefined;
  const titles = enumTitles(simple);
  const values = enumValues(simple);
  const left = values.length - MAX_CHOICES;
  return h(
    'div',
    { class: 'choices' },
    values
      .slice(0, MAX_CHOICES)
      .map((value, at) => [
        h('code', { text: pretty(value) }),
        typeof titles[at] === 'string' ? h('bdi', { class: 'muted', text: titles[at] }) : undefined,
      ]),
    left > 0 ? h('span', { class: 'muted', text: `and ${left} more` }) : undefined,
  );
}

function notes(simple) {
  const list = limits(simple);
  if (Object.hasOwn(simple, 'default')) list.unshift(`default ${JSON.stringify(simple.default)}`);
  return list.length > 0 ? h('p', { class: 'field-note', text: list.join(' · ') }) : undefined;
}

// The Schema tab: a table for reading, and the exact JSON below it.
import { h, copyButton } from './dom.js';
import { isObject, jsonBlock, own, pretty } from './json.js';
import {
  propertiesOf,
  requiredOf,
  simplify,
  typeLabel,
  limits,
  enumValues,
  kindOf,
} from './schema.js';

const MAX_ROWS = 200;

export function schemaView(tool) {
  const parts = [];
  if (isObject(tool.inputSchema)) parts.push(fieldTable(tool.inputSchema));
  parts.push(section('Input schema', tool.inputSchema ?? {}));
  if (isObject(tool.outputSchema)) parts.push(section('Output schema', tool.outputSchema));
  if (isObject(tool.annotations))
    parts.push(
      section(
        'Annotations',
        tool.annotations,
        'Hints from the tool’s author. They are unverified.',
      ),
    );
  return h('div', { class: 'stack' }, parts);
}

function section(title, value, note) {
  return h(
    'section',
    { class: 'sub' },
    h(
      'div',
      { class: 'sub-head' },
      h('h3', { text: title }),
      copyButton(() => pretty(value)),
    ),
    note ? h('p', { class: 'muted', text: note }) : undefined,
    jsonBlock(value),
  );
}

function fieldTable(root) {
  const rows = collect(root, root, '', 0);
  if (rows.length === 0) return h('p', { class: 'muted', text: 'The schema declares no fields.' });
  const head = h(
    'tr',
    {},
    ['Field', 'Type', 'Default', 'Description'].map((text) => h('th', { scope: 'col', text })),
  );
  return h(
    'div',
    { class: 'table-scroll', tabindex: '0', role: 'region', 'aria-label': 'Fields' },
    h('table', {}, h('thead', {}, head), h('tbody', {}, rows.slice(0, MAX_ROWS).map(row))),
  );
}

/** One row per property; nested objects and arrays of objects up to three levels. */
function collect(schema, root, prefix, depth) {
  const required = requiredOf(schema);
  return Object.entries(propertiesOf(schema)).flatMap(([key, property]) => {
    const simple = simplify(property, root);
    const path = prefix + key;
    const rows = [{ path, simple, property, root, required: required.includes(key) }];
    if (depth >= 2) return rows;
    const items = simplify(own(simple, 'items'), root);
    if (kindOf(simple) === 'object') rows.push(...collect(simple, root, `${path}.`, depth + 1));
    else if (kindOf(simple) === 'array' && kindOf(items) === 'object')
      rows.push(...collect(items, root, `${path}[].`, depth + 1));
    return rows;
  });
}

function row({ path, simple, property, root, required }) {
  const notes = limits(simple);
  const choices =
    kindOf(simple) === 'enum'
      ? h(
          'div',
          { class: 'choices' },
          enumValues(simple)
            .slice(0, 40)
            .map((value) => h('code', { text: pretty(value) })),
        )
      : undefined;
  return h(
    'tr',
    {},
    h(
      'td',
      {},
      h('code', { class: 'path', text: path }),
      required ? h('span', { class: 'required', text: 'required' }) : undefined,
    ),
    h('td', { class: 'nowrap', text: typeLabel(property, root) }),
    h(
      'td',
      {},
      Object.hasOwn(simple, 'default') ? h('code', { text: pretty(simple.default) }) : '–',
    ),
    h(
      'td',
      {},
      typeof simple.description === 'string' ? h('bdi', { text: simple.description }) : undefined,
      choices,
      notes.length > 0 ? h('div', { class: 'muted', text: notes.join(', ') }) : undefined,
    ),
  );
}

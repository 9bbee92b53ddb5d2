// A JSON value of a result: as a table when it is one, as a tree that folds, and as text.
import { h, button, plural, setText } from '../dom.js';
import { isNumber, isObject, jsonBlock } from '../json.js';

const MAX_COLUMNS = 16;
const MAX_ROWS = 200;
const MAX_CHILDREN = 200;
const LONG = 400; // characters of a text shown at once

/** The views of a value, as buttons and the chosen one. `asSent` is the text that the tool sent. */
export function jsonViews(value, asSent) {
  const rows = tableOf(value);
  const views = [
    rows && ['table', 'Table', () => table(rows)],
    isBranch(value) && ['tree', 'Tree', () => tree(value)],
    ['json', 'JSON', () => jsonBlock(value)],
    asSent !== undefined && [
      'sent',
      'As sent',
      () => h('pre', { class: 'code', tabindex: '0', text: asSent }),
    ],
  ].filter(Boolean);
  const host = h('div', { class: 'view' });
  const buttons = views.map(([id, label, draw]) =>
    h('button', {
      type: 'button',
      class: 'toggle',
      'aria-pressed': 'false',
      data: { view: id },
      text: label,
      on: { click: () => show(id, draw) },
    }),
  );
  const show = (id, draw) => {
    for (const it of buttons) it.setAttribute('aria-pressed', String(it.dataset.view === id));
    host.replaceChildren(draw());
  };
  show(views[0][0], views[0][2]);
  if (views.length === 1) return [host];
  return [h('div', { class: 'segmented', role: 'group', 'aria-label': 'Show as' }, buttons), host];
}

function isBranch(value) {
  return isObject(value) || Array.isArray(value);
}

function isEmpty(value) {
  return (Array.isArray(value) ? value : Object.keys(value)).length === 0;
}

/** The rows of a value that is a list of flat objects, or an object with nothing but such a list. */
function tableOf(value) {
  if (isObject(value)) {
    const inner = Object.values(value);
    return inner.length === 1 && Array.isArray(inner[0]) ? tableOf(inner[0]) : undefined;
  }
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const flat = (row) =>
    isObject(row) &&
    Object.keys(row).length > 0 &&
    Object.values(row).every((cell) => !isBranch(cell));
  return value.every(flat) ? value : undefined;
}

function table(rows) {
  const all = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const columns = all.slice(0, MAX_COLUMNS);
  const numeric = new Set(
    columns.filter((key) =>
      rows.every((row) => [undefined, null].includes(row[key]) || isNumber(row[key])),
    ),
  );
  const cell = (row, key) => {
    const value = Object.hasOwn(row, key) ? row[key] : undefined;
    const text =
      value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);
    return h('td', { class: numeric.has(key) ? 'right' : '' }, h('bdi', { text }));
  };
  const body = h('tbody', {});
  const more = button('', () => fill(rows.length), { class: 'quiet' });
  const fill = (until) => {
    for (const row of rows.slice(body.childElementCount, until))
      body.append(
        h(
          'tr',
          {},
          columns.map((key) => cell(row, key)),
        ),
      );
    more.hidden = body.childElementCount >= rows.length;
    more.textContent = `Show all ${plural(rows.length, 'row')}`;
  };
  fill(MAX_ROWS);
  const left = all.length - columns.length;
  return h(
    'div',
    { class: 'sub' },
    h(
      'div',
      {
        class: 'table-scroll result-table',
        tabindex: '0',
        role: 'group',
        'aria-label': 'Result as a table',
      },
      h(
        'table',
        {},
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            columns.map((key) =>
              h(
                'th',
                { scope: 'col', class: numeric.has(key) ? 'right' : '' },
                h('bdi', { text: key }),
              ),
            ),
          ),
        ),
        body,
      ),
    ),
    h('p', {
      class: 'muted',
      text:
        plural(rows.length, 'row') +
        (left > 0 ? `, ${plural(left, 'more column')} in the tree` : ''),
    }),
    more,
  );
}

/** A tree that folds. Branches are drawn when they are opened. */
export function tree(value) {
  const host = h('div', {
    class: 'tree',
    tabindex: '0',
    role: 'group',
    'aria-label': 'Result as a tree',
  });
  const root = isEmpty(value) ? leaf(undefined, value) : branch(undefined, value, 0);
  host.append(root);
  return host;
}

function node(key, value, depth) {
  return isBranch(value) && !isEmpty(value) ? branch(key, value, depth) : leaf(key, value);
}

function branch(key, value, depth) {
  const entries = Array.isArray(value) ? value.map((it, at) => [at, it]) : Object.entries(value);
  const size = Array.isArray(value)
    ? plural(entries.length, 'entry', 'entries')
    : plural(entries.length, 'field');
  const children = h('div', { class: 'tree-children' });
  const details = h(
    'details',
    { on: { toggle: () => details.open && fill() } },
    h(
      'summary',
      {},
      label(key),
      h('span', { class: 'tree-size', text: `${Array.isArray(value) ? '[ ]' : '{ }'} ${size}` }),
    ),
    children,
  );
  let drawn = 0;
  const fill = (until = MAX_CHILDREN) => {
    if (drawn >= until || drawn >= entries.length) return;
    for (const [name, inner] of entries.slice(drawn, until))
      children.append(node(name, inner, depth + 1));
    drawn = Math.min(until, entries.length);
    if (drawn >= entries.length) return;
    const more = button(
      `Show ${Math.min(MAX_CHILDREN, entries.length - drawn)} more`,
      () => {
        more.remove();
        fill(drawn + MAX_CHILDREN);
      },
      { class: 'quiet' },
    );
    children.append(more);
  };
  if (depth === 0 || (depth === 1 && entries.length <= 12)) {
    details.open = true;
    fill();
  }
  return details;
}

function leaf(key, value) {
  const [kind, text] =
    typeof value === 'string'
      ? ['j-string', value]
      : [isNumber(value) ? 'j-number' : 'j-word', JSON.stringify(value) ?? 'undefined'];
  const shown = h('bdi', {
    class: kind,
    text: text.length > LONG ? `${text.slice(0, LONG)}…` : text,
  });
  const row = h('div', { class: 'tree-leaf' }, label(key), shown);
  if (text.length > LONG) {
    const more = button(
      `Show all ${plural(text.length, 'character')}`,
      () => {
        setText(shown, text);
        more.remove();
      },
      { class: 'quiet' },
    );
    row.append(more);
  }
  return row;
}

function label(key) {
  if (key === undefined) return undefined;
  return h('bdi', { class: typeof key === 'number' ? 'tree-index' : 'j-key', text: String(key) });
}

// A JSON value of a result: as tables when it has lists of objects, as a tree that folds, and as text.
import { html, plural, useState } from '../lib/ui.js';
import { JsonBlock } from '../lib/json-block.js';
import { Switch } from '../lib/tabs.js';
import { isNumber, isObject, own } from '../json.js';

const MAX_COLUMNS = 16;
const MAX_ROWS = 200;
const MAX_CHILDREN = 200;
const MAX_TABLES = 8;
const MAX_NESTED = 5; // tables in tables; deeper values are trees
const FEW = 12; // entries of a list of single values shown in a cell
const LONG = 400; // characters of a text shown at once

/** The views of a value, as buttons and the chosen one. `asSent` is the text that the tool sent. */
export function JsonViews({ value, asSent }) {
  const tables = tablesOf(value);
  const views = [
    tables && ['table', 'Table', () => html`<${Tables} ...${tables} />`],
    isBranch(value) && ['tree', 'Tree', () => html`<${Tree} value=${value} />`],
    ['json', 'JSON', () => html`<${JsonBlock} value=${value} />`],
    asSent !== undefined && ['sent', 'As sent', () => html`<pre class="code" tabindex="0">${asSent}</pre>`],
  ].filter(Boolean);
  const [chosen, setChosen] = useState(views[0][0]);
  const [, , view] = views.find(([id]) => id === chosen);
  return html`
    ${
      views.length > 1 &&
      html`<${Switch} name="view" label="Show as" views=${views} chosen=${chosen} onChoose=${setChosen} />`
    }
    <div class="view" key=${chosen}>${view()}</div>`;
}

function isBranch(value) {
  return isObject(value) || Array.isArray(value);
}

function isEmpty(value) {
  return (Array.isArray(value) ? value : Object.keys(value)).length === 0;
}

/** The rows of a list of objects. */
function rowsOf(value) {
  const isRow = (row) => isObject(row) && Object.keys(row).length > 0;
  return Array.isArray(value) && value.length > 0 && value.every(isRow) ? value : undefined;
}

/**
 * The tables of a value: of a list of objects, or of each such list in an object, whose other members
 * are {facts}. `undefined` without a table.
 */
function tablesOf(value) {
  const rows = rowsOf(value);
  if (rows !== undefined) return { tables: [{ rows }], facts: [] };
  if (!isObject(value)) return undefined;
  const members = Object.entries(value);
  const tables = members.flatMap(([name, it]) => {
    const inner = rowsOf(it);
    return inner === undefined ? [] : [{ name, rows: inner }];
  });
  if (tables.length === 0 || tables.length > MAX_TABLES) return undefined;
  return { tables, facts: members.filter(([, it]) => rowsOf(it) === undefined) };
}

function Tables({ tables, facts }) {
  const named = tables.length > 1 || facts.length > 0;
  return html`
    ${
      facts.length > 0 &&
      html`<dl class="tool-facts">${facts.slice(0, MAX_CHILDREN).map(([name, value]) => html`<div key=${name}><dt><bdi>${name}</bdi></dt><dd><${Cell} value=${value} depth=${0} /></dd></div>`)}</dl>`
    }
    ${tables.map(({ name, rows }) => html`<div class="sub" key=${name}>
      ${named && html`<p class="strong"><bdi>${name}</bdi></p>`}
      <${Table} rows=${rows} label=${name} depth=${0} />
    </div>`)}`;
}

function Table({ rows, label, depth }) {
  const [most, setMost] = useState(MAX_ROWS);
  const all = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const columns = all.slice(0, MAX_COLUMNS);
  const left = all.length - columns.length;
  const numeric = new Set(
    columns.filter((key) =>
      rows.every((row) => [undefined, null].includes(row[key]) || isNumber(row[key])),
    ),
  );
  const tone = (key) => (numeric.has(key) ? 'right' : '');
  return html`<div class="sub">
    <div class="table-scroll result-table" tabindex="0" role="group" aria-label=${label === undefined ? 'Result as a table' : `${label} as a table`}>
      <table>
        <thead><tr>
          ${columns.map((key) => html`<th key=${key} scope="col" class=${tone(key)}><bdi>${key}</bdi></th>`)}
        </tr></thead>
        <tbody>
          ${rows.slice(0, most).map(
            (row, at) => html`<tr key=${at}>
              ${columns.map((key) => html`<td key=${key} class=${tone(key)}><${Cell} value=${own(row, key)} name=${key} depth=${depth} /></td>`)}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    <p class="muted">${plural(rows.length, 'row')}${left > 0 && `, ${plural(left, 'more column')} in the tree`}</p>
    ${
      rows.length > most &&
      html`<button type="button" class="quiet" onClick=${() => setMost(rows.length)}>
        Show all ${plural(rows.length, 'row')}
      </button>`
    }
  </div>`;
}

/** A value in a table. A list of objects opens as a nested table, another branch as a tree. */
function Cell({ value, name, depth }) {
  const [isOpen, setOpen] = useState(false);
  if (!isBranch(value) || isEmpty(value)) return html`<bdi>${cellText(value)}</bdi>`;
  const rows = rowsOf(value);
  if (rows === undefined && Array.isArray(value) && value.length <= FEW && value.every((it) => !isBranch(it))) {
    const text = value.map(cellText).join(', ');
    if (text.length <= LONG) return html`<bdi>${text}</bdi>`;
  }
  const size = rows ? plural(rows.length, 'row') : Array.isArray(value) ? plural(value.length, 'entry', 'entries') : plural(Object.keys(value).length, 'field');
  return html`<details class="cell" onToggle=${(event) => setOpen(event.target.open)}>
    <summary>${size}</summary>
    ${
      isOpen &&
      (rows !== undefined && depth < MAX_NESTED
        ? html`<${Table} rows=${rows} label=${name} depth=${depth + 1} />`
        : html`<${Tree} value=${value} label=${name} />`)
    }
  </details>`;
}

function cellText(value) {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** A tree that folds. Branches are drawn when they are opened. */
function Tree({ value, label }) {
  return html`<div class="tree" tabindex="0" role="group" aria-label=${label === undefined ? 'Result as a tree' : `${label} as a tree`}>
    ${isEmpty(value) ? html`<${Leaf} value=${value} />` : html`<${Branch} value=${value} depth=${0} />`}
  </div>`;
}

function Branch({ name, value, depth }) {
  const list = Array.isArray(value);
  const entries = list ? value.map((it, at) => [at, it]) : Object.entries(value);
  const open = depth === 0 || (depth === 1 && entries.length <= 12);
  const [shown, setShown] = useState(open ? MAX_CHILDREN : 0);
  const left = entries.length - shown;
  const onToggle = (event) => event.target.open && shown === 0 && setShown(MAX_CHILDREN);
  return html`<details open=${open} onToggle=${onToggle}>
    <summary>
      <${Name} of=${name} />
      <span class="tree-size">${list ? '[ ] ' : '{ } '}${list ? plural(entries.length, 'entry', 'entries') : plural(entries.length, 'field')}</span>
    </summary>
    <div class="tree-children">
      ${entries
        .slice(0, shown)
        .map(([key, it]) =>
          isBranch(it) && !isEmpty(it)
            ? html`<${Branch} key=${key} name=${key} value=${it} depth=${depth + 1} />`
            : html`<${Leaf} key=${key} name=${key} value=${it} />`,
        )}
      ${
        shown > 0 &&
        left > 0 &&
        html`<button type="button" class="quiet" onClick=${() => setShown(shown + MAX_CHILDREN)}>
          Show ${Math.min(MAX_CHILDREN, left)} more
        </button>`
      }
    </div>
  </details>`;
}

function Leaf({ name, value }) {
  const [all, setAll] = useState(false);
  const [kind, text] =
    typeof value === 'string'
      ? ['j-string', value]
      : [isNumber(value) ? 'j-number' : 'j-word', JSON.stringify(value) ?? 'undefined'];
  const cut = text.length > LONG && !all;
  return html`<div class="tree-leaf">
    <${Name} of=${name} />
    <bdi class=${kind}>${cut ? `${text.slice(0, LONG)}…` : text}</bdi>
    ${
      cut &&
      html`<button type="button" class="quiet" onClick=${() => setAll(true)}>
        Show all ${plural(text.length, 'character')}
      </button>`
    }
  </div>`;
}

function Name({ of }) {
  if (of === undefined) return null;
  return html`<bdi class=${typeof of === 'number' ? 'tree-index' : 'j-key'}>${String(of)}</bdi>`;
}

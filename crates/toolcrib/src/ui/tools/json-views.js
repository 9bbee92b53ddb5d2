// A JSON value of a result: as a table when it is one, as a tree that folds, and as text.
import { html, plural, useState } from '../lib/ui.js';
import { JsonBlock } from '../lib/json-block.js';
import { Switch } from '../lib/tabs.js';
import { isNumber, isObject } from '../json.js';

const MAX_COLUMNS = 16;
const MAX_ROWS = 200;
const MAX_CHILDREN = 200;
const LONG = 400; // characters of a text shown at once

/** The views of a value, as buttons and the chosen one. `asSent` is the text that the tool sent. */
export function JsonViews({ value, asSent }) {
  const rows = tableOf(value);
  const views = [
    rows && ['table', 'Table', () => html`<${Table} rows=${rows} />`],
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

function Table({ rows }) {
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
    <div class="table-scroll result-table" tabindex="0" role="group" aria-label="Result as a table">
      <table>
        <thead><tr>
          ${columns.map((key) => html`<th scope="col" class=${tone(key)}><bdi>${key}</bdi></th>`)}
        </tr></thead>
        <tbody>
          ${rows.slice(0, most).map(
            (row) => html`<tr>
              ${columns.map((key) => html`<td class=${tone(key)}><bdi>${cellText(row, key)}</bdi></td>`)}
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

function cellText(row, key) {
  const value = Object.hasOwn(row, key) ? row[key] : undefined;
  if (value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** A tree that folds. Branches are drawn when they are opened. */
function Tree({ value }) {
  return html`<div class="tree" tabindex="0" role="group" aria-label="Result as a tree">
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

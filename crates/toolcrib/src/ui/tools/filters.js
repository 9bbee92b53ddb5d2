// Selects the tools in the list, by the search text and the chips, and groups them. Within one facet
// any chip may match; all facets must match.
import { html, render } from '../lib/ui.js';
import { classification, dangersOf, needsApproval, DANGERS } from '../lib/danger.js';
import { toolTitle } from '../lib/tool-name.js';
import { byId } from '../dom.js';
import { state, on, emit } from '../state.js';
import { href } from '../lib/address.js';
import { isQuarantined, loadPins } from './pins.js';

const { compare } = new Intl.Collator();
const ORDER = ['read', 'write', 'destructive', 'exec'];
const FACETS = [
  {
    id: 'danger',
    label: 'Tier',
    values: dangersOf,
    text: (value) => DANGERS[value]?.word ?? value,
  },
  {
    id: 'approval',
    label: 'Approval',
    values: (tool) => (needsApproval(tool) ? ['required'] : []),
    text: () => 'needs approval',
  },
  { id: 'source', label: 'Source', values: (tool) => one(classification(tool).source) },
  { id: 'kind', label: 'Kind', values: (tool) => one(classification(tool).kind) },
  { id: 'egress', label: 'Network', values: (tool) => one(classification(tool).egress), text: egressText },
  {
    id: 'credential',
    label: 'Credential',
    values: (tool) => (classification(tool).hasCredential ? ['stored'] : []),
    text: () => 'uses a stored credential',
  },
  {
    id: 'quarantined',
    label: 'Pin',
    values: (tool) => (isQuarantined(tool) ? ['quarantined'] : []),
    text: () => 'in quarantine',
  },
];
const NEEDS_TWO = new Set(['source', 'kind', 'egress']); // filtering by a single value has no effect

const EGRESS = {
  none: 'no network',
  'safe-fetch': 'checked addresses only',
  'host-mediated': 'the network, through the gateway',
  'host-owned': 'the network, on its own',
};
const GROUPS = [
  ['source', 'Source'],
  ['kind', 'Kind'],
  ['danger', 'Tier'],
  ['none', 'Nothing'],
];
const DENSITY = 'toolcrib-density';
let folded = innerWidth <= 820 || innerHeight < 900; // leaves small windows to the list

/** How the list is drawn: `group` and whether rows are `compact`. */
export const view = { group: 'source', compact: storedDensity() === 'compact' };

export function startFilters() {
  byId('filter-toggle').addEventListener('click', () => {
    folded = !folded;
    draw();
  });
  on('tools', () => {
    draw();
    // So that the first keystroke of a search is as fast as the next ones.
    setTimeout(() => state.tools.forEach(haystack), 300);
  });
  on('pins', () => {
    draw();
    if (needsPins()) emit('filter');
  });
  on('filter', () => {
    drawToggle();
    writeAddressSoon();
  });
  on('select', writeAddressSoon);
  on('who', draw);
}

/** The network access of a tool, in words. */
export function egressText(value) {
  return EGRESS[value] ?? value;
}

/** The tools that match the chips and the search, best name matches first. */
export function visibleTools() {
  const words = wordsOf(state.query);
  const passing = state.tools.filter(passesFacets);
  if (words.length === 0) return passing;
  const [named, others] = [[], []];
  for (const tool of passing) {
    const { name, all } = haystack(tool);
    if (!words.every((word) => all.includes(word))) continue;
    (words.every((word) => name.includes(word)) ? named : others).push(tool);
  }
  return named.concat(others);
}

/** The tools with these ids that pass the chips, in this order. */
export function toolsById(ids) {
  const byToolId = new Map(state.tools.map((tool) => [classification(tool).toolId, tool]));
  return ids
    .map((id) => byToolId.get(id))
    .filter((tool) => tool !== undefined && passesFacets(tool));
}

/** Returns [key, name, note, tools] for each group, in order. Without grouping: one group without a name. */
export function grouped(tools) {
  if (view.group === 'none') return [[undefined, undefined, undefined, tools]];
  const groups = new Map();
  for (const tool of tools) {
    const key = groupOf(tool);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(tool);
  }
  const order = view.group === 'danger' ? (key) => String(ORDER.indexOf(key)) : (key) => key;
  return [...groups]
    .sort(([a], [b]) => compare(order(a ?? '\uffff'), order(b ?? '\uffff')))
    .map(([key, members]) => [key, groupName(key), groupNote(members[0]), members]);
}

function groupOf(tool) {
  if (view.group === 'danger') return dangersOf(tool)[0];
  return classification(tool)[view.group];
}

function groupName(key) {
  return view.group === 'danger' && key !== undefined ? DANGERS[key].word : key;
}

function groupNote(tool) {
  return view.group === 'source' ? classification(tool).kind : undefined;
}

let pause;

/** Browsers refuse an address that changes at every keystroke. */
function writeAddressSoon() {
  clearTimeout(pause);
  pause = setTimeout(writeAddress, 300);
}

/** Puts the search and the chips into the address while no tool is open. */
function writeAddress() {
  if (state.selected !== undefined || document.body.dataset.section !== 'tools') return;
  const query = { q: state.query.trim() };
  for (const [facet, chosen] of state.filters) query[facet] = [...chosen].join(',');
  const address = Object.values(query).some((it) => it !== '')
    ? href('tools', [], query)
    : location.pathname + location.search;
  if (address !== location.hash) history.replaceState(history.state, '', address);
}

/** Takes the search and the chips from the address. */
export function readAddress(query) {
  state.query = query.get('q') ?? '';
  byId('search').value = state.query;
  state.filters.clear();
  for (const { id } of FACETS) {
    const chosen = (query.get(id) ?? '').split(',').filter((it) => it !== '');
    if (chosen.length > 0) state.filters.set(id, new Set(chosen));
  }
  emit('filter');
}

export function filtersActive() {
  return state.query.trim() !== '' || [...state.filters.values()].some((set) => set.size > 0);
}

export function clearFilters() {
  state.query = '';
  state.filters.clear();
  byId('search').value = '';
  draw();
  emit('filter');
}

export function wordsOf(text) {
  return text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
}

const haystacks = new WeakMap();

function haystack(tool) {
  let found = haystacks.get(tool);
  if (found === undefined) {
    const { toolId, source, kind } = classification(tool);
    const parts = [tool.name, toolTitle(tool), tool.description, toolId, source, kind];
    found = {
      name: tool.name.toLowerCase(),
      all: parts
        .filter((part) => typeof part === 'string')
        .join('\n')
        .toLowerCase(),
    };
    haystacks.set(tool, found);
  }
  return found;
}

/** Whether a chosen filter needs more than the list of tools. */
function needsPins() {
  return state.filters.get('quarantined')?.size > 0;
}

function passesFacets(tool) {
  return FACETS.every((facet) => {
    const chosen = state.filters.get(facet.id);
    return !chosen || chosen.size === 0 || facet.values(tool).some((value) => chosen.has(value));
  });
}

function draw() {
  const ready = state.tools.length > 0;
  const host = byId('filters');
  host.hidden = folded || !ready;
  byId('filter-toggle').hidden = !ready;
  if (ready && (needsPins() || !host.hidden)) loadPins();
  // Counting thousands of tools takes a while, so it waits until the filters are visible.
  if (!host.hidden) {
    render(html`${FACETS.map((facet) => html`<${Facet} key=${facet.id} facet=${facet} />`)}<${ViewRow} />`, host);
  }
  drawToggle();
}

function drawToggle() {
  const chosen = [...state.filters.values()].reduce((sum, set) => sum + set.size, 0);
  byId('filter-toggle').textContent = chosen === 0 ? 'Filters' : `Filters (${chosen})`;
  byId('filter-toggle').setAttribute('aria-expanded', String(!folded));
}

function Facet({ facet }) {
  const chosen = state.filters.get(facet.id);
  const counts = new Map(countsOf(facet));
  // A chosen value without tools stays, so that it can be deselected.
  for (const value of chosen ?? []) if (!counts.has(value)) counts.set(value, 0);
  if (counts.size === 0 || (NEEDS_TWO.has(facet.id) && counts.size < 2)) return null;
  const values = [...counts]
    .sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b) || compare(a, b))
    .slice(0, 60);
  const choose = (value) => {
    const set = state.filters.get(facet.id) ?? new Set();
    state.filters.set(facet.id, set);
    if (!set.delete(value)) set.add(value);
    draw();
    emit('filter');
  };
  return html`<div class="facet" role="group" aria-label=${`Filter by ${facet.label.toLowerCase()}`}>
    <span class="facet-name">${facet.label}</span>
    <div class="chips">
      ${values.map(
        ([value, count]) => html`<button type="button" class="chip" key=${value} data-facet=${facet.id}
          data-value=${value} aria-pressed=${String(chosen?.has(value) ?? false)} onClick=${() => choose(value)}>
          <bdi>${facet.text?.(value) ?? value}</bdi><span class="n">${count}</span>
        </button>`,
      )}
    </div>
  </div>`;
}

/** By facet: the counted list of tools, and how many of them have each value. */
const counted = new Map();

on('pins', () => counted.clear());

function countsOf({ id, values }) {
  const known = counted.get(id);
  if (known?.tools === state.tools) return known.counts;
  const counts = new Map();
  for (const tool of state.tools)
    for (const value of values(tool)) counts.set(value, (counts.get(value) ?? 0) + 1);
  counted.set(id, { tools: state.tools, counts });
  return counts;
}

function ViewRow() {
  const group = (event) => {
    view.group = event.target.value;
    emit('filter');
  };
  const compact = (event) => {
    view.compact = event.target.checked;
    storeDensity();
    emit('filter');
  };
  return html`<div class="facet view-row">
    <label class="facet-name" for="group-by">Group</label>
    <select id="group-by" class="input" value=${view.group} onChange=${group}>
      ${GROUPS.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
    </select>
    <label class="check"><input type="checkbox" id="compact-rows" checked=${view.compact} onChange=${compact} />Compact rows</label>
  </div>`;
}

function storedDensity() {
  try {
    return localStorage.getItem(DENSITY);
  } catch {
    return undefined;
  }
}

function storeDensity() {
  try {
    if (view.compact) localStorage.setItem(DENSITY, 'compact');
    else localStorage.removeItem(DENSITY);
  } catch {
    // The choice then lasts until the page is closed.
  }
}

function one(value) {
  return value === undefined ? [] : [value];
}

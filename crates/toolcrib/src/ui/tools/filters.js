// Selects the tools in the list, by the search text and the chips, and groups them. Within one facet
// any chip may match; all facets must match.
import { h, byId } from '../dom.js';
import { state, on, emit } from '../state.js';
import { classification, dangersOf, needsApproval, DANGERS } from './badges.js';
import { href } from '../shell/routes.js';
import { factsOf, loadFacts } from './facts.js';

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
  { id: 'egress', label: 'Network', values: (tool) => one(factsOf(tool).egress), text: egressText },
  {
    id: 'credential',
    label: 'Credential',
    values: (tool) => (factsOf(tool).credential ? ['stored'] : []),
    text: () => 'uses a stored credential',
  },
  {
    id: 'quarantined',
    label: 'Pin',
    values: (tool) => (factsOf(tool).quarantined ? ['quarantined'] : []),
    text: () => 'in quarantine',
  },
];
/** The facets that need more than the list of tools. */
const FROM_FACTS = ['egress', 'credential', 'quarantined'];
const NEEDS_TWO = new Set(['source', 'kind', 'egress']); // a single value would filter nothing

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
  on('facts', () => {
    draw();
    if (FROM_FACTS.some((id) => state.filters.get(id)?.size > 0)) emit('filter');
  });
  on('filter', () => {
    drawToggle();
    writeAddressSoon();
  });
  on('select', writeAddressSoon);
  on('who', draw);
}

/** Where the calls of a tool go, in words. */
export function egressText(value) {
  return EGRESS[value] ?? value;
}

/** Returns the tools that match the chips and the search, best name matches first. */
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

/** Returns the tools with these ids that pass the chips, in this order. */
export function toolsById(ids) {
  const byToolId = new Map(state.tools.map((tool) => [classification(tool).toolId, tool]));
  return ids
    .map((id) => byToolId.get(id))
    .filter((tool) => tool !== undefined && passesFacets(tool));
}

/** Returns [key, name, note, tools] for each group, in order; one group without a name for none. */
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
  draw();
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
    const parts = [tool.name, tool.annotations?.title, tool.description, toolId, source, kind];
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
  if (ready && FROM_FACTS.some((id) => state.filters.get(id)?.size > 0)) loadFacts();
  // Counting takes a while with thousands of tools, so it is done when someone looks.
  if (!host.hidden) {
    loadFacts();
    const focused = host.contains(document.activeElement) ? document.activeElement : undefined;
    host.replaceChildren(...FACETS.map(facetGroup).filter((it) => it !== undefined), viewRow());
    if (focused) controlLike(focused, host)?.focus({ preventScroll: true });
  }
  drawToggle();
}

/** Returns the control that has taken the place of `old`. */
function controlLike(old, host) {
  const { facet, value } = old.dataset;
  return [...host.querySelectorAll('button, select, input')].find(
    (it) => it.id === old.id && it.dataset.facet === facet && it.dataset.value === value,
  );
}

function drawToggle() {
  const chosen = [...state.filters.values()].reduce((sum, set) => sum + set.size, 0);
  byId('filter-toggle').textContent = chosen === 0 ? 'Filters' : `Filters (${chosen})`;
  byId('filter-toggle').setAttribute('aria-expanded', String(!folded));
}

function facetGroup(facet) {
  const counts = new Map();
  for (const tool of state.tools) {
    for (const value of facet.values(tool)) counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  const chosen = state.filters.get(facet.id);
  // A chosen value without tools stays, so that it can be taken back.
  for (const value of chosen ?? []) if (!counts.has(value)) counts.set(value, 0);
  if (counts.size === 0 || (NEEDS_TWO.has(facet.id) && counts.size < 2)) return undefined;
  const chips = [...counts]
    .sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b) || compare(a, b))
    .slice(0, 60)
    .map(([value, count]) => chip(facet, value, count));
  return h(
    'div',
    { class: 'facet', role: 'group', 'aria-label': `Filter by ${facet.label.toLowerCase()}` },
    h('span', { class: 'facet-name', text: facet.label }),
    h('div', { class: 'chips' }, chips),
  );
}

function chip(facet, value, count) {
  const active = () => state.filters.get(facet.id)?.has(value) ?? false;
  const element = h(
    'button',
    {
      type: 'button',
      class: 'chip',
      'aria-pressed': String(active()),
      data: { facet: facet.id, value },
      on: {
        click: () => {
          if (!state.filters.has(facet.id)) state.filters.set(facet.id, new Set());
          const set = state.filters.get(facet.id);
          if (!set.delete(value)) set.add(value);
          element.setAttribute('aria-pressed', String(active()));
          emit('filter');
        },
      },
    },
    h('bdi', { text: facet.text?.(value) ?? value }),
    h('span', { class: 'n', text: count }),
  );
  return element;
}

function viewRow() {
  const group = h(
    'select',
    {
      id: 'group-by',
      class: 'input',
      on: {
        change: () => {
          view.group = group.value;
          emit('filter');
        },
      },
    },
    GROUPS.map(([value, text]) => h('option', { value, text })),
  );
  group.value = view.group;
  const compact = h('input', {
    type: 'checkbox',
    id: 'compact-rows',
    checked: view.compact,
    on: {
      change: () => {
        view.compact = compact.checked;
        storeDensity();
        emit('filter');
      },
    },
  });
  return h(
    'div',
    { class: 'facet view-row' },
    h('label', { class: 'facet-name', for: 'group-by', text: 'Group' }),
    group,
    h('label', { class: 'check' }, compact, 'Compact rows'),
  );
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

// Selects the tools in the list, by the search text and the chips. Within one facet any chip may
// match; all facets must match.
import { h, byId } from './dom.js';
import { state, on, emit } from './state.js';
import { hintsOf, hintLabels, classification, needsApproval } from './badges.js';

const FACETS = [
  {
    id: 'tier',
    label: 'Tier',
    values: (tool) => one(classification(tool).tier),
    text: (value) => value,
  },
  { id: 'hint', label: 'Hint', values: hintsOf, text: (value) => hintLabels.get(value) },
  {
    id: 'approval',
    label: 'Gate',
    values: (tool) => (needsApproval(tool) ? ['required'] : []),
    text: () => 'needs approval',
  },
  {
    id: 'source',
    label: 'Source',
    values: (tool) => one(classification(tool).source),
    text: (value) => value,
  },
  {
    id: 'kind',
    label: 'Kind',
    values: (tool) => one(classification(tool).kind),
    text: (value) => value,
  },
];
const NEEDS_TWO = new Set(['source', 'kind']); // a single value would filter nothing

const TIERS = ['read', 'write', 'exec'];
let folded = innerWidth <= 820 || innerHeight < 900; // leaves small windows to the list

export function startFilters() {
  byId('filter-toggle').addEventListener('click', () => {
    folded = !folded;
    draw();
  });
  on('tools', draw);
  on('filter', drawToggle);
}

/** Returns the tools that match the chips and the search, best name matches first. */
export function visibleTools() {
  const words = state.query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  return state.tools
    .filter((tool) => passesFacets(tool) && words.every((word) => haystack(tool).includes(word)))
    .map((tool) => ({
      tool,
      rank:
        words.length > 0 && words.every((word) => tool.name.toLowerCase().includes(word)) ? 0 : 1,
    }))
    .sort((a, b) => a.rank - b.rank) // stable: the server's order stays within a rank
    .map(({ tool }) => tool);
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

const haystacks = new WeakMap();

function haystack(tool) {
  if (!haystacks.has(tool)) {
    const { toolId, source, kind } = classification(tool);
    const parts = [tool.name, tool.annotations?.title, tool.description, toolId, source, kind];
    haystacks.set(
      tool,
      parts
        .filter((part) => typeof part === 'string')
        .join('\n')
        .toLowerCase(),
    );
  }
  return haystacks.get(tool);
}

function passesFacets(tool) {
  return FACETS.every((facet) => {
    const chosen = state.filters.get(facet.id);
    return !chosen || chosen.size === 0 || facet.values(tool).some((value) => chosen.has(value));
  });
}

function draw() {
  const groups = FACETS.map(facetGroup).filter((group) => group !== undefined);
  const host = byId('filters');
  host.hidden = folded || groups.length === 0;
  host.replaceChildren(...groups);
  byId('filter-toggle').hidden = groups.length === 0;
  drawToggle();
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
  for (const value of chosen ?? []) if (!counts.has(value)) chosen.delete(value); // removed by a refresh
  if (counts.size === 0 || (NEEDS_TWO.has(facet.id) && counts.size < 2)) return undefined;
  const chips = [...counts]
    .sort(([a], [b]) => TIERS.indexOf(a) - TIERS.indexOf(b) || a.localeCompare(b))
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
    h('span', { text: facet.text(value) }),
    h('span', { class: 'n', text: count }),
  );
  return element;
}

function one(value) {
  return value === undefined ? [] : [value];
}

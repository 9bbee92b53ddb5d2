// The left pane: states (loading, sign-in, error, empty), groups by source, keyboard navigation.
import { h, byId, button, plural } from './dom.js';
import { state, on, emit } from './state.js';
import { classification } from './badges.js';
import { item } from './list-item.js';
import { whyEmpty } from './why.js';
import { startFilters, visibleTools, filtersActive, clearFilters } from './filters.js';

const PAGE = 200; // rows drawn at once; more are added while scrolling
let shown = PAGE;
const collapsed = new Set();

export function startList({ reload }) {
  const search = byId('search');
  startFilters();
  byId('refresh').addEventListener('click', reload);
  search.addEventListener('input', () => {
    state.query = search.value;
    emit('filter');
  });
  search.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && search.value === '') search.blur();
    if (event.key === 'ArrowDown') {
      event.preventDefault();
      rows()[0]?.focus();
    }
    // Ctrl+Enter executes the open tool.
    if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      rows()[0]?.click();
    }
  });
  byId('tools').addEventListener('keydown', moveFocus);
  on('tools', () => draw({ reload }));
  on('filter', () => {
    shown = PAGE;
    draw({ reload });
  });
  on('select', markSelected);
}

function draw({ reload }) {
  const host = byId('tools');
  const focused = host.contains(document.activeElement)
    ? document.activeElement.dataset.name
    : undefined;
  host.setAttribute('aria-busy', String(state.status === 'loading'));
  byId('refresh').hidden = state.status === 'signin' || state.status === 'idle';
  byId('refresh').disabled = state.status === 'loading';
  byId('refresh').textContent = state.status === 'loading' ? 'Loading…' : 'Refresh';
  if (state.status === 'ready') drawTools(host);
  else host.replaceChildren(notice(reload));
  byId('count').textContent = countText();
  if (focused !== undefined)
    rows()
      .find((row) => row.dataset.name === focused)
      ?.focus();
}

function countText() {
  if (state.status !== 'ready') return '';
  const total = plural(state.tools.length, 'tool');
  const skipped = state.skipped > 0 ? `, ${state.skipped} unreadable` : '';
  return (filtersActive() ? `${visibleTools().length} of ${total}` : total) + skipped;
}

function notice(reload) {
  if (state.status === 'loading') {
    return h(
      'div',
      { class: 'notice', id: 'loading' },
      h('p', { text: 'Loading tools…' }),
      [1, 2, 3, 4].map(() => h('div', { class: 'ghost' })),
    );
  }
  if (state.status === 'signin') {
    return h(
      'div',
      { class: 'notice' },
      h('p', { class: 'strong', text: 'Sign in to see tools' }),
      h('p', { text: state.problem }),
      button('Enter a key', () => byId('token').focus()),
    );
  }
  if (state.status === 'idle') {
    return h(
      'div',
      { class: 'notice' },
      h('p', { text: 'The key has changed. Use it to load its tools.' }),
      button('Use key', reload),
    );
  }
  return h(
    'div',
    { class: 'notice bad', role: 'alert' },
    h('p', { class: 'strong', text: 'The tools could not be loaded' }),
    h('p', { text: state.problem }),
    button('Try again', reload),
  );
}

function drawTools(host) {
  if (state.tools.length === 0) {
    host.replaceChildren(
      h(
        'div',
        { class: 'notice' },
        h('p', { class: 'strong', text: 'No tools' }),
        h('p', {
          text:
            state.token === ''
              ? 'This server offers no tools.'
              : 'The key is valid, but none of its scopes grants a tool.',
        }),
        state.token === '' ? undefined : whyEmpty(),
      ),
    );
    return;
  }
  const tools = visibleTools();
  if (tools.length === 0) {
    host.replaceChildren(
      h(
        'div',
        { class: 'notice' },
        h('p', { class: 'strong', text: 'No matches' }),
        h('p', { text: 'No tool matches the search and the filters.' }),
        button('Clear search and filters', clearFilters),
      ),
    );
    return;
  }
  const groups = bySource(tools);
  let room = shown;
  const parts = [];
  for (const [source, members] of groups) {
    const open = !collapsed.has(source);
    parts.push(group(source, members, room));
    if (open && members.length > room) {
      parts.push(moreButton(host));
      break;
    }
    if (open) room -= members.length;
  }
  host.replaceChildren(...parts);
}

function moreButton(host) {
  const more = button(
    'Show more tools',
    () => {
      shown += PAGE;
      drawTools(host);
    },
    { class: 'button wide' },
  );
  new IntersectionObserver(
    (entries, observer) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      more.click();
    },
    { root: host },
  ).observe(more);
  return more;
}

function bySource(tools) {
  const groups = new Map();
  for (const tool of tools) {
    const source = classification(tool).source;
    if (!groups.has(source)) groups.set(source, []);
    groups.get(source).push(tool);
  }
  return [...groups].sort(([a], [b]) => (a ?? '\uffff').localeCompare(b ?? '\uffff'));
}

function group(source, tools, room) {
  const items = h('ul', { class: 'items' }, tools.slice(0, room).map(item));
  if (source === undefined) return items; // the server does not name the sources of tools
  const { kind } = classification(tools[0]);
  items.hidden = collapsed.has(source);
  const heading = h(
    'button',
    {
      type: 'button',
      class: 'group-head',
      'aria-expanded': String(!items.hidden),
      on: {
        click: () => {
          if (!collapsed.delete(source)) collapsed.add(source);
          items.hidden = collapsed.has(source);
          heading.setAttribute('aria-expanded', String(!items.hidden));
        },
      },
    },
    h('span', { class: 'twist', 'aria-hidden': 'true' }),
    h('bdi', { text: source }),
    kind === undefined ? undefined : h('span', { class: 'group-kind', text: kind }),
    h('span', { class: 'n', text: tools.length }),
  );
  return h('section', { class: 'group', 'aria-label': source }, h('h2', {}, heading), items);
}

function rows() {
  return [...byId('tools').querySelectorAll('button.item')].filter(
    (row) => row.offsetParent !== null,
  );
}

function moveFocus(event) {
  const list = rows();
  const at = list.indexOf(document.activeElement);
  if (at < 0) return;
  const target = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: list.length - 1 }[event.key];
  if (target === undefined) return;
  event.preventDefault();
  (target < 0 ? byId('search') : list[target])?.focus();
}

function markSelected() {
  for (const row of byId('tools').querySelectorAll('button.item')) {
    const open = row.dataset.name === state.selected;
    row.setAttribute('aria-expanded', String(open));
    if (open) row.scrollIntoView({ block: 'nearest' });
  }
}

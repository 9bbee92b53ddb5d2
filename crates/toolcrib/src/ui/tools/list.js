// The left pane: states (loading, sign-in, error, stale, empty), groups, keyboard navigation.
//
// The list is virtual: of thousands of rows only those near the window are in the document. Every
// row of a kind has the same height, so a position is computed and never measured.
import { h, byId, button, icon, plural, setText } from '../dom.js';
import { state, on, emit, select } from '../state.js';
import { request } from '../api.js';
import { firstRun } from '../shell/first-run.js';
import { hasGateway } from '../shell/session.js';
import { classification, dangersOf, needsApproval, DANGERS } from './badges.js';
import { whyEmpty } from './why.js';
import {
  clearFilters,
  filtersActive,
  grouped,
  startFilters,
  toolsById,
  view,
  visibleTools,
  wordsOf,
} from './filters.js';

const HEAD = 30;
const ROW = { comfortable: 56, compact: 32 };
/** Rows drawn above and below the window. */
const BEYOND = 10;
/** After the last keystroke, before the server is searched. */
const SEARCH_PAUSE = 200;
const SEARCH_LIMIT = 30;

const collapsed = new Set();
/** The rows of the present list, their positions, and what of them is in the document. */
let rows = [];
let tops = [];
let shown = 0;
const drawn = new Map();
let space;
let sticky;
/** The index of the row that the keyboard is on. */
let active = -1;
/** What the server found: {query, ids}. */
let found;

export function startList({ reload }) {
  const search = byId('search');
  const host = byId('tools');
  startFilters();
  byId('refresh').addEventListener('click', reload);
  search.addEventListener('input', () => {
    state.query = search.value;
    emit('filter');
    searchServer();
  });
  search.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && search.value === '') search.blur();
    if (event.key === 'ArrowDown') {
      event.preventDefault();
      focusRow(next(-1, 1));
    }
    // Ctrl+Enter executes the open tool.
    if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      const first = rows.find((row) => row.tool);
      if (first) openTool(first.tool.name);
    }
  });
  host.addEventListener('keydown', moveFocus);
  host.addEventListener('scroll', schedule, { passive: true });
  addEventListener('scroll', schedule, { passive: true });
  addEventListener('resize', schedule, { passive: true });
  on('tools', () => {
    found = undefined;
    draw({ reload });
  });
  on('filter', () => draw({ reload, toTop: true }));
  on('first-run', () => draw({ reload }));
  on('select', markSelected);
  on('focus-list', () => focusRow(rows.findIndex((row) => row.tool?.name === state.selected)));
}

function draw({ reload, toTop = false }) {
  const host = byId('tools');
  const focused = host.contains(document.activeElement)
    ? document.activeElement.dataset.name
    : undefined;
  // While a list is refreshed the former one stays, so that nothing moves under the pointer.
  const ready = state.status === 'ready' || (state.status === 'loading' && state.tools.length > 0);
  host.setAttribute('aria-busy', String(state.status === 'loading'));
  byId('refresh').hidden = state.status === 'signin' || state.status === 'idle';
  byId('refresh').disabled = state.status === 'loading';
  byId('refresh').textContent = state.status === 'loading' ? 'Loading…' : 'Refresh';
  rows = [];
  if (ready) drawTools(host, toTop);
  else clear(host, notice(reload));
  byId('count').textContent = countText(ready);
  byId('stale').hidden = !state.stale || !ready;
  setText(byId('stale'), state.stale ? `Not refreshed: ${state.stale}` : '');
  if (focused !== undefined) {
    const at = rows.findIndex((row) => row.tool?.name === focused);
    if (at >= 0) focusRow(at, { scroll: false });
  }
}

function countText(ready) {
  if (!ready) return '';
  const total = plural(state.tools.length, 'tool');
  const skipped = state.skipped > 0 ? `, ${state.skipped} unreadable` : '';
  const stale = state.stale ? ', not current' : '';
  return (filtersActive() ? `${shown} of ${total}` : total) + skipped + stale;
}

function notice(reload) {
  if (state.status === 'loading') {
    return h(
      'div',
      { class: 'notice', id: 'loading' },
      h('p', { text: 'Loading tools…' }),
      [1, 2, 3, 4, 5, 6, 7, 8].map(() => h('div', { class: 'ghost' })),
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

function clear(host, ...content) {
  drawn.clear();
  space = undefined;
  active = -1;
  host.replaceChildren(...content);
}

function whyNone() {
  if (firstRun()) return 'The first steps say how to get some.';
  if (state.token === '') return 'This server offers no tools.';
  return 'The key is valid, but none of its scopes grants a tool.';
}

function drawTools(host, toTop) {
  if (state.tools.length === 0) {
    shown = 0;
    clear(
      host,
      h(
        'div',
        { class: 'notice' },
        h('p', { class: 'strong', text: firstRun() ? 'No tools yet' : 'No tools' }),
        h('p', { text: whyNone() }),
        state.token === '' || firstRun() ? undefined : whyEmpty(),
      ),
    );
    return;
  }
  const tools = visibleTools();
  shown = tools.length;
  rows = rowsOf(tools);
  if (rows.length === 0) {
    clear(
      host,
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
  place();
  if (space === undefined) {
    sticky = h('div', { class: 'group-stick', 'aria-hidden': 'true' });
    space = h('ul', { class: 'items', 'aria-label': 'Tools' });
    host.replaceChildren(sticky, space);
  }
  host.classList.toggle('compact-rows', view.compact);
  for (const element of drawn.values()) element.remove();
  drawn.clear();
  space.style.height = `${tops[rows.length]}px`;
  if (toTop) host.scrollTop = 0;
  active = rows.findIndex((row) => row.tool?.name === state.selected);
  paint();
}

/** The rows: heads of groups, tools, and what only the server found. */
function rowsOf(tools) {
  const list = [];
  const tool = (it, from) => ({ key: `t:${it.name}`, tool: it, from });
  for (const [key, name, note, members] of grouped(tools)) {
    if (name !== undefined) {
      list.push({ key: `g:${view.group}:${key}`, head: name, note, count: members.length });
      if (collapsed.has(`g:${view.group}:${key}`)) continue;
    }
    for (const member of members) list.push(tool(member));
  }
  const extra = serverMatches(tools);
  if (extra.length > 0) {
    list.push({
      key: 'g:server',
      head: 'Related',
      note: 'found by the server',
      count: extra.length,
    });
    if (!collapsed.has('g:server')) for (const it of extra) list.push(tool(it, 'server'));
  }
  return list;
}

function place() {
  const height = view.compact ? ROW.compact : ROW.comfortable;
  tops = new Array(rows.length + 1);
  tops[0] = 0;
  rows.forEach((row, at) => {
    tops[at + 1] = tops[at] + (row.tool ? height : HEAD);
  });
}

let waiting = false;

function schedule() {
  if (waiting || space === undefined) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    if (space !== undefined) paint();
  });
}

/** The part of the list that is on screen: in the pane, or in the page where the pane is not one. */
function visiblePart() {
  const box = byId('tools').getBoundingClientRect();
  const top = space.getBoundingClientRect().top;
  return [Math.max(box.top, 0) - top, Math.min(box.bottom, innerHeight) - top];
}

/** The index of the row at a position. */
function rowAt(position) {
  let [low, high] = [0, rows.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= position) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Brings the document in line with the window. The row with the focus always stays in it. */
function paint() {
  if (rows.length === 0) return;
  const [top, bottom] = visiblePart();
  const first = Math.max(rowAt(top) - BEYOND, 0);
  const last = Math.min(rowAt(Math.max(bottom, 0)) + BEYOND, rows.length - 1);
  const wanted = new Map();
  for (let at = first; at <= last; at += 1) wanted.set(rows[at].key, at);
  if (active >= 0 && active < rows.length) wanted.set(rows[active].key, active);
  for (const [key, element] of drawn) {
    if (wanted.has(key)) continue;
    element.remove();
    drawn.delete(key);
  }
  let before = space.firstElementChild;
  for (const [key, at] of [...wanted].sort(([, a], [, b]) => a - b)) {
    let element = drawn.get(key);
    if (element === undefined) {
      element = rows[at].tool ? toolRow(rows[at], at) : headRow(rows[at]);
      element.style.transform = `translateY(${tops[at]}px)`;
      drawn.set(key, element);
      space.insertBefore(element, before);
    } else if (element === before) {
      before = before.nextElementSibling;
    } else {
      space.insertBefore(element, before);
    }
  }
  drawSticky(top);
  markStop();
}

/** The head of the group at the top of the window, which a list of placed rows cannot keep itself. */
function drawSticky(top) {
  let at = rowAt(top);
  while (at > 0 && rows[at].tool) at -= 1;
  const row = rows[at];
  sticky.hidden = row.tool !== undefined || top <= 0;
  if (!sticky.hidden && sticky.dataset.key !== row.key) {
    sticky.dataset.key = row.key;
    sticky.replaceChildren(...headParts(row));
  }
}

function headParts({ head, note, count, key }) {
  return [
    h('span', { class: `twist${collapsed.has(key) ? '' : ' open'}`, 'aria-hidden': 'true' }),
    h('bdi', { text: head }),
    note === undefined ? '' : h('span', { class: 'group-kind', text: note }),
    h('span', { class: 'n', text: count }),
  ];
}

function headRow(row) {
  const heading = h(
    'button',
    {
      type: 'button',
      class: 'group-head',
      'aria-expanded': String(!collapsed.has(row.key)),
      tabindex: '-1',
      on: {
        click: () => {
          if (!collapsed.delete(row.key)) collapsed.add(row.key);
          rows = rowsOf(visibleTools());
          redraw();
          drawn.get(row.key)?.querySelector('button').focus();
        },
      },
    },
    ...headParts(row),
  );
  return h('li', { class: 'group' }, h('h2', {}, heading));
}

/** Draws the rows again at the same place. */
function redraw() {
  place();
  for (const element of drawn.values()) element.remove();
  drawn.clear();
  space.style.height = `${tops[rows.length]}px`;
  active = Math.min(active, rows.length - 1);
  paint();
}

function toolRow({ tool, from }, at) {
  const title = typeof tool.annotations?.title === 'string' ? tool.annotations.title : undefined;
  const line = firstLine(tool.description) || title || '';
  const [level] = dangersOf(tool);
  return h(
    'li',
    { 'aria-setsize': rows.length, 'aria-posinset': at + 1 },
    h(
      'button',
      {
        type: 'button',
        class: 'item',
        data: { name: tool.name, ...(from ? { from } : {}) },
        title: title && title !== tool.name ? title : undefined,
        'aria-expanded': String(tool.name === state.selected),
        'aria-controls': 'detail',
        tabindex: '-1',
        on: { click: () => openTool(tool.name) },
      },
      h(
        'span',
        { class: 'item-top' },
        h('bdi', { class: 'name' }, marked(tool.name)),
        needsApproval(tool)
          ? h('span', { class: 'level violet', title: 'Needs approval' }, icon('key'), 'approval')
          : undefined,
        level === undefined
          ? undefined
          : h('span', { class: `level ${DANGERS[level].tone}` }, icon(level), DANGERS[level].word),
      ),
      view.compact ? undefined : h('bdi', { class: 'item-text' }, marked(line)),
    ),
  );
}

function openTool(name) {
  state.opened = name; // the focus follows
  const hash = `#tool=${encodeURIComponent(name)}`;
  if (location.hash === hash) emit('focus-tool');
  else location.hash = hash;
  select(name);
}

function firstLine(text) {
  return (
    text
      .split('\n', 20)
      .find((line) => line.trim() !== '')
      ?.trim()
      .slice(0, 200) ?? ''
  );
}

/** The text with the first matching search word highlighted. */
function marked(text) {
  const lower = text.toLowerCase();
  // Lower-casing can change the length of a text (İ), which would shift the highlight.
  if (lower.length !== text.length) return [text];
  for (const word of wordsOf(state.query)) {
    const at = lower.indexOf(word);
    if (at >= 0)
      return [
        text.slice(0, at),
        h('mark', { text: text.slice(at, at + word.length) }),
        text.slice(at + word.length),
      ];
  }
  return [text];
}

// The server knows more words than the names and descriptions here, so it is searched too.

let pause;

function searchServer() {
  clearTimeout(pause);
  const query = state.query.trim();
  if (!hasGateway || state.who === undefined || query.length < 2) return;
  pause = setTimeout(async () => {
    const toolset = new URLSearchParams(location.search).get('toolset');
    const parameters = new URLSearchParams({ q: query, limit: String(SEARCH_LIMIT) });
    if (toolset !== null) parameters.set('toolset', toolset);
    let reply;
    try {
      reply = await request('GET', `/v1/tools?${parameters}`);
    } catch {
      return; // the local matches remain
    }
    const list = Array.isArray(reply.data) ? reply.data : reply.data?.tools;
    if (state.query.trim() !== query || reply.status !== 200 || !Array.isArray(list)) return;
    found = { query, ids: list.map((tool) => tool?.toolId) };
    // Added at the end: the rows above stay where they are.
    const local = visibleTools();
    if (serverMatches(local).length === 0) return;
    const host = byId('tools');
    if (space === undefined) drawTools(host, false);
    rows = rowsOf(local);
    redraw();
  }, SEARCH_PAUSE);
}

/** The tools that only the server found for the present search. */
function serverMatches(local) {
  if (found === undefined || found.query !== state.query.trim()) return [];
  const here = new Set(local);
  return toolsById(found.ids).filter((tool) => !here.has(tool));
}

// Keyboard.

/** The next tool from a row, in a direction; -1 when there is none. */
function next(from, step) {
  for (let at = from + step; at >= 0 && at < rows.length; at += step) if (rows[at].tool) return at;
  return -1;
}

function moveFocus(event) {
  const name = document.activeElement?.dataset?.name;
  const at = name === undefined ? active : rows.findIndex((row) => row.tool?.name === name);
  if (at < 0) return;
  const [top, bottom] = visiblePart();
  const page = Math.max(
    Math.floor((bottom - top) / (view.compact ? ROW.compact : ROW.comfortable)) - 1,
    1,
  );
  const target = {
    ArrowDown: () => next(at, 1),
    ArrowUp: () => next(at, -1),
    PageDown: () => next(Math.min(at + page, rows.length) - 1, 1),
    PageUp: () => next(Math.max(at - page, 0) + 1, -1),
    Home: () => next(-1, 1),
    End: () => next(rows.length, -1),
  }[event.key]?.();
  if (target === undefined) return;
  event.preventDefault();
  if (target >= 0) focusRow(target);
  else if (event.key === 'ArrowUp') byId('search').focus();
}

function focusRow(at, { scroll = true } = {}) {
  if (at < 0) return;
  active = at;
  if (scroll) reveal(at);
  paint();
  drawn.get(rows[at].key)?.querySelector('button').focus({ preventScroll: true });
}

/** Scrolls the least that shows a row. */
function reveal(at) {
  const [top, bottom] = visiblePart();
  const host = byId('tools');
  const scroller = getComputedStyle(host).overflowY === 'visible' ? window : host;
  const above = tops[at] - HEAD - top;
  const below = tops[at + 1] + 4 - bottom;
  if (above < 0) scroller.scrollBy(0, above);
  else if (below > 0) scroller.scrollBy(0, below);
}

/** One row can be reached with the tab key. */
function markStop() {
  const stop = active >= 0 && rows[active]?.tool ? active : next(-1, 1);
  for (const [key, element] of drawn) {
    const control = element.querySelector('button');
    control.tabIndex = key === rows[stop]?.key || key.startsWith('g:') ? 0 : -1;
  }
}

function markSelected() {
  const at = rows.findIndex((row) => row.tool?.name === state.selected);
  if (at >= 0) {
    active = at;
    if (space !== undefined && byId('tools').offsetParent !== null) reveal(at);
  }
  if (space !== undefined) paint();
  for (const element of drawn.values()) {
    const control = element.querySelector('button.item');
    control?.setAttribute('aria-expanded', String(control.dataset.name === state.selected));
  }
}

// The left pane: states (loading, sign-in, error, stale, empty), groups, keyboard navigation.
//
// The list is virtual: of thousands of rows only those near the window are in the document. Every
// row of a kind has the same height, so a position is computed and never measured.
import { html, number, plural, render, unlessSame, Icon } from '../lib/ui.js';
import { dangersOf, needsApproval, DANGERS } from '../lib/danger.js';
import { toolTitle } from '../lib/tool-name.js';
import { byId } from '../dom.js';
import { state, on, emit, select } from '../state.js';
import { request } from '../api.js';
import { firstRun } from '../shell/first-run.js';
import { focusToken } from '../auth.js';
import { hasGateway, isSignedIn } from '../shell/session.js';
import { WhyEmpty } from './why.js';
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
/** The pause between the last keystroke and the search by the server, in ms. */
const SEARCH_PAUSE = 200;
const SEARCH_LIMIT = 30;

const collapsed = new Set();
/** The rows of the current list, and their positions. */
let rows = [];
let tops = [];
let shown = 0;
/** The element of the rows, and the indexes of those that are in the document. */
const space = { current: undefined };
let wanted = [];
/** The index of the row that the keyboard is on. */
let active = -1;
/** The matches of the server: {query, ids}. */
let found;

let reload;

export function startList(actions) {
  ({ reload } = actions);
  const search = byId('search');
  const host = byId('tools');
  host.replaceChildren(); // the document has a note until this module is loaded
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
    draw();
  });
  on('filter', () => draw({ toTop: true }));
  on('first-run', () => draw());
  on('select', markSelected);
  on('focus-list', () => focusRow(rows.findIndex((row) => row.tool?.name === state.selected)));
}

function draw({ toTop = false } = {}) {
  const host = byId('tools');
  // During a refresh the former list stays, so that rows do not move under the pointer.
  const ready = state.status === 'ready' || (state.status === 'loading' && state.tools.length > 0);
  host.setAttribute('aria-busy', String(state.status === 'loading'));
  byId('refresh').hidden = state.status === 'signin' || state.status === 'idle';
  byId('refresh').disabled = state.status === 'loading';
  byId('refresh').textContent = state.status === 'loading' ? 'Loading…' : 'Refresh';
  const focused = host.contains(document.activeElement)
    ? document.activeElement.dataset.name
    : undefined;
  const tools = ready ? visibleTools() : [];
  shown = tools.length;
  rows = rowsOf(tools);
  place();
  host.classList.toggle('compact-rows', view.compact);
  if (toTop) host.scrollTop = 0;
  active = rows.findIndex((row) => row.tool?.name === state.selected);
  if (rows.length > 0) paint();
  else render(html`<${Note} ready=${ready} />`, host);
  byId('count').textContent = countText(ready);
  byId('stale').hidden = !state.stale || !ready;
  render(html`${state.stale ? `Not refreshed: ${state.stale}` : ''}`, byId('stale'));
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
  const coming = state.coming > 0 ? `, ${number(state.coming)} more are loading` : '';
  return (filtersActive() ? `${number(shown)} of ${total}` : total) + skipped + stale + coming;
}

/** Shown in place of a list without rows. */
function Note({ ready }) {
  const again = (word) => html`<button type="button" class="button" onClick=${reload}>${word}</button>`;
  if (ready && state.tools.length > 0)
    return html`<div class="notice">
      <p class="strong">No matches</p>
      <p>No tool matches the search and the filters.</p>
      <button type="button" class="button" onClick=${clearFilters}>Clear search and filters</button>
    </div>`;
  if (ready)
    return html`<div class="notice">
      <p class="strong">${firstRun() ? 'No tools yet' : 'No tools'}</p>
      <p>${whyNone()}</p>
      ${isSignedIn() && !firstRun() && html`<${WhyEmpty} />`}
    </div>`;
  if (state.status === 'loading')
    return html`<div class="notice" id="loading">
      <p>Loading tools…</p>
      ${[1, 2, 3, 4, 5, 6, 7, 8].map((at) => html`<div class="ghost" key=${at}></div>`)}
    </div>`;
  if (state.status === 'signin')
    return html`<div class="notice">
      <p class="strong">Sign in to see tools</p>
      <p>${state.problem}</p>
      <button type="button" class="button" onClick=${focusToken}>Enter a key</button>
    </div>`;
  if (state.status === 'idle')
    return html`<div class="notice">
      <p>The key has changed. Use it to load its tools.</p>
      ${again('Use key')}
    </div>`;
  return html`<div class="notice bad" role="alert">
    <p class="strong">The tools could not be loaded</p>
    <p>${state.problem}</p>
    ${again('Try again')}
  </div>`;
}

function whyNone() {
  if (firstRun()) return 'The first steps show how to add some.';
  if (!isSignedIn()) return 'This server offers no tools.';
  return 'The key is valid, but its scopes grant no tool.';
}

/** The rows: heads of groups, tools, and matches of the server alone. */
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
  // Set at once, because a shorter list is scrolled back.
  if (space.current) space.current.style.height = `${tops[rows.length]}px`;
}

let waiting = false;

function schedule() {
  if (waiting || rows.length === 0) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    paint();
  });
}

/** The visible part of the list: in the pane, or in the page if the pane does not scroll. */
function visiblePart() {
  const box = byId('tools').getBoundingClientRect();
  // Before the first rows the list starts at the top.
  const top = space.current?.getBoundingClientRect().top ?? box.top;
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

/** Draws the rows near the window. The row with the focus always stays in the document. */
function paint() {
  if (rows.length === 0) return;
  const [top, bottom] = visiblePart();
  const first = Math.max(rowAt(top) - BEYOND, 0);
  const last = Math.min(rowAt(Math.max(bottom, 0)) + BEYOND, rows.length - 1);
  wanted = [];
  if (active >= 0 && active < first) wanted.push(active);
  for (let at = first; at <= last; at += 1) wanted.push(at);
  if (active > last && active < rows.length) wanted.push(active);
  const stop = active >= 0 && rows[active]?.tool ? active : next(-1, 1);
  const focused = document.activeElement;
  const list = html`
    <${Sticky} row=${rows[headOf(top)]} hidden=${top <= 0} />
    <ul class="items" aria-label="Tools" ref=${space} style=${{ height: `${tops[rows.length]}px` }}>
      ${wanted.map((at) => {
        const row = rows[at];
        const isOpen = row.tool ? row.tool.name === state.selected : !collapsed.has(row.key);
        return html`<${Row} key=${row.key} ...${{ row, at, isOpen }} isStop=${at === stop} />`;
      })}
    </ul>`;
  render(list, byId('tools'));
  // A row that moves among the others loses the focus.
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

/** The index of the head of the group at a position, or 0. */
function headOf(position) {
  let at = rowAt(position);
  while (at > 0 && rows[at].tool) at -= 1;
  return at;
}

/** The head of the group at the top of the window: placed rows cannot be sticky. */
function Sticky({ row, hidden }) {
  return html`<div class="group-stick" aria-hidden="true" hidden=${hidden || row.tool !== undefined}>
    ${!row.tool && html`<${Head} row=${row} />`}
  </div>`;
}

function Head({ row: { head, note, count, key } }) {
  return html`
    <span class=${`twist${collapsed.has(key) ? '' : ' open'}`} aria-hidden="true"></span>
    <bdi>${head}</bdi>
    ${note !== undefined && html`<span class="group-kind">${note}</span>`}
    <span class="n">${count}</span>`;
}

const placed = (at) => ({ transform: `translateY(${tops[at]}px)` });

/** Moves the focus to a drawn row. */
function focusDrawn(at) {
  space.current.children[wanted.indexOf(at)]?.querySelector('button').focus({ preventScroll: true });
}

/** A row of a list is drawn once, and again when it is opened or reached by the keyboard. */
const Row = unlessSame(
  (props) => (props.row.tool ? ToolRow(props) : HeadRow(props)),
  (a, b) => a.row === b.row && a.isOpen === b.isOpen && a.isStop === b.isStop,
);

function HeadRow({ row, at, isOpen }) {
  const toggle = () => {
    if (!collapsed.delete(row.key)) collapsed.add(row.key);
    drawAgain(visibleTools());
    focusDrawn(at);
  };
  return html`<li class="group" style=${placed(at)}><h2>
    <button type="button" class="group-head" aria-expanded=${String(isOpen)} tabindex="0"
      onClick=${toggle}><${Head} row=${row} /></button>
  </h2></li>`;
}

/** Draws the rows again at the same place. */
function drawAgain(tools) {
  rows = rowsOf(tools);
  place();
  active = Math.min(active, rows.length - 1);
  paint();
}

function ToolRow({ row, at, isOpen, isStop }) {
  const { tool, from } = row;
  const title = toolTitle(tool);
  const line = [title, firstLine(tool.description)].filter(Boolean).join(' · ');
  const [level] = dangersOf(tool);
  return html`<li aria-setsize=${rows.length} aria-posinset=${at + 1} style=${placed(at)}>
    <button type="button" class="item" data-name=${tool.name} data-from=${from}
      title=${title} aria-controls="detail"
      aria-expanded=${String(isOpen)} tabindex=${isStop ? 0 : -1}
      onClick=${() => openTool(tool.name)}>
      <span class="item-top">
        <bdi class="name">${marked(tool.name)}</bdi>
        ${
          needsApproval(tool) &&
          html`<span class="level violet" title="Needs approval"><${Icon} name="key" />approval</span>`
        }
        ${
          level !== undefined &&
          html`<span class=${`level ${DANGERS[level].tone}`}><${Icon} name=${level} />${DANGERS[level].word}</span>`
        }
      </span>
      ${!view.compact && html`<bdi class="item-text">${marked(line)}</bdi>`}
    </button>
  </li>`;
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
  if (lower.length !== text.length) return text;
  for (const word of wordsOf(state.query)) {
    const at = lower.indexOf(word);
    if (at >= 0)
      return html`${text.slice(0, at)}<mark>${text.slice(at, at + word.length)}</mark>${text.slice(at + word.length)}`;
  }
  return text;
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
    drawAgain(local);
  }, SEARCH_PAUSE);
}

/** The tools that only the server found for the current search. */
function serverMatches(local) {
  if (found === undefined || found.query !== state.query.trim()) return [];
  const here = new Set(local);
  return toolsById(found.ids).filter((tool) => !here.has(tool));
}

// Keyboard.

/** The next tool from a row, in a direction; -1 if no tool follows. */
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
  focusDrawn(at);
}

/** Scrolls just far enough to show a row. */
function reveal(at) {
  const [top, bottom] = visiblePart();
  const host = byId('tools');
  const scroller = getComputedStyle(host).overflowY === 'visible' ? window : host;
  const above = tops[at] - HEAD - top;
  const below = tops[at + 1] + 4 - bottom;
  if (above < 0) scroller.scrollBy(0, above);
  else if (below > 0) scroller.scrollBy(0, below);
}

function markSelected() {
  const at = rows.findIndex((row) => row.tool?.name === state.selected);
  if (at >= 0) {
    active = at;
    if (byId('tools').offsetParent !== null) reveal(at);
  }
  paint();
}

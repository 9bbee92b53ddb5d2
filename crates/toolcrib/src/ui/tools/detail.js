// The right pane: one open tool, its tabs, and the states around it. Views of tools are cached so
// that switching between tools loses no input; a new key clears the cache.
import { html, render, useLayoutEffect, useRef, Icon } from '../lib/ui.js';
import { byId } from '../dom.js';
import { state, on, emit } from '../state.js';
import { getTool, problemText } from '../api.js';
import { isObject, pretty } from '../json.js';
import { FirstRun, firstRun } from '../shell/first-run.js';
import { isSignedIn } from '../shell/session.js';
import { SignIn } from '../shell/sign-in-card.js';
import { Notice, Overview } from './notices.js';
import { Why } from './why.js';

const views = new Map();
/** The tool that is loading, as {name, controller}. */
let loading;
/** Why the selected tool could not be loaded: the reply of the server, or {failed}. */
let failed;
let page;

/** Loads the module of the open tool, which the list does not need. */
function loadPage() {
  page ??= import('./tool-view.js').then((it) => it.createToolView);
  page.catch(() => {
    page = undefined; // the next tool tries again
  });
  return page;
}

const narrow = matchMedia('(max-width: 820px)');

export function startDetail() {
  on('select', () => draw({ moved: true }));
  on('focus-tool', () => draw());
  on('providers', () => draw());
  on('tools', () => draw());
  on('first-run', () => draw());
  on('who', () => {
    for (const view of views.values()) view.restore();
  });
  on('token', () => {
    for (const view of views.values()) view.drop();
    views.clear();
    stopLoading();
  });
  on('execute', () => {
    for (const view of views.values()) view.refresh();
  });
  // Escape leads from the form back to the list.
  byId('detail').addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !narrow.matches) emit('focus-list');
  });
  document.addEventListener('keydown', (event) => {
    if (document.body.dataset.section !== 'tools') return;
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.repeat) return;
    // An open dialog takes precedence; other forms handle their own keys.
    if (event.target.closest?.('dialog, .top, .save-form')) return;
    const open = state.status === 'ready' ? views.get(state.selected) : undefined;
    if (!open?.element.isConnected) return;
    event.preventDefault();
    open.execute();
  });
}

function draw({ moved = false } = {}) {
  const name = state.selected;
  const heading = document.querySelector('h1').textContent;
  if (document.body.dataset.section === 'tools') {
    const title = name === undefined ? heading : `${name} · ${heading}`;
    document.title = state.pending > 0 ? `(${state.pending}) ${title}` : title;
  }
  document.body.dataset.view = name === undefined ? 'list' : 'detail';
  if (loading && loading.name !== name) stopLoading();
  failed = undefined; // each event tries again
  drawPane(name);
  // In one column the open tool replaces the list, and the focus follows.
  if (moved && narrow.matches) {
    scrollTo(0, 0);
    if (name !== undefined) byId('detail').focus({ preventScroll: true });
  }
}

function drawPane(name) {
  const isSignedOut = state.status === 'signin' || state.status === 'idle';
  const view = isSignedOut ? undefined : views.get(name);
  if (view && state.status === 'ready' && !view.fresh()) refresh(name, view);
  const isMissing = name !== undefined && !isSignedOut && !view;
  if (isMissing && state.status !== 'loading' && !loading && !failed) load(name);
  render(html`<${Pane} ...${{ name, isSignedOut, view }} />`, byId('detail'));
  if (view && state.opened === name) {
    state.opened = undefined;
    if (!narrow.matches) view.focusFirst();
  }
}

function Pane({ name, isSignedOut, view }) {
  if (name === undefined)
    return isSignedOut ? html`<${SignIn} />` : firstRun() ? html`<${FirstRun} />` : html`<${Overview} />`;
  const back = html`<button type="button" class="quiet back" onClick=${toList}><${Icon} name="back" />All tools</button>`;
  if (isSignedOut) return html`${back}<${SignIn} />`;
  if (view) return html`${back}<${Kept} key=${name} element=${view.element} />`;
  if (failed) return html`${back}<${Failed} name=${name} failure=${failed} />`;
  return html`${back}
    <div class="notice" role="status">
      <p>Loading <bdi class="mono">${name}</bdi>…</p>
      <div class="ghost"></div>
      <div class="ghost"></div>
    </div>`;
}

/** A place for an element that is kept when it leaves the page. */
function Kept({ element }) {
  const host = useRef();
  useLayoutEffect(() => host.current.replaceChildren(element), [element]);
  return html`<div class="kept" ref=${host}></div>`;
}

function toList() {
  location.hash = '';
}

function stopLoading() {
  loading?.controller.abort();
  loading = undefined;
}

async function load(name) {
  const controller = new AbortController();
  loading = { name, controller };
  failed = undefined;
  const failure = {};
  let reply;
  let createToolView;
  try {
    [reply, createToolView] = await Promise.all([getTool(name, controller.signal), loadPage()]);
  } catch (error) {
    failure.failed = error.message;
  }
  if (loading?.controller !== controller) return; // superseded by another tool or key
  loading = undefined;
  if (reply?.status === 200 && typeof reply.data?.name === 'string') {
    views.set(name, createToolView(merge(name, reply.data)));
    draw();
  } else {
    failed = reply ?? failure;
    drawPane(name);
  }
}

/** The detail, completed with the list's entry of the tool. */
function merge(name, detail) {
  const summary = state.tools.find((tool) => tool.name === name);
  return {
    ...summary,
    ...detail,
    name,
    description: typeof detail.description === 'string' ? detail.description : '',
  };
}

/** Compares an open tool with the server after a refresh of the list; the input stays. */
async function refresh(name, view) {
  view.confirm();
  const again = () => {
    views.delete(name);
    draw();
  };
  let reply;
  try {
    reply = await getTool(name);
  } catch {
    return; // the list has just been loaded; the next refresh retries
  }
  if (views.get(name) !== view) return;
  if (reply.status === 404 && !view.busy()) again();
  else if (
    reply.status === 200 &&
    isObject(reply.data) &&
    pretty(merge(name, reply.data)) !== pretty(view.tool)
  )
    view.changed(again);
}

function Failed({ name, failure }) {
  const again = html`<button type="button" class="button" onClick=${() => draw()}>Try again</button>`;
  const title = 'The tool could not be loaded';
  if (failure.failed !== undefined)
    return html`<${Notice} title=${title} actions=${again}>The server could not be reached (${failure.failed}).<//>`;
  if (failure.status === 404) {
    const all = html`<button type="button" class="button" onClick=${toList}>All tools</button>`;
    const why = isSignedIn() && html`<${Why} name=${name} />`;
    return html`<${Notice} title="Tool not found" actions=${all} more=${why}>
      There is no tool named <bdi class="mono">${name}</bdi> here, or your key does not show it.
    <//>`;
  }
  if (failure.status === 401) return html`<${SignIn} />`;
  return html`<${Notice} title=${title} actions=${again}>${problemText(failure)}<//>`;
}

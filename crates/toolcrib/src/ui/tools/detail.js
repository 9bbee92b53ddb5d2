// The right pane: one open tool, its tabs, and the states around it. Views of tools are cached so
// that switching between tools loses no input; a new key clears the cache.
import { h, byId, button, icon } from '../dom.js';
import { state, on, emit } from '../state.js';
import { base, getTool, problemText } from '../api.js';
import { isObject, pretty } from '../json.js';
import { firstRun } from '../shell/first-run.js';
import { notice, overview, signIn } from './notices.js';
import { whyPanel } from './why.js';

const views = new Map();
let loading;
let page;

/** What an open tool is made of, which the list does not need. */
function loadPage() {
  page ??= Promise.all([import('./tool-view.js'), style()]).then(([it]) => it.createToolView);
  page.catch(() => {
    page = undefined; // the next tool tries again
  });
  return page;
}

function style() {
  return new Promise((resolve) => {
    const link = h('link', { rel: 'stylesheet', href: `${base}assets/tools/tool.css` });
    link.addEventListener('load', resolve);
    link.addEventListener('error', resolve); // plain, but usable
    document.head.append(link);
  });
}

const narrow = matchMedia('(max-width: 820px)');

export function startDetail() {
  on('select', () => draw({ moved: true }));
  on('focus-tool', () => draw());
  on('providers', () => draw());
  on('tools', () => {
    draw();
  });
  on('first-run', () => draw());
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
  drawPane(name);
  // In one column the open tool replaces the list, and the focus follows.
  if (moved && narrow.matches) {
    scrollTo(0, 0);
    if (name !== undefined) byId('detail').focus({ preventScroll: true });
  }
}

function drawPane(name) {
  const host = byId('detail');
  const view = views.get(name);
  if (state.status === 'signin' || state.status === 'idle')
    host.replaceChildren(...(name === undefined ? [] : [back()]), signIn());
  else if (name === undefined) {
    const only = firstRun() ?? overview();
    // What is in place stays, with the focus in it.
    if (host.childElementCount !== 1 || host.firstElementChild !== only) host.replaceChildren(only);
  }
  else if (view) {
    if (state.status === 'ready' && !view.fresh()) refresh(name, view);
    if (view.element.parentElement !== host || host.childElementCount !== 2)
      host.replaceChildren(back(), view.element);
    if (state.opened === name) {
      state.opened = undefined;
      if (!narrow.matches) view.focusFirst();
    }
  } else if (state.status === 'loading') host.replaceChildren(back(), waiting(name));
  else if (!loading) load(name);
}

function stopLoading() {
  loading?.controller.abort();
  loading = undefined;
}

async function load(name) {
  const controller = new AbortController();
  loading = { name, controller };
  const host = byId('detail');
  host.replaceChildren(back(), waiting(name));
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
    host.replaceChildren(back(), problem(name, reply ?? failure));
  }
}

function waiting(name) {
  return h(
    'div',
    { class: 'notice', role: 'status' },
    h('p', {}, 'Loading ', h('bdi', { class: 'mono', text: name }), '…'),
    h('div', { class: 'ghost' }),
    h('div', { class: 'ghost' }),
  );
}

/** The detail, with the list's classification where the detail has none. */
function merge(name, detail) {
  const summary = state.tools.find((tool) => tool.name === name);
  return {
    ...summary,
    ...detail,
    name,
    description: typeof detail.description === 'string' ? detail.description : '',
  };
}

/** Compares an open tool with the server after a refresh of the list; what was entered stays. */
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

function problem(name, failure) {
  const again = button('Try again', () => load(name));
  if (failure.failed !== undefined)
    return notice(
      'The tool could not be loaded',
      `The server could not be reached (${failure.failed}).`,
      again,
    );
  if (failure.status === 404) {
    const why = whyPanel(name);
    if (state.token !== '') why.open();
    const told = notice(
      'No such tool',
      [
        'There is no tool named ',
        h('bdi', { class: 'mono', text: name }),
        ' here, or your key does not show it.',
      ],
      button('All tools', () => {
        location.hash = '';
      }),
    );
    if (state.token !== '') told.append(why.element);
    return told;
  }
  if (failure.status === 401) return signIn();
  return notice('The tool could not be loaded', problemText(failure), again);
}

function back() {
  return h(
    'button',
    {
      type: 'button',
      class: 'quiet back',
      on: {
        click: () => {
          location.hash = '';
        },
      },
    },
    icon('back'),
    'All tools',
  );
}

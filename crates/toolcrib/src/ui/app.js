// The page: loads the list, follows the address (#tool=…, #/tools?q=…), and connects the components.
import { announce, plural } from './lib/ui.js';
import { byId } from './dom.js';
import { state, on, emit, select } from './state.js';
import { problemText } from './api.js';
import { loadCatalog } from './catalog.js';
import { startTheme } from './theme.js';
import { startAuth } from './auth.js';
import { startList } from './tools/list.js';
import { readAddress } from './tools/filters.js';
import { startDetail } from './tools/detail.js';
import { isTyping } from './shell/keys.js';
import { startReturn } from './shell/returned.js';
import { current } from './shell/routes.js';
import { hasGateway, identify, isSignedIn, storedSession, takeLink, useLink } from './shell/session.js';
import { startShell } from './shell/shell.js';
import { finish, isReturning, loadProviders } from './shell/sign-in.js';

/** Head start for another screen to show its first rows, in ms. */
const LIST_PAUSE = 400;

let loading;

async function reload() {
  loading?.abort();
  const controller = new AbortController();
  loading = controller;
  setStatus('loading');
  let loaded;
  try {
    loaded = await loadCatalog(controller.signal, (list) => {
      // An existing list stays until the new one is complete.
      if (!controller.signal.aborted && state.tools.length === 0) show(list);
    });
  } catch (error) {
    if (controller.signal.aborted) return; // superseded by a newer load
    fail(`The server could not be reached (${error.message}).`);
    return;
  }
  if (controller.signal.aborted) return;
  if (loaded.list === undefined) refuse(loaded.reply);
  else {
    show(loaded.list);
    announce(`${plural(state.tools.length, 'tool')} loaded`);
  }
}

function show({ tools, skipped, coming }) {
  state.stale = undefined;
  Object.assign(state, { tools, skipped, coming });
  setStatus('ready');
}

/** Shows why the list could not be loaded. */
function refuse(reply) {
  if (reply.status === 401) {
    setStatus(
      'signin',
      state.token === ''
        ? 'Sign in to see the catalog.'
        : 'The server rejected this key. It may be incomplete, expired or revoked.',
    );
    return;
  }
  const wait = reply.retryAfter === undefined ? '' : ` Try again in ${plural(reply.retryAfter, 'second')}.`;
  fail(`${problemText(reply)}${wait}`);
}

/** Shows a failure. A list loaded earlier stays, marked as not current. */
function fail(problem) {
  if (state.tools.length === 0) {
    setStatus('error', problem);
    return;
  }
  state.stale = problem;
  setStatus('ready');
  announce(`The list is not current. ${problem}`);
}

function setStatus(status, problem = '') {
  if (status !== 'ready' && status !== 'loading') state.tools = [];
  state.status = status;
  state.problem = problem;
  emit('tools');
}

function followAddress({ moved = false } = {}) {
  const match = /^#tool=(.*)$/.exec(location.hash);
  if (match) {
    try {
      const name = decodeURIComponent(match[1]);
      if (moved) state.opened = name; // the focus follows into the tool's form
      select(name);
    } catch {
      select(undefined); // an invalid escape selects no tool
    }
  } else if (current().section === 'tools') {
    select(undefined);
    if (location.hash !== '') readAddress(current().query);
  }
}

function drawMode() {
  byId('mode').textContent = state.executeEnabled
    ? 'Execution is on'
    : 'Execution is off: browse and validate only';
}

function startKeys() {
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || isTyping(event)) return;
    event.preventDefault();
    if (document.body.dataset.section !== 'tools') {
      const search = byId('screen').querySelector('[type=search]');
      if (search) search.focus();
      else emit('palette', true);
      return;
    }
    if (document.body.dataset.view === 'detail') location.hash = '';
    byId('search').focus();
  });
  for (const link of document.querySelectorAll('a[data-focus]')) {
    link.addEventListener('click', (event) => {
      event.preventDefault(); // keeps the open tool in the address
      byId(link.dataset.focus).focus();
    });
  }
}

/** Signs in with a link or an identity provider's response. Otherwise offers the providers. */
async function startSignIn() {
  if (!hasGateway) return;
  if (link !== undefined) await useLink(link);
  if (isReturning()) await finish();
  if (!isSignedIn()) loadProviders();
  on('who', () => {
    if (!isSignedIn() && state.providers.length === 0) loadProviders();
  });
}

/** The screens other than the tools, each loaded when it opens. */
const screens = {
  approvals: () => import('./approvals/screen.js').then((it) => it.Approvals),
  record: () => import('./record/screen.js').then((it) => it.Record),
  sources: () => import('./sources/screen.js').then((it) => it.Sources),
  access: () => import('./access/screen.js').then((it) => it.Access),
  connections: () => import('./connections/screen.js').then((it) => it.Connections),
  connect: () => import('./connect/screen.js').then((it) => it.Connect),
};

const link = hasGateway ? takeLink() : undefined;
if (hasGateway) startReturn();
state.session = storedSession();
startTheme();
startAuth({ reload });
startList({ reload });
startDetail();
startShell(screens);
startKeys();
on('reload', reload);
on('token', () => {
  loading?.abort();
  setStatus('idle');
});
on('execute', drawMode);
drawMode();
addEventListener('hashchange', () => followAddress({ moved: true }));
await startSignIn();
followAddress();
if (hasGateway && isSignedIn() && current().section !== 'tools') {
  // The open screen loads first: the list can be long, and only the palette and links need it here.
  await identify();
  setTimeout(reload, state.who ? LIST_PAUSE : 0);
} else reload();

// The frame around all screens: sections, account, palette, and the screen of the current address.
// The tools are the first screen and part of the document; every other one is loaded when it opens.
import { html, render, useLayoutEffect, useRef, useState, number, Time, Badge } from '../lib/ui.js';
import { state, on, emit } from '../state.js';
import { byId, reveal } from '../dom.js';
import { Forbidden } from '../lib/forbidden.js';
import { KeyId, Person, RoleName } from '../lib/links.js';
import { href } from '../lib/address.js';
import { current } from './routes.js';
import { tookForm } from '../auth.js';
import { SECTIONS, visibleSections } from './sections.js';
import { canStay, hasGateway, identify, isSignedIn, signOut, startSession, stay } from './session.js';
import { signInWith } from './sign-in.js';
import { startFirstRun } from './first-run.js';
import { startCounts } from './counts.js';
import { Keys, isTyping, startKeys } from './keys.js';
import { live, startLive } from './live.js';
import { Palette, startPalette } from './palette.js';

/** How long the stream of changes may be closed before the page shows it, in ms. */
const GAP = 3_000;

/** `modules` load the screens, by section. */
export function startShell(modules) {
  if (!hasGateway) return;
  screens = modules;
  startSession();
  startCounts();
  startLive();
  startPalette();
  startKeys();
  startFirstRun();
  const draw = (moved = false) => {
    const signedIn = state.who !== undefined && tookForm();
    render(html`<${Sections} />`, byId('sections'));
    render(html`<${Account} />`, byId('account'));
    render(html`<${Palette} /><${Keys} />`, byId('palette'));
    const bar = byId('sections').firstElementChild;
    reveal(bar, bar?.querySelector('[aria-current]'));
    showScreen(moved || signedIn);
  };
  on('who', () => draw());
  on('providers', () => draw());
  on('tools', () => !isSignedIn() && draw());
  on('counts', () => draw());
  on('live:state', () => {
    draw();
    setTimeout(draw, GAP + 100);
  });
  on('palette', () => draw());
  on('live:catalog', () => emit('reload'));
  addEventListener('hashchange', () => draw(true));
  document.addEventListener('keydown', shortcut);
  draw();
  // Loads while the server identifies the caller. A caller who may not open the screen never sees it.
  const { section } = current();
  if (isSignedIn() && SECTIONS.some((it) => it.id === section) && section !== 'tools') load(section);
}

function Sections() {
  const sections = visibleSections();
  const open = current().section;
  if (sections.length === 0) return null;
  return html`<nav class="sections" aria-label="Sections">
    ${sections.map(
      ({ id, name }) => html`<a key=${id} href=${href(id)} class="section"
        aria-current=${id === open ? 'page' : undefined} data-section=${id}>
        ${name}
        ${id === 'approvals' && html`<${Count} of=${state.pending} word="pending" />`}
        ${id === 'sources' && html`<${Count} of=${state.unhealthy} word="that need attention" />`}
      </a>`,
    )}
  </nav>`;
}

function Count({ of, word }) {
  return of > 0 && html`<span class="count" aria-label=${`${of} ${word}`}>${number(of)}</span>`;
}

/** Shows that changes have not arrived for a while. */
function Offline() {
  const since = useRef();
  if (live.open || document.hidden) since.current = undefined;
  else since.current ??= Date.now();
  if (since.current === undefined || Date.now() - since.current < GAP) return null;
  const at = new Date(live.heard ?? since.current).toLocaleTimeString(undefined, { timeStyle: 'short' });
  return html`<span class="badge amber" role="status" id="offline">Not connected since ${at}, trying again</span>`;
}

function Account() {
  const [open, setOpen] = useState(false);
  const menu = useRef();
  const { who } = state;
  // Together with the menu, not after the next frame: a key may be pressed before that.
  useLayoutEffect(() => {
    if (!open) return undefined;
    const leave = (event) => {
      const inside = menu.current?.contains(event.target);
      if (event.type === 'keydown' ? event.key !== 'Escape' : inside) return;
      if (inside) byId('account-button').focus();
      setOpen(false);
    };
    addEventListener('keydown', leave);
    addEventListener('pointerdown', leave);
    return () => {
      removeEventListener('keydown', leave);
      removeEventListener('pointerdown', leave);
    };
  }, [open]);
  // The menu is closed at the next sign-in.
  useLayoutEffect(() => setOpen(false), [who === undefined]);
  if (!who) return html`<${Providers} />`;
  return html`<div class="account" ref=${menu}>
    <${Offline} />
    <button type="button" class="button search-button" onClick=${() => emit('palette', true)}>
      Search <kbd aria-hidden="true">Ctrl K</kbd>
    </button>
    <button type="button" class="button" aria-expanded=${open} aria-haspopup="true"
      id="account-button" onClick=${() => setOpen(!open)}>
      <bdi>${who.principal}</bdi><span class="muted">@<bdi>${who.tenant}</bdi></span>
    </button>
    ${open &&
    html`<div class="menu" role="region" aria-label="Account">
      <dl>
        <dt>Principal</dt><dd><${Person} name=${who.principal} /></dd>
        <dt>Tenant</dt><dd><bdi>${who.tenant}</bdi></dd>
        <dt>Signed in with</dt>
        <dd>${SIGNED_IN[who.auth]?.(who) ?? who.auth}${who.sessionId && ', in all tabs of this browser'}</dd>
        ${who.actors && html`<dt>Acting</dt><dd>${words(who.actors)}</dd>`}
        <dt>Expires</dt>
        <dd>${who.expiresAt ? html`<${Time} at=${who.expiresAt} />` : 'never, unless it is revoked'}</dd>
        <dt>Roles</dt><dd>${words(who.roles, (name) => html`<${RoleName} key=${name} name=${name} style="mono" /> `)}</dd>
        <dt>Scopes</dt><dd>${words(who.scopes)}</dd>
        <dt>Updates</dt>
        <dd>${live.open ? html`<${Badge} tone="green">live<//>` : html`<${Badge} tone="amber">reconnecting<//>`}</dd>
      </dl>
      ${canStay && !who.sessionId && html`<${Stay} />`}
      <button type="button" class="button" id="sign-out" onClick=${signOut}>Sign out</button>
      ${
        who.auth === 'token' &&
        html`<p class="muted">This signs you out here. Your session at the identity provider stays.</p>`
      }
    </div>`}
  </div>`;
}

/** Turns the key of this tab into a session. */
function Stay() {
  const [problem, setProblem] = useState();
  return html`<button type="button" class="button" id="stay-signed-in"
      onClick=${async () => {
        const failed = await stay();
        setProblem(failed);
        if (failed === undefined) identify();
      }}>Stay signed in</button>
    ${problem && html`<p class="problem-box" role="alert">${problem}</p>`}`;
}

const SIGNED_IN = {
  key: (who) => html`key <${KeyId} id=${who.keyId} />`,
  token: () => 'a token of the identity provider',
};

/** Sign-in buttons in the header, for anonymous callers who see tools and no sign-in card. */
function Providers() {
  if (isSignedIn() || state.status !== 'ready') return null;
  return state.providers.map(
    ({ issuer, name }) => html`<button key=${issuer} type="button" class="button" data-provider=${issuer}
      onClick=${() => signInWith(issuer)}>Sign in with <bdi>${name}</bdi></button>`,
  );
}

function words(list, drawn = (it) => html`<code key=${it}>${it}</code> `) {
  if (!list?.length) return html`<span class="muted">none</span>`;
  return list.map(drawn);
}

let screens = {};
const loaded = new Map();

/** Draws the screen of the current address; `moved` if the user went there. */
async function showScreen(moved) {
  const route = current();
  const host = byId('screen');
  const allowed = route.section === 'tools' || visibleSections().some((it) => it.id === route.section);
  const section = allowed ? route.section : state.who ? 'forbidden' : 'tools';
  document.body.dataset.section = section;
  badge(section);
  host.ariaBusy = 'false';
  if (section === 'tools') {
    render(null, host);
    if (moved) rescueFocus(document.querySelector('.section[aria-current]'));
    return;
  }
  if (section === 'forbidden') {
    render(html`<${Forbidden} scopes=${scopesOf(route.section)} />`, host);
    if (moved) rescueFocus(host);
    return;
  }
  load(section);
  let Screen;
  host.ariaBusy = 'true'; // it still shows the former screen
  try {
    Screen = await loaded.get(section);
  } catch (error) {
    loaded.delete(section);
    Screen = () =>
      html`<p class="problem-box" role="alert">This screen could not be loaded (${error.message}). If the server
        has been upgraded, <button type="button" class="link" onClick=${() => location.reload()}>reload the page</button>.</p>`;
  }
  if (current().section !== section || !state.who) return;
  host.ariaBusy = 'false';
  render(html`<${Screen} key=${section} route=${route} who=${state.who} />`, host);
  if (moved) rescueFocus(host);
}

function load(section) {
  if (loaded.has(section)) return;
  const screen = screens[section]();
  screen.catch(() => {}); // `showScreen` shows the failure
  loaded.set(section, screen);
}

/** Moves the focus to `to` if the focused element is gone. */
function rescueFocus(to) {
  const at = document.activeElement;
  if (at === null || at === document.body || !at.checkVisibility()) to?.focus({ preventScroll: true });
}

/** The scopes of a screen: one of them is required. */
function scopesOf(id) {
  const { scope, or } = SECTIONS.find((it) => it.id === id) ?? {};
  return [scope, or].filter((it) => it !== undefined);
}

/** Shows the number of pending approvals in the title of the tab. */
function badge(section) {
  const name = SECTIONS.find((it) => it.id === section)?.name;
  const heading = document.querySelector('h1').textContent;
  const place =
    section === 'tools' ? (state.selected ?? '') : (name ?? '');
  const title = place === '' ? heading : `${place} · ${heading}`;
  document.title = state.pending > 0 ? `(${state.pending}) ${title}` : title;
}

let prefix = 0;

/** `g` and a letter open a section. */
function shortcut(event) {
  if (isTyping(event)) return;
  if (event.key === 'g') {
    prefix = Date.now();
    return;
  }
  if (Date.now() - prefix > 1_500) return;
  prefix = 0;
  const section = visibleSections().find((it) => it.keys === event.key);
  if (!section) return;
  event.preventDefault();
  location.hash = href(section.id);
}

// Who is signed in: with a key, which is in the memory of this page alone, or in a session, which stays
// in all tabs of the browser until the user signs out.
//
// A session has a cookie that scripts cannot read, and a secret that is in the localStorage of this origin.
// Each is worth nothing alone: browsers send a cookie to other ports of a host, too, and with requests of
// other pages, which can neither read the secret nor send it.
//
// Invariant: the tabs show one session. When one tab ends it or begins another one, the others follow at
// once and drop what they showed.
import { state, on, emit } from '../state.js';
import { base, fetchWithKey, problemText, request } from '../api.js';
import { byId } from '../dom.js';

const STORED = 'toolcrib-session';
const LINK = /^#sign-in=([\w-]{43})$/;
const DAY = 24 * 60 * 60 * 1000;
/** Whether the page's own server is a gateway, with `/v1`. */
export const hasGateway = document.body.dataset.gateway === 'true';
/** Whether a session is possible: if the server has them, and over https or on this machine. */
export const canStay = hasGateway && document.body.dataset.sessions === 'true' && window.isSecureContext;

/** Whether the requests of the page have a credential. */
export const isSignedIn = () => state.token !== '' || state.session !== '';

/** Returns the secret of the session that the browser keeps; empty if it keeps none. */
export function storedSession() {
  try {
    return (canStay && localStorage.getItem(STORED)) || '';
  } catch {
    return '';
  }
}

function store(secret) {
  try {
    if (secret === '') localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, secret);
    return true;
  } catch {
    return false;
  }
}

/** Makes the key of the page a session of the browser. Returns why that failed; undefined otherwise. */
export async function stay() {
  const { token } = state;
  let reply;
  try {
    await endStored();
    reply = await request('POST', '/v1/sessions', {});
  } catch (error) {
    return `The server could not be reached (${error.message}).`;
  }
  if (state.token !== token) return undefined; // the user has chosen another key meanwhile
  if (reply.status === 401) return undefined; // the list of tools says that the key was not accepted
  if (reply.status !== 201) return problemText(reply);
  return begin(reply.data.secret) ? undefined : 'The browser keeps no data of this page.';
}

/** Ends the session of the other tabs, which the next one replaces. */
async function endStored() {
  const secret = storedSession();
  if (secret === '') return;
  const headers = { 'Toolcrib-Session': secret };
  await fetch('/v1/sessions/current', { method: 'DELETE', headers });
}

/** Uses a session of the server from now on, in all tabs. */
function begin(secret) {
  if (!store(secret)) return false;
  clear();
  state.session = secret;
  state.signInProblem = undefined;
  return true;
}

/** Returns the secret of a link that signs in, and takes it out of the address. */
export function takeLink() {
  const link = LINK.exec(location.hash)?.[1];
  if (link !== undefined) history.replaceState(null, '', base);
  return link;
}

/** Signs in with the secret of a link, which works once. */
export async function useLink(secret) {
  let problem;
  const replaced = storedSession();
  try {
    const response = await fetch(`${base}sign-in/link`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        ...(replaced !== '' && { 'Toolcrib-Session': replaced }),
      },
      body: JSON.stringify({ secret }),
    });
    const data = await response.json();
    if (response.status === 201) {
      forget();
      if (begin(data.secret)) return;
      problem = 'The browser keeps no data of this page, so the link cannot sign in. Use a key.';
    } else problem = `${sentence(problemText({ status: response.status, data }))} Sign in with a key.`;
  } catch (error) {
    problem = `The server could not be reached (${error.message}).`;
  }
  state.signInProblem = { text: problem };
  emit('providers');
}

function sentence(text) {
  const end = /[.!?]$/.test(text) ? '' : '.';
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${end}`;
}

export function signOut() {
  state.signInProblem = undefined;
  const ending = state.session !== '' ? endSession() : undefined;
  leave();
  return ending;
}

/** Ends the session on the server, with the secret that the page still has. */
async function endSession() {
  try {
    // Without the secret in localStorage no tab uses the session, whatever the server says.
    const { status } = await fetchWithKey('/v1/sessions/current', { method: 'DELETE', keepalive: true });
    if (status === 200 || status === 401) return;
  } catch {
    // The session is over for this browser, and says so.
  }
  state.signInProblem = {
    text: 'You are signed out in this browser. The server could not be told: the session is in Access until it expires.',
  };
  emit('providers');
}

/** Drops everything that the credential showed. */
/** Takes every credential out of the page. */
function clear() {
  byId('token').value = '';
  state.token = '';
  state.session = '';
}

function forget() {
  emit('signed-out');
  clear();
  state.who = undefined;
  emit('token');
  emit('who');
}

function leave() {
  if (state.session !== '') store('');
  forget();
  emit('reload');
}

let ending;

/** At its end a credential stays on no screen. The address stays, for the next sign-in. */
function watchEnd() {
  clearTimeout(ending);
  const end = Date.parse(state.who?.expiresAt);
  if (Number.isNaN(end)) return;
  const left = end - Date.now();
  // Longer timers would fire at once.
  ending = setTimeout(left > DAY ? watchEnd : expire, Math.max(Math.min(left, DAY), 0));
}

/** The other tabs find that out themselves, and keep what was typed there, too. */
function expire() {
  const at = new Date(state.who.expiresAt).toLocaleTimeString();
  over(`Your sign-in ended at ${at}. Sign in again to go on where you were.`);
}

/** Ends a session that the server no longer accepts, in all tabs. */
function ended() {
  store('');
  over('Your sign-in has ended. Sign in again to go on where you were.');
}

/** Ends the sign-in that the server no longer accepts. Typed texts stay for the next one of the same person. */
function over(text) {
  state.signInProblem = { text };
  clear();
  state.who = undefined;
  emit('token');
  emit('who');
  emit('reload');
}

/** Follows another tab that has ended the session or begun another one. */
function follow({ key }) {
  if ((key !== STORED && key !== null) || state.token !== '') return;
  const next = storedSession();
  if (next === state.session) return;
  forget();
  state.signInProblem = undefined;
  state.session = next;
  emit('reload');
}

export function startSession() {
  if (!hasGateway) return;
  addEventListener('storage', follow);
  addEventListener('hashchange', async () => {
    const link = takeLink();
    if (link === undefined) return;
    await useLink(link);
    emit('reload');
  });
  on('who', watchEnd);
  on('token', () => {
    state.who = undefined;
    emit('who');
  });
  on('tools', () => {
    // At the same time as the list, which can be long.
    const loads = state.status === 'loading' || state.status === 'ready';
    if (loads && isSignedIn() && state.who === undefined) identify();
    if (state.status !== 'signin') return;
    // The credential has expired or was revoked: nothing that it showed stays.
    if (state.session !== '') {
      ended();
    } else if (state.who !== undefined) {
      state.who = undefined;
      emit('who');
    }
  });
}

let identifying;

const credential = () => `${state.token}\n${state.session}`;

/** Finds out who is signed in. A credential that the server refuses is left to the list of tools. */
export async function identify() {
  const own = credential();
  if (identifying === own) return;
  identifying = own;
  let reply;
  try {
    reply = await request('GET', '/v1/whoami', {});
  } catch {
    return; // the next list of tools tries again
  } finally {
    identifying = undefined;
  }
  if (credential() !== own) return;
  if (reply.status === 401 && state.session !== '') ended();
  if (reply.status !== 200) return;
  state.who = reply.data;
  state.signInProblem = undefined;
  emit('who');
}

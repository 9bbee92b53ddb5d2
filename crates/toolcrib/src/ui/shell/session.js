// The sign-in: with a key, kept only in the memory of this page, or with a session, which lasts in all tabs
// of the browser until the user signs out.
//
// A session has a cookie that scripts cannot read, and a secret in the localStorage of this origin. Both are
// required: browsers also send a cookie to other ports of a host and with requests of other pages, but those
// pages can neither read the secret nor send it.
//
// Invariant: all tabs show the same session. If one tab closes it or starts another one, the others follow
// at once and drop their content.
import { state, on, emit } from '../state.js';
import { base, fetchWithKey, problemText, request } from '../api.js';
import { byId } from '../dom.js';

const STORED = 'toolcrib-session';
const LINK = /^#sign-in=([\w-]{43})$/;
const DAY = 24 * 60 * 60 * 1000;
/** Whether the page's own server is a gateway, with `/v1`. */
export const hasGateway = document.body.dataset.gateway === 'true';
/** Whether a session is possible: the server permits it, and the page uses https or this machine. */
export const canStay = hasGateway && document.body.dataset.sessions === 'true' && window.isSecureContext;

/** Whether the requests of the page have a credential. */
export const isSignedIn = () => state.token !== '' || state.session !== '';

/** The session secret that the browser keeps; empty without a session. */
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

/** Turns the key of the page into a session. Returns the reason for a failure, or undefined. */
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
  if (reply.status === 401) return undefined; // the list of tools shows that the key was rejected
  if (reply.status !== 201) return problemText(reply);
  return begin(reply.data.secret) ? undefined : 'The browser blocks the storage of this page.';
}

/** Closes the session of the other tabs before a new one replaces it. */
async function endStored() {
  const secret = storedSession();
  if (secret === '') return;
  const headers = { 'Toolcrib-Session': secret };
  await fetch('/v1/sessions/current', { method: 'DELETE', headers });
}

/** Starts to use a session, in all tabs. */
function begin(secret) {
  if (!store(secret)) return false;
  clear();
  state.session = secret;
  state.signInProblem = undefined;
  return true;
}

/** Takes the secret of a sign-in link out of the address. */
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
      problem = 'The browser blocks the storage of this page, so the link cannot sign in. Use a key.';
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

/** Closes the session on the server, with the secret that the page still has. */
async function endSession() {
  try {
    // Without the secret in localStorage no tab uses the session, whatever the server says.
    const { status } = await fetchWithKey('/v1/sessions/current', { method: 'DELETE', keepalive: true });
    if (status === 200 || status === 401) return;
  } catch {
    // The session is over for this browser. The message follows.
  }
  state.signInProblem = {
    text: 'You are signed out in this browser. The server could not close the session: it stays in Access until it expires.',
  };
  emit('providers');
}

/** Removes every credential from the page. */
function clear() {
  byId('token').value = '';
  state.token = '';
  state.session = '';
}

/** Drops the credentials and everything that they showed. */
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

/** Closes the sign-in when the credential expires. The address stays, for the next sign-in. */
function watchEnd() {
  clearTimeout(ending);
  const end = Date.parse(state.who?.expiresAt);
  if (Number.isNaN(end)) return;
  const left = end - Date.now();
  // Longer timers would fire at once.
  ending = setTimeout(left > DAY ? watchEnd : expire, Math.max(Math.min(left, DAY), 0));
}

/** The other tabs notice the expiry themselves, and keep their drafts, too. */
function expire() {
  const at = new Date(state.who.expiresAt).toLocaleTimeString();
  over(`Your sign-in expired at ${at}. Sign in again to continue where you were.`);
}

/** Closes a session that the server rejects, in all tabs. */
function ended() {
  store('');
  over('Your sign-in has expired or was revoked. Sign in again to continue where you were.');
}

/** Closes the sign-in and shows why. Drafts stay for the next sign-in of the same person. */
function over(text) {
  state.signInProblem = { text };
  clear();
  state.who = undefined;
  emit('token');
  emit('who');
  emit('reload');
}

/** Follows another tab that has closed the session or started another one. */
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
    // The credential has expired or was revoked: remove everything that it showed.
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

/** Identifies the caller. The list of tools handles a rejected credential. */
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

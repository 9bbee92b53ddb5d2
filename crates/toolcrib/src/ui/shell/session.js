// Who is signed in. The key is in memory; it survives a reload of this tab only if the user asks for
// it, in sessionStorage, which no other tab can read.
import { state, on, emit } from '../state.js';
import { request } from '../api.js';
import { byId } from '../dom.js';

const KEPT = 'toolcrib-key';
const DAY = 24 * 60 * 60 * 1000;
/** Whether the page's own server is a gateway, with `/v1`. */
export const hasGateway = document.body.dataset.gateway === 'true';

export function keptKey() {
  try {
    return sessionStorage.getItem(KEPT) ?? '';
  } catch {
    return '';
  }
}

/** Keeps the key until the tab closes, or forgets it. */
export function keep(wanted) {
  try {
    if (wanted) sessionStorage.setItem(KEPT, state.token);
    else sessionStorage.removeItem(KEPT);
  } catch {
    // Without storage the key lasts as long as the page.
  }
}

export function signOut() {
  emit('signed-out');
  state.signInProblem = undefined;
  leave();
}

function leave() {
  keep(false);
  byId('token').value = '';
  state.token = '';
  state.who = undefined;
  emit('token');
  emit('who');
  emit('reload');
  byId('token').focus();
}

/** Returns whether the caller has a scope of a route, such as `audit:read`. */
export function may(scope) {
  return state.who?.may?.includes(scope) === true;
}

export async function signInWith(issuer) {
  const { begin } = await import('./sign-in.js');
  await begin(issuer);
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

function expire() {
  const at = new Date(state.who.expiresAt).toLocaleTimeString();
  state.signInProblem = { text: `Your sign-in ended at ${at}. Sign in again to go on where you were.` };
  leave();
}

export function startSession() {
  if (!hasGateway) return;
  on('who', watchEnd);
  on('token', () => {
    state.who = undefined;
    emit('who');
  });
  on('tools', () => {
    // At the same time as the list, which can be long.
    const loads = state.status === 'loading' || state.status === 'ready';
    if (loads && state.token !== '' && state.who === undefined) identify();
    if (state.status !== 'signin' || state.who === undefined) return;
    // The key has expired or was revoked: nothing that it showed stays.
    keep(false);
    state.who = undefined;
    emit('who');
  });
}

let identifying;

/** Finds out who the key belongs to. A key that the server refuses is left to the list of tools. */
export async function identify() {
  const token = state.token;
  if (identifying === token) return;
  identifying = token;
  let reply;
  try {
    reply = await request('GET', '/v1/whoami', {});
  } catch {
    return; // the next list of tools tries again
  } finally {
    identifying = undefined;
  }
  if (state.token !== token || reply.status !== 200) return;
  state.who = reply.data;
  state.signInProblem = undefined;
  emit('who');
}

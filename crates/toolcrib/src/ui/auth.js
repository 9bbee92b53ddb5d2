// The key form. The key stays in a variable of this page, never in the address, the markup or storage.
// The form sits in the sign-in card (`shell/sign-in-card.js`), or in the header if callers without a key
// see tools.
import { byId, announce } from './dom.js';
import { state, on, emit } from './state.js';
import { canStay, hasGateway, stay } from './shell/session.js';

const form = byId('auth');
const input = byId('token');
const header = form.parentElement;
const following = form.nextElementSibling;
/** Whether a key was just submitted. The focus then moves to the screen. */
let used = false;

export function startAuth({ reload }) {
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    used = true;
    if (!setToken()) return;
    const problem = byId('stay').checked && state.token !== '' ? await stay() : undefined;
    if (problem !== undefined) announce(`You are signed in in this tab alone. ${problem}`);
    reload();
  });
  input.addEventListener('input', () => {
    // Results for the previous key must not stay on screen. The card shows no results.
    if (isInHeader()) setToken();
    else check(input.value.trim());
    drawBadge();
  });
  input.addEventListener('paste', () => setTimeout(() => form.requestSubmit()));
  byId('reveal').addEventListener('click', () => {
    const show = input.type === 'password';
    input.type = show ? 'text' : 'password';
    byId('reveal').textContent = show ? 'Hide' : 'Show';
    byId('reveal').setAttribute('aria-pressed', String(show));
    byId('reveal').setAttribute('aria-label', show ? 'Hide the key' : 'Show the key');
  });
  byId('stay-choice').hidden = !canStay;
  on('tools', drawBadge);
  on('who', drawBadge);
  drawBadge();
}

export function focusToken() {
  input.focus();
  input.select();
  input.scrollIntoView({ block: 'nearest' });
}

/** Puts the form into the card, and focuses its field unless another element has the focus. */
export function placeForm(host) {
  if (form.parentElement !== host) host.append(form);
  drawBadge();
  const at = document.activeElement;
  if (host.isConnected && (at === null || at === document.body)) input.focus({ preventScroll: true });
}

/** Puts the form back into the header. */
export function returnForm() {
  if (!isInHeader()) header.insertBefore(form, following);
  drawBadge();
}

/** Whether the user has just signed in with the form. True once for each sign-in. */
export function tookForm() {
  const taken = used;
  used = false;
  return taken;
}

const isInHeader = () => form.parentElement === header;

/** Whether an HTTP header can carry the key: printable ASCII only. Other characters come from pasting. */
function check(token) {
  const sendable = /^[\x20-\x7e]*$/.test(token);
  input.setAttribute('aria-invalid', String(!sendable));
  input.setCustomValidity(sendable ? '' : 'The key contains characters that cannot be sent.');
  return sendable;
}

/** Uses the key in the field. Returns whether it can be sent. */
function setToken() {
  const token = input.value.trim();
  const sendable = check(token);
  const next = sendable ? token : '';
  if (next !== state.token) {
    state.token = next;
    emit('token');
  }
  return sendable;
}

function drawBadge() {
  // In the header the form would flash until the server has identified the caller.
  form.hidden = isInHeader() && hasGateway && (state.who !== undefined || state.status === 'loading');
  const badge = byId('token-badge');
  const rejected = state.token !== '' && state.status === 'signin';
  badge.textContent = state.token === '' ? 'No key' : rejected ? 'Key rejected' : 'Key set';
  badge.className = `badge ${state.token === '' ? 'grey' : rejected ? 'red' : 'green'}`;
  if (rejected) announce('The server rejected this key');
}

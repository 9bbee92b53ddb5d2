// The key field. The key is kept in a variable of this page, never in the address or in the markup;
// `shell/session.js` keeps it for the tab where the user asks for it.
import { byId, announce } from './dom.js';
import { state, on, emit } from './state.js';

export function startAuth({ reload }) {
  const input = byId('token');
  byId('auth').addEventListener('submit', (event) => {
    event.preventDefault();
    setToken(input);
    reload();
  });
  input.addEventListener('input', () => {
    // Results for the previous key must not stay on screen.
    setToken(input);
    drawBadge();
  });
  input.addEventListener('paste', () => setTimeout(() => byId('auth').requestSubmit()));
  byId('reveal').addEventListener('click', () => {
    const show = input.type === 'password';
    input.type = show ? 'text' : 'password';
    byId('reveal').textContent = show ? 'Hide' : 'Show';
    byId('reveal').setAttribute('aria-pressed', String(show));
    byId('reveal').setAttribute('aria-label', show ? 'Hide the key' : 'Show the key');
  });
  on('tools', drawBadge);
  drawBadge();
}

export function focusToken() {
  const input = byId('token');
  input.focus();
  input.select();
  input.scrollIntoView({ block: 'nearest' });
}

function setToken(input) {
  const token = input.value.trim();
  // A header can contain only visible ASCII; other characters are artifacts of the paste.
  const sendable = /^[\x20-\x7e]*$/.test(token);
  input.setAttribute('aria-invalid', String(!sendable));
  input.setCustomValidity(sendable ? '' : 'The key contains characters that cannot be sent.');
  const next = sendable ? token : '';
  if (next === state.token) return;
  state.token = next;
  emit('token');
}

function drawBadge() {
  const badge = byId('token-badge');
  const rejected = state.token !== '' && state.status === 'signin';
  badge.textContent = state.token === '' ? 'No key' : rejected ? 'Key rejected' : 'Key set';
  badge.className = `badge ${state.token === '' ? 'grey' : rejected ? 'red' : 'green'}`;
  if (rejected) announce('The server rejected this key');
}

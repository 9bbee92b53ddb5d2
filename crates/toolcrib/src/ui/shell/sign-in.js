// Sign-in with an identity provider: an authorization code with PKCE. The secrets of a running sign-in
// are in the sessionStorage of this tab, and the server exchanges the code.
//
// Invariant: a response is accepted once, and only with the state of this tab's latest sign-in. The page
// goes back to its earlier address, which is kept here and never taken from the response.
import { state, emit } from '../state.js';
import { base, problemText, request } from '../api.js';
import { byId } from '../dom.js';
import { stay } from './session.js';

const RUNNING = 'toolcrib-sign-in';
const CALLBACK = `${base}signed-in`;

/** What the error codes of providers mean (RFC 6749 and OpenID Connect Core). */
const REFUSALS = {
  access_denied: 'The sign-in was declined. Nothing has changed; you can sign in again.',
  login_required: 'You have no session at the identity provider. Sign in again.',
  consent_required: 'The identity provider needs your consent. Sign in again and agree.',
  interaction_required: 'The identity provider has a question for you. Sign in again.',
  invalid_scope:
    'The identity provider does not know a scope that this server requests. The operator has to change `scopes`.',
  invalid_target:
    'The identity provider does not know the resource that this server requests. The operator has to change `resource`.',
  unauthorized_client:
    'The identity provider does not let this server sign people in. The operator has to register it.',
  temporarily_unavailable: 'The identity provider is busy at this moment. Try again soon.',
  server_error: 'The identity provider has an internal error. Try again later.',
};

export const isReturning = () => location.pathname === CALLBACK;

/** Loads the names of the providers, once the page shows how to sign in. */
export async function loadProviders() {
  let reply;
  try {
    reply = await request('GET', `${base}sign-in`);
  } catch {
    return; // a key still works
  }
  const list = reply.status === 200 ? reply.data?.issuers : undefined;
  if (!Array.isArray(list)) return;
  state.providers = list.filter((it) => typeof it?.issuer === 'string');
  emit('providers');
}

/** Leaves the page for the provider. */
export async function signInWith(issuer) {
  say(undefined);
  if (crypto.subtle === undefined) {
    say({ text: 'Sign-in requires https, or an address of this machine. Use a key instead.' });
    return;
  }
  const [nonce, verifier, own] = [secret(), secret(), secret()];
  const bytes = new TextEncoder().encode(verifier);
  const challenge = base64url(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)));
  const redirectUri = location.origin + CALLBACK;
  const start = { issuer, state: own, nonce, challenge, redirectUri };
  const { data, problem } = await post('start', start);
  if (problem) {
    say(problem);
    return;
  }
  const link = location.pathname + location.search + location.hash;
  const stays = byId('stay').checked;
  const running = { issuer, state: own, nonce, verifier, link, namesIssuer: data.namesIssuer, stays };
  try {
    sessionStorage.setItem(RUNNING, JSON.stringify(running));
  } catch {
    say({ text: 'Sign-in requires the session storage of the browser. Use a key instead.' });
    return;
  }
  // The address comes from the configuration of the server. Only web pages are opened.
  if (/^https?:\/\//i.test(data.url)) location.assign(data.url);
}

/** Finishes the sign-in whose response is in the address. Starts a session if the user chose that. */
export async function finish() {
  const answer = new URLSearchParams(location.search);
  const running = take();
  const link = running && isOwn(running.link) ? running.link : base;
  // The code leaves the address and the history before anything else happens.
  history.replaceState(null, '', link);
  const { token, problem } = await result(running, answer);
  if (problem) say(problem);
  if (token === undefined) return;
  state.token = token;
  if (running.stays === true) await stay();
}

async function result(running, answer) {
  if (running === undefined || answer.get('state') !== running.state) {
    const text = 'This response does not belong to a sign-in of this tab. Sign in again.';
    return { problem: { text } };
  }
  const from = answer.get('iss');
  if (from === null ? running.namesIssuer : from !== running.issuer) {
    const text = 'The response is from another identity provider than the one you chose. Sign in again.';
    return { problem: { text } };
  }
  const error = answer.get('error');
  if (error !== null) return { problem: refusal(error, answer.get('error_description')) };
  const code = answer.get('code');
  if (code === null) return { problem: { text: 'The response of the identity provider has no code. Sign in again.' } };
  const { issuer, verifier, nonce } = running;
  const redirectUri = location.origin + CALLBACK;
  const { data, problem } = await post('token', { issuer, code, verifier, nonce, redirectUri });
  return { token: typeof data?.token === 'string' ? data.token : undefined, problem };
}

function refusal(error, description) {
  const text = Object.hasOwn(REFUSALS, error)
    ? REFUSALS[error]
    : 'The identity provider refused the sign-in.';
  return { text, said: [error, description].filter(Boolean).join(': ').slice(0, 400) };
}

/** Sends a request to this server. Returns {data} or {problem}. */
async function post(step, body) {
  let reply;
  try {
    reply = await request('POST', `${base}sign-in/${step}`, { body: JSON.stringify(body) });
  } catch (error) {
    return { problem: { text: `The server could not be reached (${error.message}).` } };
  }
  if (reply.status === 200) return { data: reply.data };
  const { providerError, providerDescription } = reply.data?.details ?? {};
  const said = [providerError, providerDescription].filter((it) => typeof it === 'string');
  const text = problemText(reply);
  return { problem: { text: `${text.charAt(0).toUpperCase()}${text.slice(1)}.`, said: said.join(': ') } };
}

/** Shows why the sign-in failed: `text` in words, and `said`, the provider's own words. */
function say(problem) {
  state.signInProblem = problem;
  emit('providers');
}

function take() {
  try {
    const text = sessionStorage.getItem(RUNNING);
    sessionStorage.removeItem(RUNNING);
    return text === null ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether an address belongs to this page: the same path, with or without the last slash. */
function isOwn(link) {
  if (typeof link !== 'string') return false;
  const path = link.split(/[?#]/, 1)[0];
  return path === base || `${path}/` === base;
}

function secret() {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

function base64url(bytes) {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}

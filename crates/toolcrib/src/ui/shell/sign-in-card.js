// The sign-in card: its purpose, the field for a key, and the identity providers.
import { html, useEffect, useEvents, useLayoutEffect, useRef, useState, Icon } from '../lib/ui.js';
import { state } from '../state.js';
import { placeForm, returnForm } from '../auth.js';
import { current } from './routes.js';
import { canStay, hasGateway } from './session.js';
import { signInWith } from './sign-in.js';

/** Longer names from the address are cut: anyone can write an address. */
const MAX_NAME = 80;

export function SignIn() {
  const slot = useRef();
  const [, redraw] = useState(0);
  const again = () => redraw((it) => it + 1);
  useEvents(['providers', 'tools'], again);
  useEffect(() => {
    addEventListener('hashchange', again);
    return () => removeEventListener('hashchange', again);
  }, []);
  // The form moves with its input, and goes back to the header when the card closes.
  useLayoutEffect(() => {
    placeForm(slot.current);
    return returnForm;
  }, []);
  const isRejected = state.token !== '' && state.status === 'signin';
  const { signInProblem, providers } = state;
  return html`<div class="card signin" id="signin">
    <div class="card-icon"><${Icon} name="key" /></div>
    <h2>${isRejected ? 'This key was not accepted' : 'Sign in'}</h2>
    ${isRejected && html`<p>Check that it is complete, and that it has neither expired nor been revoked.</p>`}
    ${
      signInProblem !== undefined &&
      html`<div class="verdict bad" role="alert" id="sign-in-problem">
        <p>${signInProblem.text}</p>
        ${signInProblem.said && html`<p class="muted">The identity provider says: <bdi>${signInProblem.said}</bdi></p>`}
      </div>`
    }
    <p id="sign-in-purpose">${purpose()}</p>
    ${
      providers.length > 0 &&
      html`<div class="row">
          ${providers.map(
            ({ issuer, name }) => html`<button key=${issuer} type="button" class="button primary"
              data-provider=${issuer} onClick=${() => signInWith(issuer)}>Sign in with <bdi>${name}</bdi></button>`,
          )}
        </div>
        <p class="muted">Agents and scripts use a key, and so can you:</p>`
    }
    <div class="key-slot" ref=${slot}></div>
    <p class="muted">
      ${
        canStay
          ? 'The key is sent to this server only, and this page never stores it. If you stay signed in, the browser gets a cookie that works on this page alone until you sign out.'
          : 'The key is sent to this server only. This page forgets it when you close or reload it.'
      }
    </p>
    <p class="muted">
      No key? The operator of this server creates one with <code>toolcrib keys create</code>. The keys
      of <code>toolcrib serve --demo</code> are printed by <code>toolcrib demo keys</code>.
    </p>
  </div>`;
}

/** The purpose of the sign-in, from the address. The page cannot know whether its target exists. */
function purpose() {
  const tool = /^#tool=(.+)$/.exec(location.hash);
  if (tool) return html`Sign in to see the tool ${named(decoded(tool[1]))}.`;
  if (!hasGateway) return 'Sign in to see the tools of this server.';
  const { section, path } = current();
  const name = path.length > 0 && path[path.length - 1] !== '' ? named(path[path.length - 1]) : undefined;
  switch (section) {
    case 'approvals':
      return name
        ? html`Sign in to answer the request for approval ${name}.`
        : 'Sign in to see the requests for approval.';
    case 'record':
      return name ? html`Sign in to see ${name} in the record.` : 'Sign in to see the record.';
    case 'sources':
      return name ? html`Sign in to see the source ${name}.` : 'Sign in to see the sources.';
    case 'access':
      return 'Sign in to see who may do what.';
    case 'connections':
      if (path[0] === 'returned') return 'Sign in to finish the connection of your account.';
      if (path[0] === 'clients') return 'Sign in to see the clients that act for you.';
      return path.length > 0 ? 'Sign in to connect an account.' : 'Sign in to see the accounts that your tools act with.';
    case 'connect':
      return 'Sign in to connect a client.';
    default:
      return 'Sign in to see the tools of this server.';
  }
}

function named(text) {
  const shown = text.length > MAX_NAME ? `${text.slice(0, MAX_NAME)}…` : text;
  return html`<code><bdi>${shown}</bdi></code>`;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// The first steps of a server without sources, in working order, each ticked off when it is done. Only
// callers who may read the sources see them: others cannot know whether there are any.
import { html, announce, Copy } from '../lib/ui.js';
import { state, on, emit, may } from '../state.js';
import { request } from '../api.js';
import { href } from '../lib/address.js';
import { current } from './routes.js';
import { hasGateway } from './session.js';

const EVERY_MS = 2_000;

/** The progress of the steps, while they are shown. */
let shown;
let dismissed = false;
let looking = false;
let timer;

/** Whether there are steps to show. The event `first-run` reports a change of this or of a step. */
export function firstRun() {
  return shown !== undefined;
}

export function startFirstRun() {
  if (!hasGateway) return;
  on('who', () => {
    end();
    dismissed = false;
    look();
  });
  on('tools', look);
  addEventListener('hashchange', look);
  document.addEventListener('visibilitychange', look);
}

function end() {
  clearTimeout(timer);
  if (shown === undefined) return;
  shown = undefined;
  emit('first-run');
}

/** Polls the server for the progress: at first whether it has any source. */
async function look() {
  if (looking || dismissed || document.hidden || current().section !== 'tools') return;
  if (state.status !== 'ready' || !may('sources:read')) return;
  if (shown === undefined && state.tools.length > 0) return;
  clearTimeout(timer);
  looking = true;
  const who = state.who;
  let found;
  try {
    found = await facts(who);
  } catch {
    found = undefined; // the next poll tries again
  }
  looking = false;
  if (state.who !== who || dismissed) return;
  if (found !== undefined) update(found);
  if (shown !== undefined && !(shown.source && shown.key && shown.client))
    timer = setTimeout(look, EVERY_MS);
}

async function facts(who) {
  const sources = await request('GET', '/v1/sources', {});
  if (sources.status !== 200) return undefined;
  const done = { source: sources.data.sources.length > 0, key: false, client: false };
  if (may('keys:manage')) {
    const keys = await request('GET', '/v1/keys', {});
    // The key of this page is not the one for a client.
    const others = (keys.data?.keys ?? []).filter((key) => key.id !== who.keyId && !key.revokedAt);
    done.key = others.length > 0;
    done.client = others.some((key) => key.lastUsedAt);
  }
  return done;
}

function update(done) {
  const before = shown;
  if (before === undefined && done.source) return;
  if (JSON.stringify(before) === JSON.stringify(done)) return;
  shown = done;
  emit('first-run');
  for (const [name, text] of [
    ['source', 'The first source was added'],
    ['key', 'The first key was created'],
    ['client', 'The first client is connected'],
  ])
    if (before && done[name] && !before[name]) announce(text);
}

function dismiss() {
  dismissed = true;
  end();
}

export function FirstRun() {
  const done = shown;
  const tenant = state.who.tenant;
  const all = done.source && done.key && done.client;
  return html`<div class="card first-run">
    <h2>${all ? 'Everything is in place' : 'Three steps to the first call'}</h2>
    <p>
      ${all && 'A client has reached this server with its own key.'}
      ${!all && done.source && html`The tenant <bdi>${tenant}</bdi> has its first source.`}
      ${!done.source && html`No source supplies tools to the tenant <bdi>${tenant}</bdi> yet.`}
    </p>
    <ol class="first-steps">
      <${Step} name="source" title="Add a source" done=${done.source}>
        ${may('config:write') &&
        html`<p><a class="button primary" href=${href('sources')}>Open Sources</a></p>`}
        <p>
          ${may('config:write') ? 'Or import what you have' : 'Import what you have'}: on the machine of
          the server, in its directory, this command writes a configuration from the clients that are
          installed there (Claude Desktop, Claude Code, Cursor, VS Code, Codex).
        </p>
        <${Command} text="toolcrib init" />
        <p class="muted">The server reads a changed <code>toolcrib.toml</code> by itself.</p>
      <//>
      <${Step} name="key" title="Make a key" done=${done.key}>
        ${may('keys:manage')
          ? html`<p>Each client has its own key, with only the scopes that it needs.</p>
              <p><a class="button" href=${href('access')}>Open Access</a></p>
              <${Command} text=${`toolcrib keys create --name laptop --principal ada --tenant ${tenant} --scope 'tools:*'`} />`
          : html`<p>
              A caller with the scope <code>keys:manage</code> in the tenant <bdi>${tenant}</bdi> makes a
              key for each client.
            </p>`}
      <//>
      <${Step} name="client" title="Connect a client" done=${done.client}>
        <p>Choose your client and copy its configuration.</p>
        <p><a class="button" href=${href('connect')}>Open Connect</a></p>
      <//>
    </ol>
    <div class="row">
      <button type="button" class=${all ? 'button primary' : 'quiet'} id="first-run-close" onClick=${dismiss}>
        ${all ? 'Show the tools' : 'Hide these steps'}
      </button>
    </div>
  </div>`;
}

function Step({ name, title, done, children }) {
  return html`<li data-step=${name} data-done=${done ? 'true' : 'false'}>
    <h3>${title} ${done && html`<span class="badge green">✓ done</span>`}</h3>
    ${!done && children}
  </li>`;
}

function Command({ text }) {
  return html`<div class="command"><code tabindex="0">${text}</code><${Copy} text=${text} /></div>`;
}

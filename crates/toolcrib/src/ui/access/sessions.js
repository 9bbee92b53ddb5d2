// The sessions of the page: the caller's own or, for callers who manage keys, those of the whole tenant.
import { html, useState, plural, send, useData, useTick, Badge, Dialog, Empty, Loaded, Problem, Time } from '../lib/ui.js';
import { KeyId, Person } from '../lib/links.js';
import { may } from '../state.js';
import { signOut } from '../shell/session.js';

export function Sessions({ who }) {
  const found = useData('/v1/sessions');
  const [ending, setEnding] = useState();
  useTick();
  return html`<div>
    <div class="screen-head">
      <div>
        <h2>Access</h2>
        <p>
          ${may('keys:manage') ? html`Who stays signed in to this page in <bdi>${who.tenant}</bdi>.` : 'Where you stay signed in to this page.'}
          ${' '}A session has the rights of its key or token, and stops working with it.
        </p>
      </div>
    </div>
    ${ending && html`<${End} it=${ending} onClose=${() => setEnding()} onChanged=${found.reload} />`}
    <${Loaded} of=${found}>
      ${({ sessions }) =>
        sessions.length === 0
          ? html`<${Empty} title="No sessions"><p class="muted">Choose “Stay signed in” when you sign in.</p><//>`
          : html`<div class="bar"><span class="muted">${plural(sessions.length, 'session')}</span></div>
              <div class="table-box" tabindex="0" role="region" aria-label="Sessions">
                <table class="table">
                  <thead>
                    <tr><th>Principal</th><th>Browser</th><th>Signed in with</th><th>Last used</th><th>Started</th><th>Expires</th><th>Actions</th></tr>
                  </thead>
                  <tbody>
                    ${sessions.map((it) => html`<${Row} key=${it.id} it=${it} onEnd=${() => setEnding(it)} />`)}
                  </tbody>
                </table>
              </div>`}
    <//>
  </div>`;
}

function Row({ it, onEnd }) {
  return html`<tr data-session=${it.id}>
    <td><${Person} name=${it.principal} />${it.current && html` <${Badge} tone="blue">this browser<//>`}</td>
    <td><bdi>${it.browser}</bdi></td>
    <td>${it.keyId ? html`key <${KeyId} id=${it.keyId} />` : html`a token of <bdi>${it.issuer}</bdi>`}</td>
    <td><${Time} at=${it.lastUsedAt} /></td>
    <td><${Time} at=${it.createdAt} /></td>
    <td><${Time} at=${it.expiresAt} /></td>
    <td class="nowrap"><button type="button" class="quiet" onClick=${onEnd}>End</button></td>
  </tr>`;
}

function End({ it, onClose, onChanged }) {
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  const end = async (event) => {
    event.preventDefault();
    if (it.current) {
      signOut();
      return;
    }
    setBusy(true);
    const reply = await send('DELETE', `/v1/sessions/${encodeURIComponent(it.id)}`);
    setBusy(false);
    // A missing session (404) is the result that the user wants.
    const failed = reply.status === 404 ? undefined : reply.problem;
    setProblem(failed);
    if (failed !== undefined) return;
    onChanged();
    onClose();
  };
  return html`<${Dialog} title="End the session" onClose=${onClose}>
    <form class="form" onSubmit=${end}>
      <p>
        ${
          it.current
            ? 'This signs you out in all tabs of this browser.'
            : html`This signs <bdi>${it.principal}</bdi> out at once: <bdi>${it.browser}</bdi>.`
        }${' '}The key or token stays valid.
      </p>
      ${problem && html`<${Problem} text=${problem} />`}
      <div class="row end">
        <button class="button danger" disabled=${busy} data-confirm="end">End the session</button>
      </div>
    </form>
  <//>`;
}

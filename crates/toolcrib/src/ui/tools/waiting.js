// A call that waits for an approval: links to the request, follows it, and runs the call when the
// approval is granted.
import { html, ago, Icon, useEffect, useRef, useState, useTick } from '../lib/ui.js';
import { on } from '../state.js';
import { approval } from '../api.js';
import { Person, RoleName } from '../lib/links.js';
import { own } from '../json.js';
import { hasGateway } from '../shell/session.js';

/** How often the request is polled, in case the stream of changes is interrupted. */
const POLL_MS = 15_000;

const WORDS = { grant: 'approved', reject: 'rejected', override: 'overrode', withdraw: 'withdrew' };

/** How a request is closed without a run: the texts, and the user's next step. */
const ENDS = {
  rejected: { word: 'Rejected', text: 'The request was rejected. The tool has not run.', tone: 'bad' },
  expired: {
    word: 'The request has expired',
    text: 'It was not answered in time. The tool has not run.',
    next: 'Request again',
  },
  withdrawn: {
    word: 'The grant was withdrawn',
    text: 'The tool has not run. The call needs a new approval.',
    next: 'Request again',
  },
  used: { word: 'Already used', text: 'The approval was used by another call.', next: 'Run again' },
  left: {
    word: 'Not waiting any more',
    text: 'The request stays open until it expires. Run the tool again to wait for it.',
  },
};

/** `granted` runs the call; `again` requests another approval. */
export function Waiting({ id, reply, granted, again }) {
  const [request, setRequest] = useState({});
  const [end, setEnd] = useState();
  const over = useRef(false);
  useTick(5_000);
  const finish = (how) => {
    over.current = true;
    setEnd(how);
  };
  const follow = (next) => {
    if (over.current) return;
    setRequest(next);
    if (next.state === 'granted' || next.state === 'overridden') {
      over.current = true;
      granted();
    } else if (next.state !== 'pending') {
      finish(ENDS[next.state] ?? ENDS.used);
    }
  };
  useEffect(() => {
    if (!hasGateway) return undefined;
    const load = async () => {
      if (over.current) return;
      try {
        const found = await approval(id);
        if (found.status === 200) follow(found.data);
      } catch {
        // The next change or poll tries again.
      }
    };
    const timer = setInterval(load, POLL_MS);
    const ends = [
      on('live:approval', (data) => data?.approvalId === id && follow(data)),
      on('live:open', load),
    ];
    load();
    return () => {
      over.current = true;
      clearInterval(timer);
      for (const stop of ends) stop();
    };
  }, []);
  const expires = new Date(request.expiresAt ?? own(own(reply.data, 'details'), 'expiresAt') ?? NaN);
  const tone = end === undefined ? 'waiting' : (end.tone ?? 'warn');
  return html`<section class=${`outcome waiting ${end === undefined ? '' : tone}`} aria-label="Result" data-tone=${tone}>
    <div class="outcome-head">
      <span class="row">
        <${Icon} name="clock" />
        <span class="outcome-title" role="status">${end?.word ?? 'Waiting for approval'}</span>
      </span>
      <span class="muted">
        ${end === undefined && !Number.isNaN(expires.getTime()) && `expires ${ago(expires)}`}
      </span>
    </div>
    <progress aria-label="Waiting for approval" hidden=${end !== undefined || !hasGateway}></progress>
    <div class="outcome-body">
      <p>${end?.text ?? (hasGateway ? WAITS : WAITS_OUTSIDE)}</p>
      <p class="approval-note">${request.principal !== undefined && html`<${Who} request=${request} />`}</p>
      <ul class="votes">
        ${(Array.isArray(request.votes) ? request.votes : []).map(
          (vote) => html`<li>${typeof vote?.principal === 'string' ? html`<${Person} name=${vote.principal} style="strong" />` : html`<bdi class="strong">someone</bdi>`}${voteText(vote)}</li>`,
        )}
      </ul>
      <div class="row">
        ${
          hasGateway &&
          html`<a class="button" href=${`#/approvals/${encodeURIComponent(id)}`} data-approval=${id}>Open the request</a>`
        }
        ${
          hasGateway &&
          end === undefined &&
          html`<button type="button" class="quiet" data-action="stop-waiting"
            onClick=${() => finish(ENDS.left)}>Stop waiting</button>`
        }
        ${end?.next && html`<button type="button" class="button" onClick=${again}>${end.next}</button>`}
        ${!hasGateway && html`<button type="button" class="button" onClick=${again}>Run again</button>`}
      </div>
      <details>
        <summary>Details</summary>
        <p>Request <code>${id}</code>. On the command line: <code>${`toolcrib approvals grant ${id}`}</code></p>
      </details>
    </div>
  </section>`;
}

const WAITS =
  'Another person has to approve this call. The tool then runs at once, also while you are on another screen.';
const WAITS_OUTSIDE =
  'The tool has not run. When the request is granted, make the same call again.';

function Who({ request }) {
  const { principal, requiredScope, requiredRole, quorum, granted } = request;
  return html`Requested as <${Person} name=${String(principal)} style="mono" />. ${
    typeof requiredScope === 'string' &&
    html`Another person with the scope <code>${requiredScope}</code>${
      typeof requiredRole === 'string' && html` and the role <${RoleName} name=${requiredRole} style="mono" />`
    } can answer it.`
  }${quorum > 1 && ` ${granted ?? 0} of ${quorum} approvals are given.`}`;
}

function voteText(vote) {
  const isCommented = typeof vote?.comment === 'string' && vote.comment !== '';
  const comment = isCommented ? html`: “<bdi>${vote.comment}</bdi>”` : '.';
  return html`${' '}${WORDS[vote?.verdict] ?? 'answered'} it${comment}`;
}

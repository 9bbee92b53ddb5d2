// A call that waits for an approval: calm, links to the request, follows it, and runs the call when
// the approval is granted.
import { h, button, icon, setText } from '../dom.js';
import { on } from '../state.js';
import { approval } from '../api.js';
import { own } from '../json.js';
import { hasGateway } from '../shell/session.js';
import { ago } from '../lib/ui.js';

/** If no change arrives, for example because the stream of changes is interrupted. */
const POLL_MS = 15_000;

/** `granted` runs the call; `again` asks for another approval. */
export function createWaiting({ id, reply, granted, again }) {
  const title = h('span', { class: 'outcome-title', role: 'status', text: 'Waiting for approval' });
  const text = h('p', {
    text: 'Another person has to agree before this tool runs. It runs by itself as soon as that happens, also while you are on another screen.',
  });
  const who = h('p', { class: 'approval-note' });
  const left = h('span', { class: 'muted' });
  const answers = h('ul', { class: 'votes' });
  const buttons = h(
    'div',
    { class: 'row' },
    hasGateway
      ? h(
          'a',
          {
            class: 'button',
            href: `#/approvals/${encodeURIComponent(id)}`,
            data: { approval: id },
          },
          'Open the request',
        )
      : undefined,
    button(
      'Stop waiting',
      () =>
        finish(
          'Not waiting any more',
          'The request stays open until it expires. Run the tool again to wait for it.',
        ),
      {
        class: 'quiet',
        data: { action: 'stop-waiting' },
      },
    ),
  );
  const bar = h('progress', { 'aria-label': 'Waiting for approval' });
  const element = h(
    'section',
    { class: 'outcome waiting', 'aria-label': 'Result', data: { tone: 'waiting' } },
    h('div', { class: 'outcome-head' }, h('span', { class: 'row' }, icon('clock'), title), left),
    bar,
    h(
      'div',
      { class: 'outcome-body' },
      text,
      who,
      answers,
      buttons,
      h(
        'details',
        {},
        h('summary', { text: 'Details' }),
        h(
          'p',
          {},
          'Request ',
          h('code', { text: id }),
          '. On the command line: ',
          h('code', { text: `toolcrib approvals grant ${id}` }),
        ),
      ),
    ),
  );

  let over = false;
  let expires = own(own(reply.data, 'details'), 'expiresAt');
  const timers = [setInterval(drawLeft, 5_000)];
  const ends = [];
  if (hasGateway) {
    timers.push(setInterval(load, POLL_MS));
    ends.push(
      on('live:approval', (data) => data?.approvalId === id && follow(data)),
      on('live:open', load),
    );
    load();
  } else {
    text.textContent =
      'The tool has not run. When the request is granted, make the same call again.';
    bar.hidden = true;
    buttons.replaceChildren(button('Run again', again));
  }
  drawLeft();

  async function load() {
    let found;
    try {
      found = await approval(id);
    } catch {
      return; // the next change or poll tries again
    }
    if (found.status === 200) follow(found.data);
  }

  function follow(it) {
    if (over) return;
    expires = it.expiresAt ?? expires;
    drawWho(it);
    drawVotes(it);
    drawLeft();
    if (it.state === 'granted' || it.state === 'overridden') {
      stop();
      granted();
    } else if (it.state === 'rejected') {
      finish('Rejected', 'The request was rejected. The tool has not run.', 'bad');
    } else if (it.state === 'expired') {
      finish('The request has expired', 'It was not answered in time. The tool has not run.');
      buttons.append(button('Ask again', again));
    } else if (it.state === 'withdrawn') {
      finish('The grant was withdrawn', 'The tool has not run. The call needs a new approval.');
      buttons.append(button('Ask again', again));
    } else if (it.state !== 'pending') {
      finish('Already used', 'The approval was used by another call.');
      buttons.append(button('Run again', again));
    }
  }

  function drawWho(it) {
    const parts = ['Requested as ', h('bdi', { class: 'mono', text: String(it.principal) }), '. '];
    if (typeof it.requiredScope === 'string') {
      parts.push('Another person with the scope ', h('code', { text: it.requiredScope }));
      if (typeof it.requiredRole === 'string')
        parts.push(' and the role ', h('code', { text: it.requiredRole }));
      parts.push(' can answer it.');
    }
    if (it.quorum > 1) parts.push(` ${it.granted ?? 0} of ${it.quorum} approvals are given.`);
    who.replaceChildren(...parts);
  }

  function drawVotes(it) {
    const votes = Array.isArray(it.votes) ? it.votes : [];
    const words = { grant: 'approved', reject: 'rejected', override: 'overrode', withdraw: 'withdrew' };
    answers.replaceChildren(
      ...votes.map((vote) =>
        h(
          'li',
          {},
          h('bdi', { class: 'strong', text: String(vote?.principal ?? 'someone') }),
          ` ${words[vote?.verdict] ?? 'answered'} it`,
          typeof vote?.comment === 'string' && vote.comment !== '' ? `: “${vote.comment}”` : '.',
        ),
      ),
    );
  }

  function drawLeft() {
    const date = new Date(expires ?? NaN);
    if (!over && !Number.isNaN(date.getTime())) left.textContent = `expires ${ago(date)}`;
  }

  function finish(word, sentence, tone = 'warn') {
    stop();
    element.dataset.tone = tone;
    element.classList.add(tone);
    setText(title, word);
    setText(text, sentence);
    left.textContent = '';
    bar.hidden = true;
    buttons.querySelector('[data-action="stop-waiting"]')?.remove();
  }

  function stop() {
    over = true;
    for (const timer of timers) clearInterval(timer);
    for (const end of ends) end();
  }

  return { element, stop };
}

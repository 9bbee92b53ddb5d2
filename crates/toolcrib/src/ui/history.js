// The calls of one tool since the page was opened. In memory only.
import { h, button, formatMs } from './dom.js';
import { verdict } from './result.js';

const KEEP = 20;
const TONES = { ok: 'green', error: 'red', refused: 'amber', cancelled: 'grey' };

/** `actions`: {open(entry), rerun(entry), changed(count)}. */
export function createHistory(actions) {
  const entries = [];
  const host = h('div', { class: 'stack' });

  function draw() {
    host.replaceChildren(
      entries.length === 0
        ? h('p', {
            class: 'muted',
            text: 'Calls you make are listed here until the page is closed. Nothing is stored.',
          })
        : h('ol', { class: 'history' }, entries.map(row)),
    );
  }

  function row(entry) {
    const word = verdict(entry.outcome);
    const { reply } = entry.outcome;
    return h(
      'li',
      {},
      h('span', { class: `badge ${TONES[word]}`, text: word }),
      h('time', { datetime: entry.at.toISOString(), text: entry.at.toLocaleTimeString() }),
      h('span', {
        class: 'muted nowrap',
        text: [reply ? `HTTP ${reply.status}` : undefined, formatMs(reply?.ms ?? entry.outcome.ms)]
          .filter(Boolean)
          .join(' · '),
      }),
      h('code', { class: 'args', text: entry.body.slice(0, 300) }),
      h(
        'span',
        { class: 'row' },
        button('Open', () => actions.open(entry), { class: 'quiet' }),
        button('Run again', () => actions.rerun(entry), { class: 'quiet' }),
      ),
    );
  }

  draw();
  return {
    element: host,
    add: (entry) => {
      entries.unshift(entry);
      entries.length = Math.min(entries.length, KEEP);
      draw();
      actions.changed(entries.length);
    },
  };
}

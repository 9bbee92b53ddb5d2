// The Calls tab: what the user saved, what was called on this page, and what the record holds.
import { h, button, formatMs } from '../dom.js';
import { verdict } from './result.js';
import { pretty } from '../json.js';
import { removeCall, savedCalls } from './saved.js';
import { recentCalls } from './recent.js';

const KEEP = 20;
const TONES = { ok: 'green', error: 'red', waiting: 'amber', refused: 'amber', cancelled: 'grey' };

/** `actions`: {open(body, outcome), rerun(body), changed(count)}. */
export function createHistory(tool, actions) {
  const entries = [];
  const saved = h('section', { class: 'sub', 'aria-label': 'Saved calls' });
  const made = h('section', { class: 'sub', 'aria-label': 'Calls on this page' });
  const recent = h('section', { class: 'sub', 'aria-label': 'Recent calls', hidden: true });
  const element = h('div', { class: 'stack' }, saved, made, recent);

  function draw() {
    made.replaceChildren(
      h('h3', { text: 'On this page' }),
      entries.length === 0
        ? h('p', {
            class: 'muted',
            text: 'Calls you make are listed here until the page is closed. They are not stored.',
          })
        : h('ol', { class: 'history' }, entries.map(row)),
    );
  }

  function drawSaved() {
    const list = savedCalls(tool.name);
    saved.replaceChildren(
      h('h3', { text: 'Saved in this browser' }),
      list.length === 0
        ? h('p', {
            class: 'muted',
            text: 'Nothing is saved. “Save call” under the arguments keeps them here, without secrets.',
          })
        : h('ul', { class: 'history saved' }, list.map(savedRow)),
    );
  }

  function savedRow({ name, args }) {
    const text = JSON.stringify(args);
    return h(
      'li',
      { data: { saved: name } },
      h('bdi', { class: 'strong', text: name }),
      h('code', { class: 'args', text: text.slice(0, 300) }),
      h(
        'span',
        { class: 'row' },
        button('Open', () => actions.open(pretty(args)), { class: 'quiet' }),
        button('Run', () => actions.rerun(pretty(args)), { class: 'quiet' }),
        button(
          'Remove',
          () => {
            removeCall(tool.name, name);
            drawSaved();
          },
          { class: 'quiet', 'aria-label': `Remove ${name}` },
        ),
      ),
    );
  }

  function row({ body, outcome, at }) {
    const word = verdict(outcome);
    const { reply } = outcome;
    return h(
      'li',
      {},
      h('span', { class: `badge ${TONES[word]}`, text: word }),
      h('time', { datetime: at.toISOString(), text: at.toLocaleTimeString() }),
      h('span', {
        class: 'muted nowrap',
        text: [reply ? `HTTP ${reply.status}` : undefined, formatMs(reply?.ms ?? outcome.ms)]
          .filter(Boolean)
          .join(' · '),
      }),
      h('code', { class: 'args', text: body.slice(0, 300) }),
      h(
        'span',
        { class: 'row' },
        button('Open', () => actions.open(body, outcome), { class: 'quiet' }),
        button('Run again', () => actions.rerun(body), { class: 'quiet' }),
      ),
    );
  }

  draw();
  return {
    element,
    /** What may have changed since the tab was last open. */
    refresh: () => {
      drawSaved();
      recentCalls(tool, recent);
    },
    add: (entry) => {
      entries.unshift(entry);
      entries.length = Math.min(entries.length, KEEP);
      draw();
      actions.changed(entries.length);
    },
  };
}

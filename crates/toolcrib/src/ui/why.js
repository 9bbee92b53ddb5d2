// Why a tool can be used or not, and why the list is empty: what the server says about this key,
// step by step. A server without that endpoint (a page inside another program) shows nothing.
import { h, button } from './dom.js';
import { explain, problemText } from './api.js';

const MARKS = { pass: '✓', depends: '?', ask: '…', stop: '✕' };
const WORDS = { pass: 'passes', depends: 'depends', ask: 'asks', stop: 'stops' };
const NAMES = {
  identity: 'Key',
  tool: 'Tool',
  tenant: 'Tenant',
  pin: 'Pin',
  scope: 'Scope',
  policy: 'Policy',
  rate: 'Rate',
  quota: 'Quota',
  approval: 'Approval',
  source: 'Source',
};
const OUTCOMES = {
  allowed: 'A call would run.',
  depends: 'A call would run or not, depending on its arguments.',
  needs_approval: 'A call would wait until a person consents.',
  unavailable: 'A call would pass the gate, but the tool’s source does not answer now.',
  denied: 'A call would be refused.',
  hidden: 'This key is not shown it.',
  unknown: 'There is no such tool for this key.',
};

/** A panel that asks when it is first opened. `name` is a tool; without one it is about the list. */
export function whyPanel(name) {
  const body = h('div', { class: 'why', 'aria-live': 'polite' });
  let asked = false;
  async function load() {
    asked = true;
    body.replaceChildren(h('p', { class: 'muted', text: 'Asking the server…' }));
    let reply;
    try {
      reply = await explain(name);
    } catch (error) {
      body.replaceChildren(said(`The server could not be reached (${error.message}).`), again());
      return;
    }
    if (reply.status === 200 && Array.isArray(reply.data?.steps))
      body.replaceChildren(...drawn(reply.data, name));
    else if (reply.status === 401)
      body.replaceChildren(said('The server explains this to callers with a key only.'));
    else if (reply.status === 404 || reply.status === 405)
      body.replaceChildren(said('This server does not explain its decisions.'));
    else body.replaceChildren(said(problemText(reply)), again());
  }
  const again = () => button('Ask again', load);
  const said = (text) => h('p', { class: 'muted', text });
  return { element: body, open: () => (asked ? undefined : load()), reload: load };
}

/** The panel under the notice of an empty list. */
export function whyEmpty() {
  const panel = whyPanel();
  const more = h(
    'details',
    { class: 'why-empty', on: { toggle: () => (more.open ? panel.open() : undefined) } },
    h('summary', { text: 'Why is the list empty?' }),
    panel.element,
  );
  return more;
}

function drawn(told, name) {
  const grants = Array.isArray(told.grants) ? told.grants.map(String) : [];
  const who = h(
    'p',
    { class: 'muted' },
    'For ',
    h('bdi', { class: 'mono', text: String(told.principal) }),
    ' in tenant ',
    h('bdi', { class: 'mono', text: String(told.tenant) }),
    grants.length === 0 ? ', which holds no scopes' : ', which holds ',
    h('bdi', { class: 'mono', text: grants.join(', ') }),
  );
  const outcome =
    name === undefined ? undefined : h('p', { class: 'strong', text: OUTCOMES[told.outcome] ?? '' });
  return [outcome, steps(told.steps), who].filter((part) => part !== undefined);
}

function steps(list) {
  return h(
    'ol',
    { class: 'why-steps' },
    list.map((step) =>
      h(
        'li',
        { data: { result: String(step?.result) } },
        h('span', {
          class: 'why-mark',
          role: 'img',
          'aria-label': WORDS[step?.result] ?? 'unknown',
          text: MARKS[step?.result] ?? '·',
        }),
        h('span', { class: 'why-name', text: NAMES[step?.step] ?? String(step?.step) }),
        h('bdi', { class: 'why-text', text: String(step?.message ?? '') }),
      ),
    ),
  );
}

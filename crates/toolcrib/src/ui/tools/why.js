// Explains why a tool can be used or not, and why the list is empty: the server's decision for this
// key, step by step. A server without that endpoint (an embedded page) shows nothing.
import { h, button, withCode } from '../dom.js';
import { explain, problemText } from '../api.js';
import { hasGateway } from '../shell/session.js';

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
  depends: 'Whether a call would run depends on its arguments.',
  needs_approval: 'A call would wait for an approval.',
  unavailable: 'A call would be permitted, but the tool’s source is not available now.',
  denied: 'A call would be refused.',
  hidden: 'This key cannot see the tool.',
  unknown: 'This key has no such tool.',
};

/** A panel that loads when it is first opened, for the tool `name` or, without it, for the list. */
export function whyPanel(name) {
  const body = h('div', { class: 'why', 'aria-live': 'polite' });
  let opened = false;
  async function load() {
    opened = true;
    body.replaceChildren(h('p', { class: 'muted', text: 'Loading the explanation…' }));
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
      body.replaceChildren(said('The server requires a key to explain this.'));
    else if (reply.status === 404 || reply.status === 405)
      body.replaceChildren(said('This server does not explain its decisions.'));
    else body.replaceChildren(said(problemText(reply)), again());
  }
  const again = () => button('Try again', load);
  const said = (text) => h('p', { class: 'muted', text });
  return { element: body, open: () => (opened ? undefined : load()), reload: load };
}

/** The panel under the notice of an empty list. */
export function whyEmpty() {
  if (!hasGateway) return undefined;
  const panel = whyPanel();
  const more = h(
    'details',
    { class: 'why-empty', on: { toggle: () => (more.open ? panel.open() : undefined) } },
    h('summary', { text: 'Why is the list empty?' }),
    panel.element,
  );
  return more;
}

function drawn(report, name) {
  const grants = Array.isArray(report.grants) ? report.grants.map(String) : [];
  const who = h(
    'p',
    { class: 'muted' },
    'For ',
    h('bdi', { class: 'mono', text: String(report.principal) }),
    ' in tenant ',
    h('bdi', { class: 'mono', text: String(report.tenant) }),
    grants.length === 0 ? ', which holds no scopes' : ', which holds ',
    h('bdi', { class: 'mono', text: grants.join(', ') }),
  );
  const outcome =
    name === undefined
      ? undefined
      : h('p', { class: 'strong', text: OUTCOMES[report.outcome] ?? '' });
  return [outcome, steps(report.steps), who].filter((part) => part !== undefined);
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
        h('bdi', { class: 'why-text' }, withCode(String(step?.message ?? ''), (text) => h('code', { text }))),
      ),
    ),
  );
}

// The outcome of one call: a one-line summary, the content, and the raw reply.
import { h, button, copyButton, formatBytes, formatMs } from '../dom.js';
import { isObject, jsonBlock, own, parseJson } from '../json.js';
import { problemText } from '../api.js';
import { href } from '../shell/routes.js';
import { may } from '../shell/session.js';
import { renderContent, renderStructured } from './blocks.js';
import { tabs } from './tabs.js';

export { renderContent, renderStructured };

/** `outcome`: {reply} | {cancelled, ms} | {failed, ms}. `actions`: {signIn, retry}. */
export function renderOutcome(outcome, actions = {}) {
  const view = describe(outcome);
  const facts = [
    outcome.reply ? `HTTP ${outcome.reply.status}` : undefined,
    formatMs(outcome.reply?.ms ?? outcome.ms),
    outcome.reply ? formatBytes(outcome.reply.text.length) : undefined,
  ];
  const element = h(
    'section',
    { class: `outcome ${view.tone}`, 'aria-label': 'Result', data: { tone: view.tone } },
    h(
      'div',
      { class: 'outcome-head' },
      h('span', { class: 'outcome-title', text: view.title }),
      h(
        'span',
        { class: 'facts' },
        facts.filter(Boolean).map((fact) => h('span', { text: fact })),
        traceId(outcome.reply),
      ),
    ),
  );
  if (!outcome.reply) {
    element.append(
      h('div', { class: 'outcome-body' }, h('p', { text: view.text }), retryButton(actions)),
    );
    return element;
  }
  element.append(
    tabs(
      [
        {
          id: 'result',
          label: 'Result',
          panel: h(
            'div',
            { class: 'outcome-body' },
            view.parts ?? explain(view, outcome.reply, actions),
          ),
        },
        { id: 'raw', label: 'Raw', panel: rawPanel(outcome.reply) },
      ],
      { label: 'Result views' },
    ).element,
  );
  return element;
}

/** In one word, for the history: ok | error | waiting | refused | cancelled. */
export function verdict(outcome) {
  if (outcome.cancelled) return 'cancelled';
  if (!outcome.reply) return 'error';
  if (isResult(outcome.reply)) return outcome.reply.data.isError === true ? 'error' : 'ok';
  if (pendingApproval(outcome.reply) !== undefined) return 'waiting';
  return outcome.reply.status >= 500 ? 'error' : 'refused';
}

function isResult(reply) {
  return isObject(reply.data) && Array.isArray(reply.data.content);
}

function describe(outcome) {
  if (outcome.cancelled)
    return {
      tone: 'warn',
      title: 'Cancelled',
      text: 'You cancelled the call. The server was notified; the tool may already have acted.',
    };
  const { reply } = outcome;
  if (!reply)
    return {
      tone: 'bad',
      title: 'No response',
      text: `The server could not be reached (${outcome.failed}).`,
    };
  if (isResult(reply)) {
    const failed = reply.data.isError === true;
    const { structuredContent } = reply.data;
    return {
      tone: failed ? 'bad' : 'good',
      title: failed ? 'The tool reported an error' : 'Succeeded',
      parts: contentParts(reply.data.content, structuredContent),
    };
  }
  const text = problemText(reply);
  if (pendingApproval(reply) !== undefined)
    return {
      tone: 'warn',
      title: 'Needed an approval',
      text: 'The tool did not run then: it waited for an approval.',
    };
  if (own(own(reply.data, 'details'), 'approval') === 'rejected')
    return {
      tone: 'bad',
      title: 'Rejected',
      text: 'Someone rejected this call. The tool has not run.',
    };
  const known = {
    401: {
      title: 'Not signed in',
      text: 'The server requires a key for this call, or rejected the given one. Set it in the API key field at the top.',
    },
    403: { title: executionDisabled(reply) ? 'Execution is switched off' : 'Not allowed', text },
    404: {
      title: 'No such tool',
      text: 'The server no longer has this tool, or your key has no access to it.',
    },
    413: { title: 'Too large', text },
    429: { title: 'Too many calls', text },
  }[reply.status];
  return {
    tone: reply.status === 429 ? 'warn' : 'bad',
    ...(known ?? {
      title: reply.status >= 500 ? 'The server failed' : 'The call was not accepted',
      text,
    }),
  };
}

/** Tools repeat their structured content as text, for older clients: that text is folded. */
function contentParts(content, structured) {
  if (structured === undefined || structured === null) return [renderContent(content)];
  if (!repeats(content, structured)) return [renderContent(content), renderStructured(structured)];
  return [
    renderStructured(structured),
    h('details', {}, h('summary', { text: 'The same as text' }), renderContent(content)),
  ];
}

function repeats(content, structured) {
  if (content.length !== 1 || content[0]?.type !== 'text') return false;
  try {
    return JSON.stringify(parseJson(content[0].text)) === JSON.stringify(structured);
  } catch {
    return false;
  }
}

/** The id of the pending approval that a call has created or waits for. */
export function pendingApproval(reply) {
  const details = own(reply.data, 'details');
  const id = own(details, 'approvalId');
  return own(details, 'approval') === 'required' && typeof id === 'string' ? id : undefined;
}

/** The 403 of a server without execution, unlike one about this tool. */
export function executionDisabled(reply) {
  return (
    reply.status === 403 &&
    /\bexecution is disabled\b/i.test(String(own(reply.data, 'error') ?? ''))
  );
}

function explain(view, reply, actions) {
  const details = own(reply.data, 'details');
  const scopes = own(details, 'requiredScopes');
  return [
    h('p', { text: view.text }),
    Array.isArray(scopes)
      ? h(
          'p',
          {},
          'It needs: ',
          scopes.map((scope) => [h('code', { text: String(scope) }), ' ']),
        )
      : undefined,
    reply.status === 429 && reply.retryAfter !== undefined
      ? waitNote(reply.retryAfter, actions)
      : undefined,
    reply.status === 401 && actions.signIn
      ? button('Go to the key field', actions.signIn)
      : undefined,
    isObject(details) ? jsonBlock(details) : undefined,
  ];
}

/** Counts a Retry-After down, then offers the call again. */
function waitNote(seconds, actions) {
  const until = Date.now() + seconds * 1000;
  const host = h('p', { role: 'status' });
  const draw = () => {
    const left = Math.ceil((until - Date.now()) / 1000);
    if (left > 0) {
      if (host.textContent !== '' && !host.isConnected) return; // the result was replaced
      host.textContent = `The server requires a pause: ${left} s left.`;
      setTimeout(draw, 1000);
    } else {
      host.replaceChildren(retryButton(actions) ?? 'You can try again now.');
    }
  };
  draw();
  return host;
}

function retryButton(actions) {
  return actions.retry ? button('Run again', actions.retry) : undefined;
}

function traceId(reply) {
  const id = own(own(reply?.data, '_meta'), '_trace_id');
  if (typeof id !== 'string' || id === '') return undefined;
  const code = h('code', { text: id });
  const shown = may('audit:read') ? h('a', { href: href('record', ['run', id]) }, code) : code;
  return h('span', { title: 'The run in the record' }, 'trace ', shown);
}

function rawPanel(reply) {
  const body =
    reply.data === undefined
      ? h('pre', {
          class: 'code',
          tabindex: '0',
          text: reply.text === '' ? '(empty body)' : reply.text,
        })
      : jsonBlock(reply.data);
  const headers = h(
    'table',
    {},
    h(
      'tbody',
      {},
      reply.headers.map(([name, value]) =>
        h('tr', {}, h('th', { scope: 'row', text: name }), h('td', {}, h('code', { text: value }))),
      ),
    ),
  );
  return h(
    'div',
    { class: 'outcome-body' },
    h(
      'div',
      { class: 'block-head' },
      h('span', { class: 'kind', text: 'body' }),
      copyButton(() => reply.text),
    ),
    body,
    h(
      'details',
      {},
      h('summary', { text: `Response headers (${reply.headers.length})` }),
      h('div', { class: 'table-scroll' }, headers),
    ),
  );
}

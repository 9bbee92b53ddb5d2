// The outcome of one call: a one-line summary, the content, and the raw reply.
import { html, Copy, useEffect, useReducer } from '../lib/ui.js';
import { formatBytes, formatMs } from '../lib/format.js';
import { JsonBlock } from '../lib/json-block.js';
import { OwnTabs } from '../lib/tabs.js';
import { isObject, own, parseJson } from '../json.js';
import { problemText } from '../api.js';
import { href } from '../lib/address.js';
import { may } from '../state.js';
import { Content, Structured } from './blocks.js';
import { Messages } from './message-log.js';

/** `outcome`: {reply} | {cancelled, ms} | {failed, ms}, with {log} if the call was made with MCP. */
export function Outcome({ outcome, signIn, retry }) {
  const { reply } = outcome;
  const view = describe(outcome);
  const facts = [
    reply && `HTTP ${reply.status}`,
    formatMs(reply?.ms ?? outcome.ms),
    reply && formatBytes(reply.text.length),
  ].filter(Boolean);
  const result = view.content
    ? html`<${Parts} ...${view} />`
    : html`<${Explained} text=${view.text} reply=${reply} signIn=${signIn} retry=${retry} />`;
  const tabs = [
    { id: 'result', label: 'Result', style: 'outcome-body', view: result },
    { id: 'raw', label: 'Raw', style: 'outcome-body', view: html`<${Raw} reply=${reply} />` },
    outcome.log && { id: 'messages', label: 'Messages', style: 'outcome-body', view: () => html`<${Messages} log=${outcome.log} />` },
  ].filter(Boolean);
  return html`<section class=${`outcome ${view.tone}`} aria-label="Result" data-tone=${view.tone}>
    <div class="outcome-head">
      <span class="outcome-title">${view.title}</span>
      <span class="facts">
        ${facts.map((fact) => html`<span key=${fact}>${fact}</span>`)}
        <${Trace} reply=${reply} />
      </span>
    </div>
    ${
      reply === undefined
        ? html`<div class="outcome-body"><p>${view.text}</p><${Retry} retry=${retry} />
            ${outcome.log && html`<details><summary>Messages</summary><${Messages} log=${outcome.log} /></details>`}</div>`
        : html`<${OwnTabs} label="Result views" tabs=${tabs} />`
    }
  </section>`;
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
    const { content, structuredContent } = reply.data;
    return {
      tone: failed ? 'bad' : 'good',
      title: failed ? 'The tool reported an error' : 'Succeeded',
      content,
      structured: structuredContent ?? undefined,
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
    403: {
      title: executionDisabled(reply)
        ? 'Execution is switched off'
        : missingAccount(reply) === undefined
          ? 'Not allowed'
          : 'Needs an account',
      text:
        missingAccount(reply) === undefined
          ? text
          : 'The tool did not run: it acts with an account that is not connected, that the service no longer accepts, or that lacks access for this tool.',
    },
    404: {
      title: 'Tool not found',
      text: 'The server does not have this tool, or your key has no access to it.',
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
function Parts({ content, structured }) {
  const text = html`<${Content} content=${content} />`;
  if (structured === undefined) return text;
  const data = html`<${Structured} value=${structured} />`;
  if (content.length === 0) return data;
  if (!repeats(content, structured)) return [text, data];
  return html`${data}<details><summary>The same as text</summary>${text}</details>`;
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

/** The source of a call that needs an account which is not connected. */
function missingAccount(reply) {
  const details = own(reply.data, 'details');
  const source = own(details, 'source');
  return own(details, 'connection') === 'required' && typeof source === 'string' ? source : undefined;
}

function Explained({ text, reply, signIn, retry }) {
  const details = own(reply.data, 'details');
  const source = missingAccount(reply);
  if (source !== undefined)
    return html`<p>${text}</p>
      <p><a class="button primary" href=${href('connections', ['new', source])} data-connect-account>Connect the account</a></p>`;
  const scopes = own(details, 'requiredScopes');
  return html`
    <p>${text}</p>
    ${
      Array.isArray(scopes) &&
      html`<p>It needs: ${scopes.map((scope) => html`<code key=${String(scope)}>${String(scope)}</code> `)}</p>`
    }
    ${
      reply.status === 429 &&
      reply.retryAfter !== undefined &&
      html`<${Pause} seconds=${reply.retryAfter} retry=${retry} />`
    }
    ${
      reply.status === 401 &&
      html`<button type="button" class="button" onClick=${signIn}>Go to the key field</button>`
    }
    ${isObject(details) && html`<${JsonBlock} value=${details} />`}`;
}

/** Counts a Retry-After down, then offers the call again. */
function Pause({ seconds, retry }) {
  const [left, tick] = useReducer((left) => left - 1, seconds);
  useEffect(() => {
    const timer = left > 0 ? setTimeout(tick, 1000) : undefined;
    return () => clearTimeout(timer);
  }, [left]);
  return html`<p role="status">
    ${left > 0 ? `The server requires a pause: ${left} s left.` : retry ? html`<${Retry} retry=${retry} />` : 'You can try again now.'}
  </p>`;
}

function Retry({ retry }) {
  return retry && html`<button type="button" class="button" onClick=${retry}>Run again</button>`;
}

function Trace({ reply }) {
  const id = own(own(reply?.data, '_meta'), '_trace_id');
  if (typeof id !== 'string' || id === '') return null;
  const code = html`<code>${id}</code>`;
  const shown = may('audit:read') ? html`<a href=${href('record', ['run', id])}>${code}</a>` : code;
  return html`<span title="The run in the record">trace ${shown}</span>`;
}

function Raw({ reply }) {
  return html`
    <div class="block-head"><span class="kind">body</span><${Copy} text=${reply.text} /></div>
    ${
      reply.data === undefined
        ? html`<pre class="code" tabindex="0">${reply.text === '' ? '(empty body)' : reply.text}</pre>`
        : html`<${JsonBlock} value=${reply.data} />`
    }
    <details>
      <summary>Response headers (${reply.headers.length})</summary>
      <div class="table-scroll"><table><tbody>
        ${reply.headers.map(
          ([name, value]) => html`<tr><th scope="row">${name}</th><td><code>${value}</code></td></tr>`,
        )}
      </tbody></table></div>
    </details>`;
}

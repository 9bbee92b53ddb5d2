// The JSON-RPC messages of a call that this page made, both ways, as they were sent and received. They are
// in memory only, without headers, and never contain the credential of the page, even if it was entered as
// an argument.
import { html, Copy } from '../lib/ui.js';
import { formatBytes } from '../lib/format.js';

/** The most messages of one call, and the most characters of them together. */
const MAX_MESSAGES = 200;
const MAX_TEXT = 256 * 1024;
/** Credentials of a server are at least this long. */
const MIN_SECRET = 8;

/**
 * A log with {messages, left}. `add(way, text)` keeps a message as long as there is room, without the
 * texts of `secrets`.
 */
export function createLog(secrets) {
  const hidden = secrets.map((it) => it.trim().replace(/^bearer\s+/i, '')).filter((it) => it.length >= MIN_SECRET);
  const log = { messages: [], left: 0, room: MAX_TEXT };
  log.add = (way, text) => {
    if (log.messages.length >= MAX_MESSAGES || log.room <= 0) {
      log.left += 1;
      return;
    }
    const clean = hidden.reduce((it, secret) => it.replaceAll(secret, '[credential]'), text);
    const kept = clean.slice(0, log.room);
    log.room -= kept.length;
    log.messages.push({ way, at: new Date(), text: kept, size: clean.length });
  };
  return log;
}

export function Messages({ log }) {
  return html`<div class="messages">
    <div class="block-head">
      <span class="kind">JSON-RPC messages of this call</span>
      <${Copy} text=${() => log.messages.map(asText).join('\n\n')} label="Copy all" />
    </div>
    <p class="muted">As this page sent and received them, without headers. They are lost when the page closes.</p>
    <ol class="message-list">
      ${log.messages.map(
        (it, at) => html`<li key=${at} data-way=${it.way}>
          <div class="block-head">
            <span class="strong">${it.way === 'out' ? '→ sent' : '← received'}</span>
            <time class="muted" datetime=${it.at.toISOString()}>${it.at.toLocaleTimeString()}</time>
            <span class="muted">${formatBytes(it.size)}${it.text.length < it.size && `, the first ${formatBytes(it.text.length)}`}</span>
            <${Copy} text=${it.text} />
          </div>
          <pre class="code text" tabindex="0">${it.text}</pre>
        </li>`,
      )}
    </ol>
    ${log.left > 0 && html`<p class="muted">${log.left} more were not kept.</p>`}
  </div>`;
}

const asText = ({ way, at, text }) => `${way === 'out' ? '-->' : '<--'} ${at.toISOString()}\n${text}`;

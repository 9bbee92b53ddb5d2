// Checks the hash chain of the newest events in the browser, without relying on the server's word, and
// explains the result.
import { html, useEffect, useState, number, plural, Button, Time } from '../lib/ui.js';
import { request, problemText } from '../api.js';

/** How many of the newest events are checked; `toolcrib audit verify` checks all. */
const MOST = 5000;
const PAGE = 1000;
const bytes = new TextEncoder();

/** SHA-256 over the parts of an event, each after its length as eight bytes (docs/explanation/record.md). */
async function hashOf(tenant, { position, prevHash, event }) {
  const parts = [
    bytes.encode('toolcrib event 1'),
    bytes.encode(tenant),
    eight(position),
    Uint8Array.from(prevHash.match(/../g) ?? [], (it) => parseInt(it, 16)),
    bytes.encode(event.eventId),
    bytes.encode(event.runId),
    eight(event.sequence),
    bytes.encode(event.type),
    bytes.encode(event.timestamp),
    event.causationId === undefined ? undefined : bytes.encode(event.causationId),
    bytes.encode(JSON.stringify(event.payload)),
  ];
  const whole = new Uint8Array(parts.reduce((sum, it) => sum + 8 + (it?.length ?? 0), 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part === undefined ? new Uint8Array(8).fill(255) : eight(part.length), at);
    whole.set(part ?? [], at + 8);
    at += 8 + (part?.length ?? 0);
  }
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', whole));
  return Array.from(digest, (it) => it.toString(16).padStart(2, '0')).join('');
}

function eight(number) {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(number));
  return new Uint8Array(view.buffer);
}

async function get(path) {
  const reply = await request('GET', path);
  if (reply.status !== 200) throw new Error(problemText(reply));
  return JSON.parse(reply.text);
}

/** Returns {checked, from, to, broken, checkpoint, unsigned}. */
async function verify() {
  const newest = await get('/v1/events?limit=1');
  const end = newest.events.at(-1)?.position ?? 0;
  let after = Math.max(end - MOST, 0);
  const hashes = new Map();
  let before;
  while (after < end) {
    const { tenant, events } = await get(`/v1/events?after=${after}&limit=${PAGE}`);
    if (events.length === 0) break;
    for (const entry of events) {
      const continues = before === undefined || (before.hash === entry.prevHash && before.position + 1 === entry.position);
      if (!continues || (await hashOf(tenant, entry)) !== entry.hash)
        return { checked: hashes.size, broken: entry.position };
      hashes.set(entry.position, entry.hash);
      before = entry;
    }
    after = events.at(-1).position;
  }
  const positions = [...hashes.keys()];
  const result = { checked: hashes.size, from: positions[0], to: positions.at(-1) };
  for (const checkpoint of await checkpoints()) {
    const hash = hashes.get(checkpoint.position);
    if (hash !== undefined && hash !== checkpoint.hash) return { ...result, broken: checkpoint.position, checkpoint };
    result.checkpoint = checkpoint;
  }
  result.unsigned = Math.max((result.to ?? 0) - (result.checkpoint?.position ?? 0), 0);
  return result;
}

async function checkpoints() {
  const all = [];
  for (;;) {
    const page = (await get(`/v1/record/checkpoints?after=${all.at(-1)?.number ?? 0}`)).checkpoints;
    all.push(...page);
    if (page.length === 0 || all.length > 100_000) return all;
  }
}

/** With `now`, the check starts by itself. */
export function Verify({ now = false }) {
  const [state, setState] = useState({});
  const run = async () => {
    setState({ busy: true });
    try {
      setState({ result: await verify() });
    } catch (error) {
      setState({ problem: error.message });
    }
  };
  useEffect(() => {
    if (now) run();
  }, [now]);
  // Browsers compute digests only over https and on this machine.
  const possible = globalThis.crypto?.subtle !== undefined;
  return html`<div class="verify" role="status">
    ${possible
      ? html`<${Button} onClick=${run} busy=${state.busy === true}>Verify<//>`
      : html`<p class="muted">The page can verify the record only over https. Use <code>toolcrib audit verify</code>.</p>`}
    ${state.problem && html`<p class="bad">${state.problem}</p>`}
    ${state.result && html`<${Explained} it=${state.result} />`}
  </div>`;
}

function Explained({ it }) {
  if (it.broken !== undefined)
    return html`<p class="warn" data-verified="broken">The event at position ${number(it.broken)} does not fit:
      it, or one before it, was changed, removed or added. Run <code>toolcrib audit verify</code> where the store is,
      and compare with an anchor.</p>`;
  if (it.checked === 0) return html`<p class="muted">There are no events yet.</p>`;
  return html`<p class="done" data-verified="sound">
    <span>${plural(it.checked, 'event')} (positions ${number(it.from)} to ${number(it.to)}) are unchanged and
      complete: this page has computed the hash of each one, and each continues the one before it.</span>${' '}
    ${it.checkpoint
      ? html`<span>Checkpoint ${number(it.checkpoint.number)}, signed <${Time} at=${it.checkpoint.time} />, covers them up to
          position ${number(it.checkpoint.position)}${it.unsigned > 0 ? `; the last ${plural(it.unsigned, 'event')} will be signed by the next one` : ''}.</span>`
      : html`<span>No checkpoint is signed yet.</span>`}${' '}
    <span>To check signatures, older events and rollbacks of the store: <code>toolcrib audit verify --anchor …</code></span>
  </p>`;
}

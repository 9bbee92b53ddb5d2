// The stream of changes: `catalog`, `approval` and `record`. Over HTTP/1.1 a browser opens only six
// connections to a host, so all tabs of a caller share one stream: they elect a tab that holds it and
// forwards the changes. Hidden tabs take no part, unless they notify.
import { state, on, emit } from '../state.js';
import { base, fetchWithKey } from '../api.js';

const PAUSES = [500, 1_000, 2_000, 5_000, 15_000, 30_000];
/** The server sends a comment every 5 s: a stream without data for this many ms is dead. */
const SILENCE = 12_000;

/** `open`: whether changes arrive now. `heard`: when the last one may have arrived. */
export const live = { open: false };

/** The membership of this tab; undefined while it takes no part. */
let member;
let notifies = false;

export function startLive() {
  on('who', () => {
    leave();
    follow();
  });
  document.addEventListener('visibilitychange', follow);
}

/** Sets whether changes also arrive while the tab is hidden. */
export function setNotifying(value) {
  notifies = value;
  follow();
}

function follow() {
  const wanted = state.who !== undefined && (!document.hidden || notifies);
  if (!wanted) leave();
  else if (member === undefined) join();
}

function join() {
  const { tenant, principal, keyId, expiresAt } = state.who;
  const name = `toolcrib ${JSON.stringify([base, tenant, principal, keyId ?? expiresAt])}`;
  const ending = new AbortController();
  const mine = { channel: new BroadcastChannel(name), signal: ending.signal, ending, leads: false };
  member = mine;
  mine.channel.onmessage = ({ data }) => receive(mine, data);
  mine.channel.postMessage({ requestsState: true });
  // Locks require https. Without them each tab has its own stream.
  if (navigator.locks === undefined) lead(mine);
  else navigator.locks.request(name, { signal: mine.signal }, () => lead(mine)).catch(() => {});
}

function leave() {
  member?.ending.abort();
  member?.channel.close();
  member = undefined;
  setOpen(false);
}

/** Handles a message of another tab, or of this one if it holds the stream. */
function receive(mine, { requestsState, open, heard, name, value }) {
  if (member !== mine) return;
  if (requestsState) {
    if (mine.leads) mine.channel.postMessage({ open: live.open, heard: live.heard });
  } else if (open !== undefined) {
    setOpen(open, heard);
  } else {
    emit(`live:${name}`, value);
  }
}

/** Sends a message to all tabs, including this one. */
function broadcast(mine, message) {
  if (mine.signal.aborted) return;
  mine.channel.postMessage(message);
  receive(mine, message);
}

function setOpen(value, heard) {
  live.heard = heard ?? live.heard;
  if (live.open === value) return;
  live.open = value;
  emit('live:state');
  // Changes may have been missed.
  if (value) emit('live:open');
}

/** Holds the stream, and reopens it after an interruption, until the tab leaves. */
async function lead(mine) {
  mine.leads = true;
  for (let attempt = 0; !mine.signal.aborted; attempt += 1) {
    try {
      await hold(mine, () => {
        attempt = 0;
      });
    } catch {
      // The pause follows.
    }
    broadcast(mine, { open: false, heard: mine.heard });
    await pause(PAUSES[Math.min(attempt, PAUSES.length - 1)], mine.signal);
  }
}

/** Waits `ms`, or until the browser is online again. */
function pause(ms, signal) {
  if (signal.aborted) return undefined;
  return new Promise((resolve) => {
    const timer = setTimeout(end, ms);
    function end() {
      clearTimeout(timer);
      removeEventListener('online', end);
      signal.removeEventListener('abort', end);
      resolve();
    }
    addEventListener('online', end);
    signal.addEventListener('abort', end);
  });
}

async function hold(mine, onOpen) {
  const silent = new AbortController();
  let last = Date.now();
  const timer = setInterval(() => Date.now() - last > SILENCE && silent.abort(), 2_000);
  try {
    const response = await fetchWithKey('/v1/changes', {
      headers: { Accept: 'text/event-stream' },
      signal: AbortSignal.any([mine.signal, silent.signal]),
      cache: 'no-store',
    });
    if (response.status === 401 && state.status === 'ready') emit('reload');
    if (!response.ok || !response.body) throw new Error(String(response.status));
    onOpen();
    mine.heard = Date.now();
    broadcast(mine, { open: true });
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      last = Date.now();
      mine.heard = last;
      rest += decoder.decode(value, { stream: true });
      const messages = rest.split('\n\n');
      rest = messages.pop();
      for (const message of messages) dispatch(mine, message);
    }
  } finally {
    clearInterval(timer);
  }
}

function dispatch(mine, message) {
  let name;
  let data = '';
  for (const line of message.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7);
    else if (line.startsWith('data: ')) data += line.slice(6);
  }
  if (name === undefined) return;
  try {
    broadcast(mine, { name, value: JSON.parse(data) });
  } catch {
    // Not a message of this server.
  }
}

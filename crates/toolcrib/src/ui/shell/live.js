// One stream of changes for the whole tab: `catalog`, `approval` and `record`. It is opened again
// after an interruption, with growing pauses, and at once when the tab wakes up.
import { state, on, emit } from '../state.js';
import { fetchWithKey } from '../api.js';

const PAUSES = [500, 1_000, 2_000, 5_000, 15_000, 30_000];
/** The server sends a comment every 15 s; a stream that is silent for longer is dead. */
const SILENCE = 45_000;

let controller;
let attempt = 0;
let timer;
let heard = 0;

/** `open` is whether changes arrive at this moment. */
export const live = { open: false };

export function startLive() {
  on('who', () => {
    close();
    if (state.who) open();
  });
  document.addEventListener('visibilitychange', () => {
    if (document.hidden || !state.who) return;
    if (!live.open || Date.now() - heard > SILENCE) {
      close();
      open();
    }
  });
}

function close() {
  clearTimeout(timer);
  controller?.abort();
  controller = undefined;
  setOpen(false);
}

function setOpen(value) {
  if (live.open === value) return;
  live.open = value;
  emit('live:state');
}

async function open() {
  const mine = new AbortController();
  controller = mine;
  try {
    const response = await fetchWithKey('/v1/changes', {
      headers: { Accept: 'text/event-stream' },
      signal: mine.signal,
      cache: 'no-store',
    });
    if (response.status === 401 && state.status === 'ready') emit('reload');
    if (!response.ok || !response.body) throw new Error(String(response.status));
    attempt = 0;
    setOpen(true);
    // What changed while no stream was open.
    emit('live:open');
    await read(response.body.getReader());
  } catch {
    // The pause below follows.
  }
  if (mine.signal.aborted || controller !== mine) return;
  setOpen(false);
  timer = setTimeout(() => state.who && open(), PAUSES[Math.min(attempt, PAUSES.length - 1)]);
  attempt += 1;
}

async function read(reader) {
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard = Date.now();
    rest += decoder.decode(value, { stream: true });
    const messages = rest.split('\n\n');
    rest = messages.pop();
    for (const message of messages) dispatch(message);
  }
}

function dispatch(message) {
  let name;
  let data = '';
  for (const line of message.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7);
    else if (line.startsWith('data: ')) data += line.slice(6);
  }
  if (name === undefined) return;
  try {
    emit(`live:${name}`, JSON.parse(data));
  } catch {
    // Not a message of this server.
  }
}

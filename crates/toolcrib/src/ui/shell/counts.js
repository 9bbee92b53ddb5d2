// Counts pending approvals and sources that need attention, for the navigation.
import { state, on, emit, may } from '../state.js';
import { request } from '../api.js';

/** How often sources are loaded while the tab is visible: the server sends no event when one breaks. */
const EVERY_MS = 30_000;

/** Whether a source needs attention. The server decides, also for `toolcrib sources check`. */
export const needsAttention = (source) => source.needsAttention === true;

export function startCounts() {
  const both = () => {
    countApprovals();
    countSources();
  };
  on('live:approval', countApprovals);
  on('live:catalog', countSources);
  on('live:open', both);
  on('who', () => state.who === undefined && set({ pending: 0, unhealthy: 0 }));
  setInterval(() => !document.hidden && countSources(), EVERY_MS);
}

const countApprovals = () =>
  count('/v1/approvals?state=pending', ({ approvals }) => ({
    pending: approvals.filter((it) => it.mayRespond || it.mayOverride).length,
  }));

function countSources() {
  if (may('sources:read'))
    count('/v1/sources', ({ sources }) => ({ unhealthy: sources.filter(needsAttention).length }));
}

async function count(path, read) {
  const { who } = state;
  if (who === undefined) return;
  let reply;
  try {
    reply = await request('GET', path, {});
  } catch {
    return; // the next change counts again
  }
  if (state.who === who && reply.status === 200) set(read(reply.data));
}

function set(counts) {
  if (Object.entries(counts).every(([name, value]) => state[name] === value)) return;
  Object.assign(state, counts);
  emit('counts');
}

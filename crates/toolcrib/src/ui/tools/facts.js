// What the list of the explorer does not say about tools: where their calls go, whether they use a
// stored credential, and whether they are in quarantine. Loaded once per list, when first needed.
import { classification } from '../lib/danger.js';
import { state, on, emit } from '../state.js';
import { request } from '../api.js';
import { hasGateway, may } from '../shell/session.js';

let facts = new Map();
let loadedFor;

/** Returns {egress, credential, quarantined}, as far as they are known. */
export function factsOf(tool) {
  return facts.get(classification(tool).toolId) ?? {};
}

/** Loads the facts for the present list and emits `filter` when they arrive. */
export async function loadFacts() {
  if (!hasGateway || state.who === undefined || loadedFor === state.tools) return;
  loadedFor = state.tools;
  const mine = state.tools;
  const [tools, pins] = await Promise.all([
    fetched('/v1/tools'),
    may('pins:approve') ? fetched('/v1/pins') : undefined,
  ]);
  if (loadedFor !== mine) return;
  const list = Array.isArray(tools) ? tools : tools?.tools;
  const next = new Map();
  for (const tool of Array.isArray(list) ? list : []) {
    if (typeof tool?.toolId !== 'string') continue;
    next.set(tool.toolId, {
      egress: typeof tool.egress === 'string' ? tool.egress : undefined,
      credential: tool.auth?.credentialRef === true,
    });
  }
  for (const pin of Array.isArray(pins?.pins) ? pins.pins : []) {
    if (pin?.quarantined === true)
      next.set(pin.toolId, { ...next.get(pin.toolId), quarantined: true });
  }
  facts = next;
  emit('facts');
}

async function fetched(path) {
  try {
    const reply = await request('GET', path);
    return reply.status === 200 ? reply.data : undefined;
  } catch {
    return undefined; // the facets that need it are not shown
  }
}

on('token', () => {
  facts = new Map();
  loadedFor = undefined;
});

// The quarantined tools: the list does not mark them. Loaded once per list, when first needed.
import { classification } from '../lib/danger.js';
import { state, on, emit, may } from '../state.js';
import { request } from '../api.js';
import { hasGateway } from '../shell/session.js';

let quarantined = new Set();
let loadedFor;

export function isQuarantined(tool) {
  return quarantined.has(classification(tool).toolId);
}

/** Loads the pins for the current list, if the caller may see them, and emits `pins` when they arrive. */
export async function loadPins() {
  if (!hasGateway || !may('pins:approve') || loadedFor === state.tools) return;
  const mine = state.tools;
  loadedFor = mine;
  let reply;
  try {
    reply = await request('GET', '/v1/pins');
  } catch {
    return; // the facet that needs it is not shown
  }
  if (loadedFor !== mine || reply.status !== 200 || !Array.isArray(reply.data?.pins)) return;
  const ids = reply.data.pins.filter((pin) => pin?.quarantined === true).map((pin) => pin.toolId);
  quarantined = new Set(ids);
  emit('pins');
}

on('token', () => {
  quarantined = new Set();
  loadedFor = undefined;
});

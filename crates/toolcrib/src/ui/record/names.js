// How the record's words are shown to people.
import { state } from '../state.js';
import { classification } from '../lib/danger.js';

/** What people call the types of events. */
export const NAMES = {
  'agent.toolCalled': 'call',
  'agent.toolReturned': 'result',
  'authorization.decided': 'denied',
  'egress.decided': 'connection',
  'tool.session.opened': 'session opened',
  'tool.session.closed': 'session closed',
  'interrupt.requested': 'approval requested',
  'approval.granted': 'approved',
  'approval.rejected': 'rejected',
  'approval.overridden': 'overridden',
  'tool.pin.drifted': 'tool changed',
  'tool.pin.approved': 'change approved',
  'record.accepted': 'record accepted',
  'config.edited': 'configuration edited',
  'record.resumed': 'recording resumed',
  'sign-in.started': 'signed in',
  'sign-in.ended': 'signed out',
};

export const TONES = { ok: 'green', error: 'red', forbidden: 'amber', rate_limited: 'amber', denied: 'amber' };

/** The names of the tools of a list, by their ids. */
const known = new WeakMap();

/** Returns the name that callers use for a tool id such as `mcp:files.read`. */
export function wire(id) {
  if (!known.has(state.tools))
    known.set(state.tools, new Map(state.tools.map((tool) => [classification(tool).toolId, tool.name])));
  const name = known.get(state.tools).get(id);
  if (name !== undefined) return name;
  return id.replace(/^[a-z-]+:/, '').replace('.', '__');
}

// The record's words as people read them.
/** The labels of event types. */
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
  'saved.changed': 'shared item changed',
  'key.changed': 'key changed',
};

export const TONES = { ok: 'green', error: 'red', forbidden: 'amber', rate_limited: 'amber', denied: 'amber' };

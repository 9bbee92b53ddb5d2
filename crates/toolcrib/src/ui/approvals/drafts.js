// Comments that are typed and not yet sent. They outlive the screen and the end of a sign-in, and are gone
// once a person signs out.
import { state, on } from '../state.js';

const drafts = new Map();
on('signed-out', () => drafts.clear());

/** Each person sees the own drafts only. */
const place = (approvalId) => JSON.stringify([state.who?.tenant, state.who?.principal, approvalId]);

export const draftOf = (approvalId) => drafts.get(place(approvalId)) ?? '';

export function keepDraft(approvalId, text) {
  if (text === '') drafts.delete(place(approvalId));
  else drafts.set(place(approvalId), text);
}

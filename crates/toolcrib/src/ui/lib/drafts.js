// Unsent form input. It survives an expired sign-in until the same person signs in again in this tab, and
// is deleted when that person signs out or another one signs in.
import { useEffect, useState } from './ui.js';
import { state, on } from '../state.js';

const drafts = new Map();
/** Who typed them; undefined if there are no drafts. */
let owner;

const person = () =>
  state.who === undefined ? undefined : JSON.stringify([state.who.tenant, state.who.principal]);

function forget() {
  drafts.clear();
  owner = undefined;
}
on('signed-out', forget);
on('who', () => {
  if (state.who !== undefined && person() !== owner) forget();
});

/** The draft of this person at a place. */
export function draftOf(place) {
  return owner !== undefined && owner === person() ? drafts.get(place) : undefined;
}

/** Keeps a draft of this person at a place; undefined removes it. */
export function keepDraft(place, value) {
  const now = person();
  if (now === undefined) return;
  if (now !== owner) forget();
  owner = now;
  if (value === undefined) drafts.delete(place);
  else drafts.set(place, value);
}

/**
 * Form state that survives an expired sign-in. Closing or leaving the form resets it.
 */
export function useDraft(place, initial) {
  const [value, setValue] = useState(
    () => draftOf(place) ?? (typeof initial === 'function' ? initial() : initial),
  );
  const set = (next) => {
    setValue(next);
    keepDraft(place, next);
  };
  // After a sign-in has expired, the page has no principal: the draft stays.
  useEffect(() => () => keepDraft(place, undefined), []);
  return [value, set];
}

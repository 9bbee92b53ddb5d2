// What a person has typed and not yet sent. It outlives the end of a sign-in, for the next sign-in of the
// same person in this tab, and is gone once that person signs out or another one signs in.
import { useEffect, useState } from './ui.js';
import { state, on } from '../state.js';

const drafts = new Map();
/** Who typed them; undefined while there are none. */
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

/** Returns what this person has typed at a place. */
export function draftOf(place) {
  return owner !== undefined && owner === person() ? drafts.get(place) : undefined;
}

/** Keeps what this person has typed at a place; undefined removes it. */
export function keepDraft(place, value) {
  const now = person();
  if (now === undefined) return;
  if (now !== owner) forget();
  owner = now;
  if (value === undefined) drafts.delete(place);
  else drafts.set(place, value);
}

/**
 * A state of a form, which is kept at the end of a sign-in. A form that the person closes or leaves
 * begins anew.
 */
export function useDraft(place, initial) {
  const [value, setValue] = useState(
    () => draftOf(place) ?? (typeof initial === 'function' ? initial() : initial),
  );
  const set = (next) => {
    setValue(next);
    keepDraft(place, next);
  };
  // At the end of a sign-in the page has no principal: the draft stays.
  useEffect(() => () => keepDraft(place, undefined), []);
  return [value, set];
}

// What forms for a new key share.

const DAY = 86_400_000;

/** Returns the texts of a field with several words. */
export function words(text) {
  return text.split(/[\s,]+/).filter((it) => it !== '');
}

/** Returns a name as a principal, which has no spaces. */
export function asPrincipal(name) {
  return name.trim().replace(/[^\w.@-]+/g, '-');
}

/**
 * Returns when a key for `days` ends (forever if it is empty): no later than the server lets the keys of
 * this caller end.
 */
export function ending(who, days) {
  const last = who.keysExpireBy === undefined ? Infinity : Date.parse(who.keysExpireBy);
  const end = Math.min(days === '' ? Infinity : Date.now() + Number(days) * DAY, last);
  return end === Infinity ? {} : { expiresAt: new Date(end).toISOString() };
}

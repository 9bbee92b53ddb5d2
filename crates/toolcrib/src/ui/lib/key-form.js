// Shared by the forms for a new key.

const DAY = 86_400_000;

/** The words of a field, separated by spaces or commas. */
export function words(text) {
  return text.split(/[\s,]+/).filter((it) => it !== '');
}

/** A name as a principal, without spaces. */
export function asPrincipal(name) {
  return name.trim().replace(/[^\w.@-]+/g, '-');
}

/**
 * The expiry of a key for `days` (never if it is empty), limited to the latest expiry that the server
 * permits this caller.
 */
export function ending(who, days) {
  const last = who.keysExpireBy === undefined ? Infinity : Date.parse(who.keysExpireBy);
  const end = Math.min(days === '' ? Infinity : Date.now() + Number(days) * DAY, last);
  return end === Infinity ? {} : { expiresAt: new Date(end).toISOString() };
}

// The query of the record as a list of conditions, as the server reads it: `OR` joins two of them, `-`
// or NOT turns one round, and quotes keep a value with spaces together.
import { condition } from '../lib/address.js';

/** Returns the parts of a query: what stands between spaces. */
export const parts = (text) => text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? [];

/** Returns the conditions of a query: each part, or several that `OR` joins. */
function groups(text) {
  const found = [];
  let joins = false;
  for (const part of parts(text)) {
    if (part === 'OR' && found.length > 0) {
      joins = true;
      found.at(-1).push(part);
    } else if (joins) {
      joins = false;
      found.at(-1).push(part);
    } else {
      found.push([part]);
    }
  }
  return found;
}

/** Returns the query with a condition; it replaces those of the same field. */
export function withCondition(text, field, value) {
  const isOther = (group) => !group.every((part) => part === 'OR' || part.startsWith(`${field}:`));
  const others = groups(text).filter(isOther).map((group) => group.join(' '));
  return [...others, condition(field, value)].join(' ');
}

/** Whether a query has a condition of one of these fields. */
export const has = (text, ...fields) =>
  parts(text).some((part) => fields.some((field) => part.startsWith(`${field}:`)));

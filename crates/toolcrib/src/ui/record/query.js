// The query of the record as a list of conditions, as the server reads it: `OR` joins two of them, `-`
// or NOT negates one, and quotes keep a value with spaces together.
import { condition } from '../lib/address.js';

/** The parts of a query, separated by spaces outside of quotes. */
export const parts = (text) => text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? [];

/** The conditions of a query: single parts, or several joined by `OR`. */
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

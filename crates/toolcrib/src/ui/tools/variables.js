// Variables of a saved call: the user enters a value for `{{ticket}}` in a text before each run.
//
// Invariant: types are kept. A text of exactly one variable becomes a number or boolean where the schema of
// the tool requires one; in every other place the value is a text.
import { exactNumber, isObject, own, setKey } from '../json.js';
import { kindOf, memberSchema, schemaOf, simplify } from './schema.js';

const MARK = /\{\{\s*([\p{L}_][\p{L}\p{N}_-]{0,39})\s*\}\}/gu;
const WHOLE = /^\{\{\s*([\p{L}_][\p{L}\p{N}_-]{0,39})\s*\}\}$/u;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const TYPED = ['number', 'integer', 'boolean'];
const MAX_DEPTH = 64;

/** Returns {name, kind} of each variable, in the order of the arguments. */
export function variablesOf(args, schema) {
  const found = new Map();
  mapTexts(args, schema, schema, (text, kind) => {
    const whole = WHOLE.exec(text)?.[1];
    for (const [, name] of text.matchAll(MARK)) {
      const own = name === whole && TYPED.includes(kind) ? kind : 'text';
      if (!found.has(name) || found.get(name) === 'text') found.set(name, own);
    }
    return text;
  });
  return [...found].map(([name, kind]) => ({ name, kind }));
}

/** Why a text is not a valid value of a variable; undefined if it is valid. */
export function variableProblem({ kind }, text) {
  const trimmed = text.trim();
  if (trimmed === '') return 'Enter a value.';
  if (kind === 'integer' && !/^-?(0|[1-9]\d*)$/.test(trimmed)) return 'Enter a whole number, such as 3.';
  if (kind === 'number' && !NUMBER.test(trimmed)) return 'Enter a number, such as 2.5.';
  return undefined;
}

/** Returns the arguments with `values`, which are by variable name. Variables without a value stay. */
export function filled(args, schema, values) {
  const has = (name) => Object.hasOwn(values, name);
  return mapTexts(args, schema, schema, (text, kind) => {
    const whole = WHOLE.exec(text)?.[1];
    if (whole !== undefined && has(whole) && TYPED.includes(kind)) {
      const value = values[whole].trim();
      return kind === 'boolean' ? value === 'true' : exactNumber(value);
    }
    return text.replace(MARK, (mark, name) => (has(name) ? values[name] : mark));
  });
}

/** A copy of a value in which `change(text, kind)` has replaced each text. */
function mapTexts(value, schema, root, change, depth = 0) {
  const defined = isObject(root) ? root : {};
  if (typeof value === 'string') return change(value, kindOf(simplify(schema, defined)));
  if (depth > MAX_DEPTH) return value;
  const simple = schemaOf(value, schema, defined);
  if (Array.isArray(value))
    return value.map((item) => mapTexts(item, own(simple, 'items'), root, change, depth + 1));
  if (!isObject(value)) return value;
  const copy = {};
  for (const [key, inner] of Object.entries(value)) {
    setKey(copy, key, mapTexts(inner, memberSchema(simple, key), root, change, depth + 1));
  }
  return copy;
}

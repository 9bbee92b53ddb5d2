// Reads JSON Schema for display: the control for a value, its description, its initial value. It
// never validates a value; the server's validator does.
import { isObject, own, pointerParts, setKey } from './json.js';

const MAX_HOPS = 8; // $ref chains and nested wrappers; a cycle ends here as "any"

/** The schema with local $ref resolved, `null` alternatives folded, and single allOf merged. */
export function simplify(schema, root, hops = 0) {
  if (!isObject(schema) || hops > MAX_HOPS) return {};
  const reference = own(schema, '$ref');
  if (typeof reference === 'string') {
    const { $ref: _, ...siblings } = schema;
    return { ...simplify(lookup(root, reference), root, hops + 1), ...siblings };
  }
  for (const word of ['anyOf', 'oneOf']) {
    const options = own(schema, word);
    if (!Array.isArray(options)) continue;
    const real = options.filter((option) => own(option, 'type') !== 'null');
    if (real.length === 1 && !Object.hasOwn(schema, 'properties')) {
      const { [word]: _, ...siblings } = schema;
      return {
        ...simplify(real[0], root, hops + 1),
        ...siblings,
        nullable: real.length < options.length,
      };
    }
  }
  const all = own(schema, 'allOf');
  if (Array.isArray(all) && all.length === 1) {
    const { allOf: _, ...siblings } = schema;
    return { ...simplify(all[0], root, hops + 1), ...siblings };
  }
  return schema;
}

function lookup(root, reference) {
  if (!reference.startsWith('#')) return {}; // external schemas are never fetched
  let at = root;
  try {
    for (const part of pointerParts(decodeURIComponent(reference.slice(1)))) at = own(at, part);
  } catch {
    return {};
  }
  return at;
}

/** enum | string | number | integer | boolean | object | array | any */
export function kindOf(schema) {
  if (Array.isArray(own(schema, 'enum')) || Object.hasOwn(schema, 'const')) return 'enum';
  const types = typesOf(schema).filter((type) => type !== 'null');
  if (types.length === 0 && Object.hasOwn(schema, 'properties')) return 'object';
  if (types.length !== 1) return 'any';
  if (types[0] === 'object') return isObject(own(schema, 'properties')) ? 'object' : 'any';
  return ['string', 'number', 'integer', 'boolean', 'array'].includes(types[0]) ? types[0] : 'any';
}

function typesOf(schema) {
  const type = own(schema, 'type');
  return (Array.isArray(type) ? type : [type]).filter((name) => typeof name === 'string');
}

export function enumValues(schema) {
  return Object.hasOwn(schema, 'const') ? [schema.const] : schema.enum;
}

export function propertiesOf(schema) {
  const properties = own(schema, 'properties');
  return isObject(properties) ? properties : {};
}

export function requiredOf(schema) {
  const required = own(schema, 'required');
  return Array.isArray(required) ? required.filter((key) => typeof key === 'string') : [];
}

/** Exactly the required keys: the declared default, else null. No values are invented. */
export function prefill(schema, root = schema) {
  const start = {};
  for (const key of requiredOf(schema))
    setKey(start, key, startValue(own(propertiesOf(schema), key), root));
  return start;
}

/** The declared default, of any type, else null. */
export function startValue(schema, root) {
  const simple = simplify(schema, root);
  return Object.hasOwn(simple, 'default') ? structuredCloneJson(simple.default) : null;
}

function structuredCloneJson(value) {
  // structuredClone does not support JSON.rawJSON values, which are frozen and may be shared.
  if (Array.isArray(value)) return value.map(structuredCloneJson);
  if (!isObject(value)) return value;
  const copy = {};
  for (const [key, inner] of Object.entries(value)) setKey(copy, key, structuredCloneJson(inner));
  return copy;
}

/** "string", "array of integer", "string | null", "one of 3". */
export function typeLabel(schema, root, depth = 0) {
  const simple = simplify(schema, root);
  const orNull = simple.nullable || typesOf(simple).includes('null') ? ' | null' : '';
  if (Object.hasOwn(simple, 'const')) return 'constant';
  if (Array.isArray(own(simple, 'enum'))) return `one of ${simple.enum.length}${orNull}`;
  const types = typesOf(simple).filter((type) => type !== 'null');
  if (types.length === 1 && types[0] === 'array') {
    const items = own(simple, 'items');
    return `${isObject(items) && depth < 3 ? `array of ${typeLabel(items, root, depth + 1)}` : 'array'}${orNull}`;
  }
  if (types.length > 0) return types.join(' | ') + orNull;
  return (Object.hasOwn(simple, 'properties') ? 'object' : 'any') + orNull;
}

const LIMITS = [
  ['minimum', (n) => `≥ ${n}`],
  ['exclusiveMinimum', (n) => `> ${n}`],
  ['maximum', (n) => `≤ ${n}`],
  ['exclusiveMaximum', (n) => `< ${n}`],
  ['multipleOf', (n) => `multiple of ${n}`],
  ['minLength', (n) => `length ≥ ${n}`],
  ['maxLength', (n) => `length ≤ ${n}`],
  ['minItems', (n) => `items ≥ ${n}`],
  ['maxItems', (n) => `items ≤ ${n}`],
  ['pattern', (p) => `pattern ${p}`],
  ['format', (f) => `format ${f}`],
];

/** The schema's limits on a value, as text. */
export function limits(schema) {
  const list = LIMITS.filter(([key]) => ['string', 'number'].includes(typeof own(schema, key))).map(
    ([key, say]) => say(schema[key]),
  );
  if (own(schema, 'uniqueItems') === true) list.push('no duplicates');
  return list;
}

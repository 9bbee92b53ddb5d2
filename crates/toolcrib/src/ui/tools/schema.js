// Reads JSON Schema for display: the control for a value, its description, its initial value. It
// never validates a value; the server's validator does.
import { isNumber, isObject, own, pointerParts, setKey } from '../json.js';

const MAX_HOPS = 8; // $ref chains and nested wrappers; a cycle stops here as "any"

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
  if (Array.isArray(all) && all.length > 0 && all.length <= MAX_HOPS) {
    const { allOf: _, ...siblings } = schema;
    return merged([...all.map((part) => simplify(part, root, hops + 1)), siblings]);
  }
  return schema;
}

/** One schema for several that all apply: their properties and required keys together. */
function merged(parts) {
  const result = {};
  const properties = {};
  const required = new Set();
  for (const part of parts) {
    for (const [key, value] of Object.entries(part)) setKey(result, key, value);
    for (const [key, value] of Object.entries(propertiesOf(part))) setKey(properties, key, value);
    for (const key of requiredOf(part)) required.add(key);
  }
  if (Object.keys(properties).length > 0) result.properties = properties;
  if (required.size > 0) result.required = [...required];
  return result;
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

/** choice | enum | string | number | integer | boolean | object | map | array | any */
export function kindOf(schema) {
  if (Array.isArray(own(schema, 'enum')) || Object.hasOwn(schema, 'const') || titledValues(schema))
    return 'enum';
  if (alternatives(schema) !== undefined) return 'choice';
  const types = typesOf(schema).filter((type) => type !== 'null');
  if (types.length === 0 && Object.hasOwn(schema, 'properties')) return 'object';
  if (types.length !== 1) return 'any';
  if (types[0] === 'object')
    return isObject(own(schema, 'properties'))
      ? 'object'
      : entrySchema(schema) === undefined
        ? 'object'
        : 'map';
  return ['string', 'number', 'integer', 'boolean', 'array'].includes(types[0]) ? types[0] : 'any';
}

/** The alternatives of a value, when it is one of several forms. */
export function alternatives(schema) {
  if (titledValues(schema)) return undefined;
  for (const word of ['oneOf', 'anyOf']) {
    const options = own(schema, word);
    if (Array.isArray(options) && options.length > 1 && options.some(declaresForm)) return options;
  }
  return undefined;
}

/** Alternatives that only require other keys, or forbid something, are conditions and not forms. */
function declaresForm(option) {
  return (
    isObject(option) &&
    ['type', 'properties', '$ref', 'const', 'enum', 'allOf'].some((word) =>
      Object.hasOwn(option, word),
    )
  );
}

/** An alternative together with the keywords that apply to all alternatives. */
export function alternative(schema, option, root) {
  const { oneOf: _one, anyOf: _any, default: _default, title: _title, ...siblings } = schema;
  return merged([siblings, simplify(option, root)]);
}

/** The name of an alternative: its title, the value of its constant property, or its type. */
export function alternativeLabel(option, root, at) {
  const simple = simplify(option, root);
  const title = own(simple, 'title');
  if (typeof title === 'string' && title !== '') return title;
  const constants = Object.values(propertiesOf(simple))
    .map((property) => own(simplify(property, root), 'const'))
    .filter((value) => typeof value === 'string');
  if (constants.length > 0) return constants[0];
  const properties = requiredOf(simple).filter((key) => Object.hasOwn(propertiesOf(simple), key));
  if (kindOf(simple) === 'object' && properties.length > 0) return `with ${properties.join(', ')}`;
  const words = plainType(option, root);
  return words === 'any value' ? `Form ${at + 1}` : words;
}

/** The index of the alternative that fits a value best; the first one of equals. */
export function fittingAlternative(schema, value, root) {
  const options = alternatives(schema);
  const scores = options.map((option) => fit(alternative(schema, option, root), value, root));
  return Math.max(scores.indexOf(Math.max(...scores)), 0);
}

function fit(schema, value, root) {
  const kind = kindOf(schema);
  if (kind === 'enum')
    return enumValues(schema).some((it) => JSON.stringify(it) === JSON.stringify(value)) ? 2 : -1;
  if (kind === 'object' || kind === 'map') {
    if (!isObject(value)) return -1;
    let score = 1;
    for (const [key, property] of Object.entries(propertiesOf(schema))) {
      const simple = simplify(property, root);
      if (!Object.hasOwn(value, key)) continue;
      score += 1;
      if (Object.hasOwn(simple, 'const'))
        score += JSON.stringify(simple.const) === JSON.stringify(value[key]) ? 10 : -20;
    }
    for (const key of requiredOf(schema)) if (!Object.hasOwn(value, key)) score -= 2;
    return score;
  }
  if (kind === 'array') return Array.isArray(value) ? 1 : -1;
  if (kind === 'string') return typeof value === 'string' ? 1 : -1;
  if (kind === 'boolean') return typeof value === 'boolean' ? 1 : -1;
  if (kind === 'number' || kind === 'integer') return isNumber(value) ? 1 : -1;
  return 0;
}

/** The schema of values under undeclared names; undefined if such names are not permitted. */
export function entrySchema(schema) {
  const more = own(schema, 'additionalProperties');
  if (isObject(more)) return more;
  const patterns = own(schema, 'patternProperties');
  if (isObject(patterns)) return Object.values(patterns)[0];
  if (more === false) return undefined;
  return isObject(own(schema, 'properties')) && more !== true ? undefined : {};
}

/** The simplified schema of a value, with the alternative that fits best. */
export function schemaOf(value, schema, root) {
  const simple = simplify(schema, root);
  if (kindOf(simple) !== 'choice') return simple;
  return alternative(simple, alternatives(simple)[fittingAlternative(simple, value, root)], root);
}

/** The schema of the value under a name, declared or not; undefined if the name is not permitted. */
export const memberSchema = (schema, key) => own(propertiesOf(schema), key) ?? entrySchema(schema);

/** `oneOf` or `anyOf` of constants: values with titles. */
function titledValues(schema) {
  for (const word of ['oneOf', 'anyOf']) {
    const options = own(schema, word);
    if (
      Array.isArray(options) &&
      options.length > 0 &&
      options.every((option) => isObject(option) && Object.hasOwn(option, 'const'))
    )
      return options;
  }
  return undefined;
}

function typesOf(schema) {
  const type = own(schema, 'type');
  return (Array.isArray(type) ? type : [type]).filter((name) => typeof name === 'string');
}

export function enumValues(schema) {
  if (Object.hasOwn(schema, 'const')) return [schema.const];
  return titledValues(schema)?.map((option) => option.const) ?? schema.enum;
}

/** The titles of the values of an enumeration, where the schema has some. */
export function enumTitles(schema) {
  const titled = titledValues(schema);
  if (titled) return titled.map((option) => own(option, 'title'));
  const names = own(schema, 'enumNames') ?? own(schema, 'x-enumNames');
  return Array.isArray(names) ? names : [];
}

/** Whether null is a value of the schema, and not only the absence of one. */
export function allowsNull(schema) {
  return (
    schema.nullable === true ||
    typesOf(schema).includes('null') ||
    kindOf(schema) === 'any' ||
    alternatives(schema)?.some((option) => own(option, 'type') === 'null') ||
    (kindOf(schema) === 'enum' && enumValues(schema).includes(null))
  );
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

const MAX_OPEN = 5; // levels of required groups that start open

/** The start of a form: as `prefill`, with required groups, lists and single values filled in. */
export function formStart(schema, root = schema, depth = 0) {
  const simple = simplify(schema, root);
  if (Object.hasOwn(simple, 'default')) return structuredCloneJson(simple.default);
  if (Object.hasOwn(simple, 'const')) return structuredCloneJson(simple.const);
  if (simple.nullable) return null;
  if (depth > MAX_OPEN) return null;
  const kind = kindOf(simple);
  if (kind === 'choice')
    return formStart(alternative(simple, alternatives(simple)[0], root), root, depth + 1);
  if (kind === 'map') return {};
  if (kind === 'array') {
    const few = Math.min(Number(own(simple, 'minItems')) || 0, 10);
    return Array.from({ length: few }, () => formStart(own(simple, 'items'), root, depth + 1));
  }
  if (kind !== 'object') return null;
  const start = {};
  for (const key of requiredOf(simple))
    setKey(start, key, formStart(own(propertiesOf(simple), key), root, depth + 1));
  return start;
}

export function structuredCloneJson(value) {
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
  if (kindOf(simple) === 'enum') return `one of ${enumValues(simple).length}${orNull}`;
  const forms = alternatives(simple);
  if (forms !== undefined && typesOf(simple).length === 0) return `one of ${forms.length} forms`;
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

const PLAIN = {
  string: 'text',
  number: 'number',
  integer: 'whole number',
  boolean: 'yes or no',
  object: 'group',
  map: 'named values',
  enum: 'one of a list',
  choice: 'one of several forms',
  any: 'any value',
};
const FORMATS = {
  email: 'e-mail address',
  uri: 'web address',
  url: 'web address',
  date: 'date',
  time: 'time',
  'date-time': 'date and time',
  password: 'secret text',
  byte: 'file',
  binary: 'file',
};

/** The type of a value in words for people. */
export function plainType(schema, root, depth = 0) {
  const simple = simplify(schema, root);
  const kind = kindOf(simple);
  if (own(simple, 'type') === 'null') return 'no value';
  if (kind === 'array') {
    const items = own(simple, 'items');
    return isObject(items) && depth < 2
      ? `list of ${many(plainType(items, root, depth + 1))}`
      : 'list';
  }
  const format = own(simple, 'format');
  if (kind === 'string' && own(simple, 'contentEncoding') === 'base64') return 'file';
  if (kind === 'string' && Object.hasOwn(FORMATS, format ?? '')) return FORMATS[format];
  return PLAIN[kind];
}

function many(words) {
  return (
    { text: 'texts', number: 'numbers', 'whole number': 'whole numbers', group: 'groups' }[words] ??
    words
  );
}

const HINTS = [
  ['minimum', (n) => `at least ${n}`],
  ['exclusiveMinimum', (n) => `more than ${n}`],
  ['maximum', (n) => `at most ${n}`],
  ['exclusiveMaximum', (n) => `less than ${n}`],
  ['multipleOf', (n) => `a multiple of ${n}`],
  ['minLength', (n) => `at least ${n} ${n === 1 ? 'character' : 'characters'}`],
  ['maxLength', (n) => `at most ${n} ${n === 1 ? 'character' : 'characters'}`],
  ['minItems', (n) => `at least ${n} ${n === 1 ? 'entry' : 'entries'}`],
  ['maxItems', (n) => `at most ${n} ${n === 1 ? 'entry' : 'entries'}`],
  ['pattern', (p) => `matches ${p}`],
];

/** The limits of a value in words for people. */
export function plainLimits(schema) {
  const list = HINTS.filter(([key]) => ['string', 'number'].includes(typeof own(schema, key))).map(
    ([key, say]) => say(schema[key]),
  );
  if (own(schema, 'uniqueItems') === true) list.push('no entry twice');
  return list;
}

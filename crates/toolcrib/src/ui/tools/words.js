// The validator's messages in words for people, at their field. The messages themselves stay below.
import { own } from '../json.js';
import { enumValues, kindOf, plainLimits } from './schema.js';

const TYPES = {
  string: 'Enter a text.',
  number: 'Enter a number, such as 2.5.',
  integer: 'Enter a whole number, such as 3.',
  boolean: 'Choose yes or no.',
  array: 'This must be a list.',
  object: 'This must be a group of fields.',
  map: 'This must be a group of fields.',
};
const FORMATS = {
  email: 'Enter an e-mail address, such as ada@example.com.',
  uri: 'Enter a web address, such as https://example.com.',
  url: 'Enter a web address, such as https://example.com.',
  date: 'Enter a date, such as 2026-11-25.',
  time: 'Enter a time, such as 10:30:00Z.',
  'date-time': 'Enter a date and a time, such as 2026-11-25T10:30:00Z.',
};
const LIMITS = [
  'minimum',
  'exclusiveMinimum',
  'maximum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
];

/** `error`: {keyword, message}; `schema` is that of the field, if it is known. */
export function plainMessage({ keyword, message }, schema) {
  if (keyword === 'required') return 'This field is required.';
  if (keyword === 'additionalProperties' || keyword === 'unevaluatedProperties')
    return 'The tool does not know this field: remove it.';
  if (schema === undefined) return message;
  if (keyword === 'type' && Object.hasOwn(TYPES, kindOf(schema))) return TYPES[kindOf(schema)];
  if ((keyword === 'enum' || keyword === 'const') && kindOf(schema) === 'enum')
    return `Choose one of: ${enumValues(schema)
      .slice(0, 12)
      .map((it) => (typeof it === 'string' ? it : JSON.stringify(it)))
      .join(', ')}.`;
  const format = own(schema, 'format');
  if (keyword === 'format' && Object.hasOwn(FORMATS, String(format))) return FORMATS[format];
  if (LIMITS.includes(keyword) && Object.hasOwn(schema, keyword)) {
    const [limit] = plainLimits({ [keyword]: schema[keyword] });
    return /Items|Length/.test(keyword) ? `This must have ${limit}.` : `This must be ${limit}.`;
  }
  if (keyword === 'uniqueItems') return 'An entry occurs twice: remove one.';
  if (keyword === 'pattern') return `This must match the pattern ${own(schema, 'pattern')}.`;
  if (keyword === 'oneOf' || keyword === 'anyOf') return 'This does not fit any allowed form.';
  return message;
}

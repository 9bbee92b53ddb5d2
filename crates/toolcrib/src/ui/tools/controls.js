// The controls of a form, one per kind of value. A control shows `value` and calls `set` with a
// new one. `value` is null before the first choice.
import { html, useEffect, useState } from '../lib/ui.js';
import { exactNumber, own, parseJson, parseProblem, pretty } from '../json.js';
import { enumTitles, enumValues } from './schema.js';

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const INPUT_TYPES = { email: 'email', uri: 'url', url: 'url', date: 'date' };
/** Lists of at most this many values are shown as a whole. */
const FEW = 4;

function example(simple) {
  const examples = own(simple, 'examples');
  const first = Array.isArray(examples) ? examples[0] : own(simple, 'example');
  if (first === undefined || first === null) return '';
  return typeof first === 'string' ? first : JSON.stringify(first);
}

export function isSecret(simple) {
  return own(simple, 'format') === 'password' || own(simple, 'writeOnly') === true;
}

export function TextControl({ id, simple, value, set, ...marks }) {
  const format = own(simple, 'format');
  const secret = isSecret(simple);
  const placeholder = example(simple);
  if (format === 'date-time' || format === 'time')
    return html`<${MomentControl} ...${{ id, simple, value, set, format }} ...${marks} />`;
  const type = secret
    ? 'password'
    : Object.hasOwn(INPUT_TYPES, format ?? '') && INPUT_TYPES[format];
  // A value that the control could not show is edited as text.
  if (type && !(type === 'date' && value && !/^\d{4}-\d\d-\d\d$/.test(value)))
    return html`<input id=${id} class="input ${type === 'date' ? 'short' : ''}" type=${type}
      autocomplete="off" spellcheck=${false} placeholder=${placeholder} value=${value ?? ''}
      onInput=${(event) => set(event.target.value === '' && !secret ? null : event.target.value)}
      ...${marks} />`;
  return html`<textarea id=${id} class="input" rows="1" autocomplete="off" spellcheck=${false}
    placeholder=${placeholder} value=${value ?? ''}
    onInput=${(event) => set(event.target.value)} ...${marks}></textarea>`;
}

/** RFC 3339 moments, with the offset of the browser. */
function MomentControl({ id, value, set, format, simple, ...marks }) {
  const shown = format === 'time' ? timeText(value) : momentText(value);
  if (shown === undefined)
    return html`<input id=${id} class="input short" type="text" value=${value}
      onInput=${(event) => set(event.target.value)} ...${marks} />`;
  const onInput = (event) => {
    const text = event.target.value;
    if (text === '') set(null);
    else if (format === 'time')
      set(`${text.length === 5 ? `${text}:00` : text}${offset(new Date())}`);
    else set(`${text.length === 16 ? `${text}:00` : text}${offset(new Date(text))}`);
  };
  return html`<input id=${id} class="input short" step="1"
    type=${format === 'time' ? 'time' : 'datetime-local'} value=${shown} onInput=${onInput} ...${marks} />`;
}

function momentText(value) {
  if (value === null) return '';
  const date = new Date(value);
  if (typeof value !== 'string' || Number.isNaN(date.getTime())) return undefined;
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}

function timeText(value) {
  if (value === null) return '';
  return /^\d\d:\d\d(:\d\d)?/.exec(value)?.[0];
}

function offset(date) {
  const minutes = -date.getTimezoneOffset();
  if (minutes === 0) return 'Z';
  const two = (it) => String(Math.floor(Math.abs(it))).padStart(2, '0');
  return `${minutes < 0 ? '-' : '+'}${two(minutes / 60)}:${two(minutes % 60)}`;
}

/** Text other than a number is sent unchanged, so that the server's validator reports it. */
export function NumberControl({ id, simple, value, set, ...marks }) {
  const shown = value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value);
  const [text, setText] = useState(shown);
  const read = (it) => {
    const trimmed = it.trim();
    if (trimmed === '') return null;
    return NUMBER.test(trimmed) ? exactNumber(trimmed) : it;
  };
  // While typing "1.0" the text is kept, although its value is shown as "1".
  const current = JSON.stringify(read(text)) === JSON.stringify(value) ? text : shown;
  return html`<input id=${id} class="input number" type="text" autocomplete="off"
    inputmode=${own(simple, 'type') === 'integer' && !(own(simple, 'minimum') < 0) ? 'numeric' : 'decimal'}
    placeholder=${example(simple)} value=${current}
    onInput=${(event) => {
      setText(event.target.value);
      set(read(event.target.value));
    }} ...${marks} />`;
}

export function FlagControl({ id, value, set, ...marks }) {
  return html`<${Choices} id=${id} value=${value === null ? -1 : value ? 0 : 1} names=${['Yes', 'No']}
    choose=${(at) => set(at === 0)} ...${marks} />`;
}

/** Radio buttons side by side. */
export function Choices({ id, value, names, choose, ...marks }) {
  return html`<div class="segmented" ...${marks}>
    ${names.map(
      (name, at) => html`<label class="radio" key=${at}>
        <input type="radio" name=${id} id=${at === 0 ? id : `${id}-${at}`} checked=${value === at}
          onChange=${() => choose(at)} /><bdi>${name}</bdi>
      </label>`,
    )}
  </div>`;
}

function enumNames(simple) {
  const titles = enumTitles(simple);
  return enumValues(simple).map((it, at) =>
    typeof titles[at] === 'string' ? titles[at] : typeof it === 'string' ? it : pretty(it),
  );
}

/** Whether all values are shown side by side, and not in a list that opens. */
export function isShort(simple, value) {
  const names = enumNames(simple);
  const known = value === null || enumValues(simple).some((it) => same(it, value));
  return known && names.length <= FEW && names.join('').length <= 60;
}

export function EnumControl({ id, simple, value, set, ...marks }) {
  const values = enumValues(simple);
  const names = enumNames(simple);
  const at = values.findIndex((it) => same(it, value));
  if (isShort(simple, value))
    return html`<${Choices} id=${id} value=${at} names=${names} choose=${(it) => set(values[it])} ...${marks} />`;
  // The current value can be outside the list: null before a choice, or text entered as JSON.
  return html`<select id=${id} class="input" value=${String(at)}
    onChange=${(event) => event.target.value !== '-1' && set(values[Number(event.target.value)])} ...${marks}>
    ${at < 0 && html`<option value="-1">${value === null ? 'Choose…' : JSON.stringify(value)}</option>`}
    ${names.map((name, index) => html`<option key=${index} value=${String(index)}>${name}</option>`)}
  </select>`;
}

/** Some of a list of values, each at most once. */
export function SomeOf({ id, items, value, set, ...marks }) {
  const values = enumValues(items);
  const titles = enumTitles(items);
  const change = (it, wanted) => {
    const rest = value.filter((present) => !same(present, it));
    set(
      wanted
        ? values.filter((known) => same(known, it) || rest.some((kept) => same(kept, known)))
        : rest,
    );
  };
  return html`<div class="row" ...${marks}>
    ${values.map(
      (it, at) => html`<label class="check" key=${at}>
        <input type="checkbox" id=${at === 0 ? id : `${id}-${at}`} checked=${value.some((present) => same(present, it))}
          onChange=${(event) => change(it, event.target.checked)} />
        <bdi>${titles[at] ?? (typeof it === 'string' ? it : pretty(it))}</bdi>
      </label>`,
    )}
  </div>`;
}

/** Any JSON. While the text does not parse, the last valid value stays and `problem` is called. */
export function JsonControl({ id, value, set, problem, ...marks }) {
  const [text, setText] = useState(() => pretty(value));
  useEffect(() => () => problem(undefined), []);
  const bad = parseProblem(text);
  const current = bad || pretty(parseJson(text)) === pretty(value) ? text : pretty(value);
  return html`<textarea id=${id} class="input mono" rows="2" spellcheck=${false} autocomplete="off"
    value=${current}
    onInput=${(event) => {
      setText(event.target.value);
      const wrong = parseProblem(event.target.value);
      problem(wrong?.message);
      if (!wrong) set(parseJson(event.target.value));
    }} ...${marks}></textarea>`;
}

function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

// A form made from a schema. It edits one arguments object in place and tells `onChange`.
//
// Invariant: the form sends what the fields hold. It never adds a key that nobody put there: the
// object starts from the schema's required keys, and optional ones come in through the picker.
import { h, icon } from './dom.js';
import { isObject, own, pointerJoin, setKey } from './json.js';
import { kindOf, limits, prefill, propertiesOf, requiredOf, simplify, startValue, typeLabel } from './schema.js';
import { choiceControl, flagControl, jsonControl, numberControl, textControl, uniqueId } from './controls.js';

const MAX_DEPTH = 3; // deeper values are edited as JSON

export function createForm({ schema, args, onChange }) {
  const context = { root: schema, fields: new Map(), problems: new Map(), onChange };
  const element = h('div', { class: 'form' }, objectFields(simplify(schema, schema), args, '', context, 0));
  return {
    element,
    /** Problems that only this page can see: JSON typed into a field that does not parse. */
    localProblems: () => [...context.problems].map(([path, message]) => ({ path, message })),
    showErrors: (errors) => showErrors(context, errors),
    focus: (path) => focusPath(context, path),
  };
}

function objectFields(schema, object, path, context, depth) {
  const host = h('div', { class: 'fields' });
  const draw = (focusKey) => {
    forget(context, path);
    const known = Object.keys(propertiesOf(schema));
    const keys = [...known.filter((key) => Object.hasOwn(object, key)), ...Object.keys(object).filter((key) => !known.includes(key))];
    const missing = known.filter((key) => !Object.hasOwn(object, key));
    host.replaceChildren(...keys.map((key) => objectField(key)), ...picker(missing));
    if (keys.length === 0 && missing.length === 0) host.append(h('p', { class: 'muted', text: 'This tool takes no named arguments.' }));
    if (focusKey !== undefined) focusPath(context, pointerJoin(path, focusKey));
  };
  const required = requiredOf(schema);

  function objectField(key) {
    return field({
      name: key,
      path: pointerJoin(path, key),
      schema: own(propertiesOf(schema), key),
      required: required.includes(key),
      get: () => object[key],
      set: (value) => setKey(object, key, value),
      remove: required.includes(key) ? undefined : () => { delete object[key]; context.onChange(); draw(); },
    }, context, depth);
  }

  function picker(missing) {
    if (missing.length === 0) return [];
    const add = (key) => {
      setKey(object, key, startValue(propertiesOf(schema)[key], context.root));
      context.onChange();
      draw(key);
    };
    const chips = missing.map((key) => h('button', {
      type: 'button', class: 'chip', title: description(simplify(propertiesOf(schema)[key], context.root)), data: { add: key }, on: { click: () => add(key) },
    }, icon('plus'), h('bdi', { text: key })));
    return [h('div', { class: 'picker', role: 'group', 'aria-label': 'Add an optional field' }, h('span', { class: 'facet-name', text: 'Add' }), h('div', { class: 'chips' }, chips))];
  }

  draw();
  return host;
}

function arrayItems(schema, items, path, context, depth) {
  const host = h('div', { class: 'fields' });
  const itemSchema = simplify(own(schema, 'items'), context.root);
  const draw = (focusIndex) => {
    forget(context, path);
    const rows = items.map((_, index) => field({
      name: String(index + 1),
      path: pointerJoin(path, index),
      schema: own(schema, 'items'),
      required: false,
      get: () => items[index],
      set: (value) => { items[index] = value; },
      remove: () => { items.splice(index, 1); context.onChange(); draw(); },
    }, context, depth));
    const add = h('button', {
      type: 'button', class: 'chip', on: {
        click: () => {
          items.push(kindOf(itemSchema) === 'object' ? prefill(itemSchema, context.root) : startValue(itemSchema, context.root));
          context.onChange();
          draw(items.length - 1);
        },
      },
    }, icon('plus'), 'item');
    host.replaceChildren(...rows, h('div', { class: 'picker' }, add));
    if (focusIndex !== undefined) focusPath(context, pointerJoin(path, focusIndex));
  };
  draw();
  return host;
}

/** One labelled row: name, type, description, control, limits, and a slot for an error. */
function field(spec, context, depth) {
  const simple = simplify(spec.schema, context.root);
  const id = uniqueId();
  const slot = h('p', { class: 'field-error', id: `${id}-error`, hidden: true });
  const { element, focus, group } = control({ ...spec, simple, id }, context, depth);
  const head = h('div', { class: 'field-head' },
    h(group ? 'span' : 'label', { class: 'field-name', id: `${id}-name`, ...(group ? {} : { for: id }) }, h('bdi', { text: spec.name })),
    h('span', { class: 'field-type', text: typeLabel(spec.schema, context.root) }),
    spec.required ? h('span', { class: 'required', text: 'required' }) : undefined,
    spec.remove ? h('button', { type: 'button', class: 'quiet icon-only remove', 'aria-label': `Remove ${spec.name}`, title: 'Remove', on: { click: spec.remove } }, icon('close')) : undefined);
  const text = description(simple);
  const notes = limits(simple);
  const wrap = h('div', { class: 'field', data: { path: spec.path } }, head,
    text ? h('p', { class: 'field-text' }, h('bdi', { text })) : undefined,
    element,
    notes.length > 0 ? h('p', { class: 'field-note', text: notes.join(' · ') }) : undefined,
    slot);
  if (group) {
    element.setAttribute('role', 'group');
    element.setAttribute('aria-labelledby', `${id}-name`);
  }
  context.fields.set(spec.path, { wrap, slot, focus, input: element.matches('input, textarea, select') ? element : element.querySelector('input, textarea, select') });
  return wrap;
}

function control(spec, context, depth) {
  const { simple } = spec;
  const changed = (value) => { spec.set(value); context.onChange(); };
  const kind = kindOf(simple);
  if ((kind === 'object' || kind === 'array') && depth < MAX_DEPTH) return nested(kind, spec, context, depth);
  const value = spec.get();
  if (kind === 'enum') return choiceControl(spec, value, changed);
  if (kind === 'boolean' && (value === null || typeof value === 'boolean')) return flagControl(spec, value, changed);
  if (kind === 'string' && (value === null || typeof value === 'string')) return textControl(spec, value, changed);
  if ((kind === 'number' || kind === 'integer') && !isObject(value) && !Array.isArray(value) && typeof value !== 'boolean') return numberControl(spec, value, changed);
  const problem = (message) => {
    if (message === undefined) context.problems.delete(spec.path);
    else context.problems.set(spec.path, message);
    mark(context.fields.get(spec.path), message);
  };
  return jsonControl(spec, value, changed, problem);
}

/** An object or array: its own fields when it has a value, a button that gives it one when not. */
function nested(kind, spec, context, depth) {
  const host = h('div', { class: 'nested' });
  const draw = () => {
    const value = spec.get();
    if (kind === 'object' && isObject(value)) host.replaceChildren(objectFields(spec.simple, value, spec.path, context, depth + 1));
    else if (kind === 'array' && Array.isArray(value)) host.replaceChildren(arrayItems(spec.simple, value, spec.path, context, depth + 1));
    else host.replaceChildren(h('div', { class: 'unset' }, h('code', { text: JSON.stringify(value ?? null) }), give));
  };
  const give = h('button', {
    type: 'button', class: 'chip', on: {
      click: () => {
        spec.set(kind === 'object' ? prefill(spec.simple, context.root) : []);
        context.onChange();
        draw();
        host.querySelector('input, textarea, select, button')?.focus();
      },
    },
  }, icon('plus'), kind === 'object' ? 'object' : 'array');
  draw();
  return { element: host, focus: () => host.querySelector('input, textarea, select, button')?.focus(), group: true };
}

function description(schema) {
  const text = own(schema, 'description');
  return typeof text === 'string' && text !== '' ? text : undefined;
}

/** Drops what is known about fields below a path, before they are drawn again. */
function forget(context, path) {
  for (const map of [context.fields, context.problems]) {
    for (const key of map.keys()) if (key.startsWith(`${path}/`)) map.delete(key);
  }
}

function mark(target, message) {
  if (!target) return;
  target.slot.hidden = message === undefined;
  target.slot.textContent = message ?? '';
  target.wrap.classList.toggle('invalid', message !== undefined);
  if (!target.input) return;
  if (message === undefined) {
    target.input.removeAttribute('aria-invalid');
    target.input.removeAttribute('aria-describedby');
  } else {
    target.input.setAttribute('aria-invalid', 'true');
    target.input.setAttribute('aria-describedby', target.slot.id);
  }
}

function nearest(context, path) {
  for (let at = path; at !== ''; at = at.slice(0, at.lastIndexOf('/'))) {
    if (context.fields.has(at)) return context.fields.get(at);
  }
  return undefined;
}

function showErrors(context, errors) {
  for (const [path, target] of context.fields) mark(target, context.problems.get(path));
  const byField = new Map();
  for (const { path, message } of errors) {
    const target = nearest(context, path);
    if (target) byField.set(target, [...(byField.get(target) ?? []), message]);
  }
  for (const [target, messages] of byField) mark(target, messages.join('\n'));
}

/** Focuses the field at a path; adds it first when it is an optional one that is not there yet. */
function focusPath(context, path) {
  if (!context.fields.has(path)) {
    const key = path.slice(1);
    const add = [...document.querySelectorAll('[data-add]')].find((chip) => chip.dataset.add === key && chip.offsetParent !== null);
    if (add) return add.click();
  }
  return nearest(context, path)?.focus();
}

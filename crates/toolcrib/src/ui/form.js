// A form generated from a schema. It edits one arguments object in place and calls `onChange`.
//
// Invariant: the form sends only the values of its fields and never adds keys by itself. The object
// starts with the schema's required keys; optional ones are added with the picker.
import { h, icon } from './dom.js';
import { own, pointerJoin, setKey } from './json.js';
import { kindOf, prefill, propertiesOf, requiredOf, simplify, startValue } from './schema.js';
import { describe, field } from './form-field.js';
import { focusPath, forget, showErrors } from './form-marks.js';

export function createForm({ schema, args, onChange }) {
  const context = {
    root: schema,
    fields: new Map(),
    problems: new Map(),
    onChange,
    nest: { object: objectFields, array: arrayItems },
  };
  const element = h(
    'div',
    { class: 'form' },
    objectFields(simplify(schema, schema), args, '', context, 0),
  );
  return {
    element,
    /** Problems that only this page can detect: JSON in a field that does not parse. */
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
    const keys = [
      ...known.filter((key) => Object.hasOwn(object, key)),
      ...Object.keys(object).filter((key) => !known.includes(key)),
    ];
    const missing = known.filter((key) => !Object.hasOwn(object, key));
    host.replaceChildren(...keys.map((key) => objectField(key)), ...picker(missing));
    if (keys.length === 0 && missing.length === 0)
      host.append(h('p', { class: 'muted', text: 'This tool takes no named arguments.' }));
    if (focusKey !== undefined) focusPath(context, pointerJoin(path, focusKey));
  };
  const required = requiredOf(schema);

  function objectField(key) {
    return field(
      {
        name: key,
        path: pointerJoin(path, key),
        schema: own(propertiesOf(schema), key),
        required: required.includes(key),
        get: () => object[key],
        set: (value) => setKey(object, key, value),
        remove: required.includes(key)
          ? undefined
          : () => {
              delete object[key];
              context.onChange();
              draw();
            },
      },
      context,
      depth,
    );
  }

  function picker(missing) {
    if (missing.length === 0) return [];
    const add = (key) => {
      setKey(object, key, startValue(propertiesOf(schema)[key], context.root));
      context.onChange();
      draw(key);
    };
    const chips = missing.map((key) =>
      h(
        'button',
        {
          type: 'button',
          class: 'chip',
          title: describe(simplify(propertiesOf(schema)[key], context.root)),
          data: { add: key },
          on: { click: () => add(key) },
        },
        icon('plus'),
        h('bdi', { text: key }),
      ),
    );
    return [
      h(
        'div',
        { class: 'picker', role: 'group', 'aria-label': 'Add an optional field' },
        h('span', { class: 'facet-name', text: 'Add' }),
        h('div', { class: 'chips' }, chips),
      ),
    ];
  }

  draw();
  return host;
}

function arrayItems(schema, items, path, context, depth) {
  const host = h('div', { class: 'fields' });
  const itemSchema = simplify(own(schema, 'items'), context.root);
  const draw = (focusIndex) => {
    forget(context, path);
    const rows = items.map((_, index) =>
      field(
        {
          name: String(index + 1),
          path: pointerJoin(path, index),
          schema: own(schema, 'items'),
          required: false,
          get: () => items[index],
          set: (value) => {
            items[index] = value;
          },
          remove: () => {
            items.splice(index, 1);
            context.onChange();
            draw();
          },
        },
        context,
        depth,
      ),
    );
    const add = h(
      'button',
      {
        type: 'button',
        class: 'chip',
        on: {
          click: () => {
            items.push(
              kindOf(itemSchema) === 'object'
                ? prefill(itemSchema, context.root)
                : startValue(itemSchema, context.root),
            );
            context.onChange();
            draw(items.length - 1);
          },
        },
      },
      icon('plus'),
      'item',
    );
    host.replaceChildren(...rows, h('div', { class: 'picker' }, add));
    if (focusIndex !== undefined) focusPath(context, pointerJoin(path, focusIndex));
  };
  draw();
  return host;
}

// One row of the form: name, type, description, the control for the schema, and a slot for an
// error. Objects and arrays nest through `context.nest`.
import { h, icon } from './dom.js';
import { isObject, own } from './json.js';
import { kindOf, limits, prefill, simplify, typeLabel } from './schema.js';
import {
  choiceControl,
  flagControl,
  jsonControl,
  numberControl,
  textControl,
  uniqueId,
} from './controls.js';
import { mark } from './form-marks.js';

const MAX_DEPTH = 3; // deeper values are edited as JSON

/** One labelled row: name, type, description, control, limits, and a slot for an error. */
export function field(spec, context, depth) {
  const simple = simplify(spec.schema, context.root);
  const id = uniqueId();
  const slot = h('p', { class: 'field-error', id: `${id}-error`, hidden: true });
  const { element, focus, group } = control({ ...spec, simple, id }, context, depth);
  const head = h(
    'div',
    { class: 'field-head' },
    h(
      group ? 'span' : 'label',
      { class: 'field-name', id: `${id}-name`, ...(group ? {} : { for: id }) },
      h('bdi', { text: spec.name }),
    ),
    h('span', { class: 'field-type', text: typeLabel(spec.schema, context.root) }),
    spec.required ? h('span', { class: 'required', text: 'required' }) : undefined,
    spec.remove
      ? h(
          'button',
          {
            type: 'button',
            class: 'quiet icon-only remove',
            'aria-label': `Remove ${spec.name}`,
            title: 'Remove',
            on: { click: spec.remove },
          },
          icon('close'),
        )
      : undefined,
  );
  const text = describe(simple);
  const notes = limits(simple);
  const wrap = h(
    'div',
    { class: 'field', data: { path: spec.path } },
    head,
    text ? h('p', { class: 'field-text' }, h('bdi', { text })) : undefined,
    element,
    notes.length > 0 ? h('p', { class: 'field-note', text: notes.join(' · ') }) : undefined,
    slot,
  );
  if (group) {
    element.setAttribute('role', 'group');
    element.setAttribute('aria-labelledby', `${id}-name`);
  }
  context.fields.set(spec.path, {
    wrap,
    slot,
    focus,
    input: element.matches('input, textarea, select')
      ? element
      : element.querySelector('input, textarea, select'),
  });
  return wrap;
}

function control(spec, context, depth) {
  const { simple } = spec;
  const changed = (value) => {
    spec.set(value);
    context.onChange();
  };
  const kind = kindOf(simple);
  if ((kind === 'object' || kind === 'array') && depth < MAX_DEPTH)
    return nested(kind, spec, context, depth);
  const value = spec.get();
  if (kind === 'enum') return choiceControl(spec, value, changed);
  if (kind === 'boolean' && (value === null || typeof value === 'boolean'))
    return flagControl(spec, value, changed);
  if (kind === 'string' && (value === null || typeof value === 'string'))
    return textControl(spec, value, changed);
  if (
    (kind === 'number' || kind === 'integer') &&
    !isObject(value) &&
    !Array.isArray(value) &&
    typeof value !== 'boolean'
  )
    return numberControl(spec, value, changed);
  const problem = (message) => {
    if (message === undefined) context.problems.delete(spec.path);
    else context.problems.set(spec.path, message);
    mark(context.fields.get(spec.path), message);
  };
  return jsonControl(spec, value, changed, problem);
}

/** An object or array: its fields when it has a value, otherwise a button that creates one. */
function nested(kind, spec, context, depth) {
  const host = h('div', { class: 'nested' });
  const draw = () => {
    const value = spec.get();
    const fits = kind === 'object' ? isObject(value) : Array.isArray(value);
    if (fits)
      host.replaceChildren(context.nest[kind](spec.simple, value, spec.path, context, depth + 1));
    else
      host.replaceChildren(
        h('div', { class: 'unset' }, h('code', { text: JSON.stringify(value ?? null) }), give),
      );
  };
  const give = h(
    'button',
    {
      type: 'button',
      class: 'chip',
      on: {
        click: () => {
          spec.set(kind === 'object' ? prefill(spec.simple, context.root) : []);
          context.onChange();
          draw();
          host.querySelector('input, textarea, select, button')?.focus();
        },
      },
    },
    icon('plus'),
    kind === 'object' ? 'object' : 'array',
  );
  draw();
  return {
    element: host,
    focus: () => host.querySelector('input, textarea, select, button')?.focus(),
    group: true,
  };
}

/** Returns the schema's own description of a value, if any. */
export function describe(schema) {
  const text = own(schema, 'description');
  return typeof text === 'string' && text !== '' ? text : undefined;
}

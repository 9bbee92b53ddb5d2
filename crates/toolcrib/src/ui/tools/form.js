// A form generated from a schema. It edits one arguments object in place and calls `onChange`.
//
// Invariant: the form sends only the values of its fields and never adds keys by itself. Required
// groups start open; optional fields are added by the user, and omitted while they are empty.
import { html, part, Icon } from '../lib/ui.js';
import { isObject, own, pointerJoin, pointerParts, setKey } from '../json.js';
import {
  allowsNull,
  alternative,
  alternativeLabel,
  alternatives,
  entrySchema,
  fittingAlternative,
  formStart,
  kindOf,
  plainLimits,
  plainType,
  propertiesOf,
  requiredOf,
  simplify,
  structuredCloneJson,
} from './schema.js';
import {
  isShort,
  Choices,
  EnumControl,
  FlagControl,
  JsonControl,
  NumberControl,
  SomeOf,
  TextControl,
} from './controls.js';
import { FileControl, fileForm } from './file-control.js';

const MAX_DEPTH = 6; // deeper values are edited as JSON
let serial = 0;

/** The form is in the element with `ref`. */
export function createForm({ schema, args, onChange }) {
  serial += 1;
  const context = {
    root: schema,
    serial,
    value: args,
    /** By path: {simple, required, remove}, the fields that are shown. */
    fields: new Map(),
    /** By path: functions that add an absent optional field. */
    adders: new Map(),
    /** By path: the alternative that the user chose. */
    choices: new Map(),
    /** By path: why a text is not JSON. */
    problems: new Map(),
    /** By path: messages of the validator. */
    errors: new Map(),
    ids: new Map(),
    changed(path) {
      for (const key of [...context.errors.keys()])
        if (key === path || key.startsWith(`${path}/`)) context.errors.delete(key);
      draw();
      onChange(path);
    },
    draw: () => draw(),
  };
  const { ref, draw, element } = part(() => {
    context.fields.clear();
    context.adders.clear();
    return html`<${Root} context=${context} />`;
  });
  return {
    ref,
    key: serial,
    value: () => context.value,
    /** Problems that only this page can know: JSON that does not parse, and missing values. */
    localProblems: () => [
      ...[...context.problems].map(([path, message]) => ({ path, message })),
      ...missing(context),
    ],
    /** Whether a field holds a text that does not parse. */
    isBroken: (path) => context.problems.has(path),
    sendable: (options) => sendable(context, options),
    /** Shows the errors of the validator at their fields, or at the nearest field around them. */
    showErrors: (errors) => {
      context.errors = new Map();
      for (const { path, message } of errors) {
        const at = nearest(context, path);
        if (at !== undefined) context.errors.set(at, [...(context.errors.get(at) ?? []), message]);
      }
      draw();
    },
    focus: (path) => focus(context, path),
    /** Focuses the first control. Returns whether there is one. */
    focusFirst: () => {
      const first =
        element().querySelector('input, textarea, select') ?? element().querySelector('button');
      first?.focus();
      return first !== null;
    },
    label: (path) => label(context, path),
    schemaAt: (path) => context.fields.get(path)?.simple,
  };
}

function Root({ context }) {
  const simple = simplify(context.root, context.root);
  const kind = kindOf(simple);
  const set = (value) => {
    context.value = value;
    context.changed('');
  };
  const spec = { simple, value: context.value, set, path: '', context, depth: 0 };
  return kind === 'choice' ? html`<${Choice} ...${spec} />` : html`<${Fields} ...${spec} />`;
}

/** The properties of an object, the names it adds, and the optional properties that it lacks. */
function Fields({ simple, value, path, context, depth }) {
  const properties = propertiesOf(simple);
  const required = requiredOf(simple);
  const known = Object.keys(properties);
  const present = known.filter(
    (key) => Object.hasOwn(value, key) && !isFixed(properties[key], value[key], context),
  );
  const extra = Object.keys(value).filter((key) => !known.includes(key));
  const absent = known.filter((key) => !Object.hasOwn(value, key));
  const entries = entrySchema(simple);
  const remove = (key) => () => {
    delete value[key];
    context.problems.delete(pointerJoin(path, key));
    context.changed(path);
  };
  const add = (key) => {
    setKey(value, key, formStart(properties[key], context.root, depth));
    context.changed(path);
    focus(context, pointerJoin(path, key));
  };
  for (const key of absent) context.adders.set(pointerJoin(path, key), () => add(key));
  const field = (key, schema, more = {}) => html`<${Field} key=${`f${key}`} name=${key}
    path=${pointerJoin(path, key)} schema=${schema} required=${required.includes(key)} value=${value[key]}
    set=${(next) => {
      setKey(value, key, next);
      context.changed(pointerJoin(path, key));
    }}
    remove=${required.includes(key) ? undefined : remove(key)} context=${context} depth=${depth} ...${more} />`;
  const nothing = present.length + extra.length + absent.length === 0 && entries === undefined;
  return html`<div class="fields">
    ${present.map((key) => field(key, properties[key]))}
    ${extra.map((key) =>
      required.includes(key)
        ? field(key, entries ?? {})
        : field(key, entries ?? {}, {
            rename:
              entries === undefined ? undefined : (next) => rename(value, key, next, path, context),
          }),
    )}
    ${nothing && html`<p class="muted">This tool takes no arguments.</p>`}
    ${
      absent.length > 0 &&
      html`<div class="picker" role="group" aria-label="Add an optional field">
      <span class="facet-name">Add field</span>
      <div class="chips">
        ${absent.map(
          (key) => html`<button type="button" class="chip" key=${key} data-add=${key}
            title=${own(simplify(properties[key], context.root), 'description')} onClick=${() => add(key)}>
            <${Icon} name="plus" /><bdi>${nameOf(properties[key], key, context)}</bdi>
          </button>`,
        )}
      </div>
    </div>`
    }
    ${
      entries !== undefined &&
      html`<div class="picker">
      <button type="button" class="chip" data-entry=${path}
        onClick=${() => {
          let number = extra.length + 1;
          while (Object.hasOwn(value, `name${number}`)) number += 1;
          setKey(value, `name${number}`, formStart(entries, context.root, depth));
          context.changed(path);
          const id = context.ids.get(pointerJoin(path, `name${number}`));
          document.getElementById(`${id}-key`)?.select();
        }}><${Icon} name="plus" />entry</button>
    </div>`
    }
  </div>`;
}

/** A constant with its value needs no field. */
function isFixed(schema, value, context) {
  const simple = simplify(schema, context.root);
  return Object.hasOwn(simple, 'const') && JSON.stringify(simple.const) === JSON.stringify(value);
}

/** Renames an entry, at the same place. */
function rename(object, from, to, path, context) {
  if (to === from || to === '' || Object.hasOwn(object, to)) return;
  const entries = Object.entries(object);
  for (const [key] of entries) delete object[key];
  for (const [key, value] of entries) setKey(object, key === from ? to : key, value);
  context.changed(path);
}

function Items({ simple, value, path, context, depth }) {
  const items = own(simple, 'items');
  const most = own(simple, 'maxItems');
  return html`<div class="fields">
    ${value.map(
      (item, at) => html`<${Field} key=${at} name=${String(at + 1)} path=${pointerJoin(path, at)}
        schema=${items} required=${false} item value=${item} context=${context} depth=${depth}
        set=${(next) => {
          value[at] = next;
          context.changed(pointerJoin(path, at));
        }}
        remove=${() => {
          value.splice(at, 1);
          context.changed(path);
        }} />`,
    )}
    ${
      !(value.length >= most) &&
      html`<div class="picker">
      <button type="button" class="chip" data-item=${path}
        onClick=${() => {
          value.push(formStart(items, context.root, depth));
          context.changed(path);
          focus(context, pointerJoin(path, value.length - 1));
        }}><${Icon} name="plus" />entry</button>
    </div>`
    }
  </div>`;
}

/** One of several forms: the labels of all, and the fields of the chosen one. */
function Choice({ simple, value, set, path, context, depth, labelledby }) {
  const options = alternatives(simple);
  const at = context.choices.get(path) ?? fittingAlternative(simple, value, context.root);
  const id = idOf(context, `${path}#choice`);
  const choose = (next) => {
    context.choices.set(path, next);
    const branch = alternative(simple, options[next], context.root);
    const start = formStart(branch, context.root, depth);
    // Fields of both forms keep their values.
    if (isObject(start) && isObject(value)) {
      for (const [key, property] of Object.entries(propertiesOf(branch))) {
        const fixed = Object.hasOwn(simplify(property, context.root), 'const');
        if (Object.hasOwn(value, key) && !fixed) setKey(start, key, value[key]);
      }
    }
    set(start);
  };
  const names = options.map((option, index) => alternativeLabel(option, context.root, index));
  const text = own(simplify(options[at], context.root), 'description');
  const branch = alternative(simple, options[at], context.root);
  return html`<div class="choice" data-choice=${path}>
    <${Choices} id=${id} value=${at} names=${names} choose=${choose} role="radiogroup"
      aria-label=${labelledby ? undefined : 'Form of the arguments'} aria-labelledby=${labelledby} />
    ${typeof text === 'string' && text !== '' && html`<p class="field-text"><bdi>${text}</bdi></p>`}
    <${Value} key=${at} simple=${branch} value=${value} set=${set} path=${path} context=${context}
      depth=${depth + 1} id=${idOf(context, path)} />
  </div>`;
}

/** The control of a value. */
function Value(spec) {
  const { simple, value, set, path, context, depth, id, marks = {}, labelledby } = spec;
  const kind = kindOf(simple);
  const nested = depth < MAX_DEPTH;
  const inner = { simple, value, set, path, context, depth: depth + 1 };
  if (nested && kind === 'choice') return html`<${Choice} ...${inner} labelledby=${labelledby} />`;
  if (nested && (kind === 'object' || kind === 'map'))
    return isObject(value) ? html`<${Fields} ...${inner} />` : html`<${Give} ...${spec} />`;
  if (nested && kind === 'array') {
    const items = simplify(own(simple, 'items'), context.root);
    if (!Array.isArray(value)) return html`<${Give} ...${spec} />`;
    if (kindOf(items) === 'enum' && own(simple, 'uniqueItems') === true)
      return html`<${SomeOf} id=${id} items=${items} value=${value} set=${set} ...${marks} />`;
    return html`<${Items} ...${inner} />`;
  }
  const control = { id, simple, value, set, ...marks };
  if (kind === 'enum') return html`<${EnumControl} ...${control} />`;
  if (kind === 'boolean' && (value === null || typeof value === 'boolean'))
    return html`<${FlagControl} ...${control} />`;
  if (kind === 'string' && (value === null || typeof value === 'string')) {
    const form = fileForm(simple, context.root);
    if (form !== undefined) return html`<${FileControl} form=${form} ...${control} />`;
    return html`<${TextControl} ...${control} />`;
  }
  if (
    (kind === 'number' || kind === 'integer') &&
    !isObject(value) &&
    !Array.isArray(value) &&
    typeof value !== 'boolean'
  )
    return html`<${NumberControl} ...${control} />`;
  const problem = (message) => {
    if (message === undefined) context.problems.delete(path);
    else {
      context.problems.set(path, message);
      context.draw();
    }
  };
  return html`<${JsonControl} ...${control} problem=${problem} />`;
}

/** A group or list without a value: a button that creates one. */
function Give({ simple, value, set, path, context, depth, id }) {
  const list = kindOf(simple) === 'array';
  return html`<div class="unset">
    ${value !== null && html`<code>${JSON.stringify(value)}</code>`}
    <button type="button" class="chip" id=${id}
      onClick=${() => {
        const { nullable: _, ...open } = simple;
        set(list ? [] : (formStart(open, context.root, depth) ?? {}));
        focus(context, path);
      }}><${Icon} name="plus" />${list ? 'list' : 'group'}</button>
  </div>`;
}

/** One labelled row: name, type, description, control, limits, and the errors. */
function Field({ name, path, schema, value, set, required, remove, rename, item, context, depth }) {
  const simple = simplify(schema, context.root);
  const kind = kindOf(simple);
  const id = idOf(context, path);
  context.fields.set(path, { simple, required, remove, item });
  const messages = [context.problems.get(path), ...(context.errors.get(path) ?? [])].filter(
    Boolean,
  );
  const title = nameOf(schema, name, context);
  const group =
    ['object', 'map', 'array', 'choice'].includes(kind) || isGroupControl(simple, value);
  const text = own(simple, 'description');
  const notes = plainLimits(simple);
  const invalid = messages.length > 0;
  const marks = group
    ? {
        role: 'group',
        'aria-labelledby': `${id}-name`,
        'aria-describedby': invalid ? `${id}-error` : undefined,
      }
    : {
        'aria-invalid': invalid ? 'true' : undefined,
        'aria-describedby': invalid ? `${id}-error` : undefined,
      };
  const nested = ['object', 'map', 'array', 'choice'].includes(kind) && depth < MAX_DEPTH;
  const control = html`<${Value} ...${{ simple, value: value ?? null, set, path, context, depth, id, marks }}
    labelledby=${`${id}-name`} />`;
  return html`<div class=${`field ${invalid ? 'invalid' : ''}`} data-path=${path}>
    <div class="field-head">
      ${
        rename
          ? html`<input id=${`${id}-key`} class="input mono entry-name" type="text" value=${name}
            aria-label="Name of the entry" autocomplete="off" spellcheck=${false}
            onChange=${(event) => rename(event.target.value)} />
            ${
              group
                ? html`<span class="sr" id=${`${id}-name`}>${name}</span>`
                : html`<label class="sr" id=${`${id}-name`} for=${id}>${name}</label>`
            }`
          : group
            ? html`<span class="field-name" id=${`${id}-name`}><bdi>${title}</bdi></span>`
            : html`<label class="field-name" id=${`${id}-name`} for=${id}><bdi>${title}</bdi></label>`
      }
      ${title !== name && !rename && html`<code class="field-type"><bdi>${name}</bdi></code>`}
      ${!item && html`<span class="field-type">${plainType(schema, context.root)}</span>`}
      ${required && html`<span class="required">required</span>`}
      ${
        remove &&
        html`<button type="button" class="quiet icon-only remove" aria-label=${`Remove ${name}`} title="Remove"
        onClick=${remove}><${Icon} name="close" /></button>`
      }
    </div>
    ${typeof text === 'string' && text !== '' && html`<p class="field-text"><bdi>${text}</bdi></p>`}
    ${nested ? html`<div class="nested" role="group" aria-labelledby=${`${id}-name`}>${control}</div>` : control}
    ${notes.length > 0 && html`<p class="field-note">${notes.join(', ')}</p>`}
    <p class="field-error" id=${`${id}-error`} hidden=${!invalid}>${messages.join('\n')}</p>
  </div>`;
}

function isGroupControl(simple, value) {
  if (kindOf(simple) === 'boolean') return value === null || typeof value === 'boolean';
  return kindOf(simple) === 'enum' && isShort(simple, value ?? null);
}

function nameOf(schema, name, context) {
  const title = own(simplify(schema, context.root), 'title');
  // A title of a whole referenced type does not name this property.
  return typeof title === 'string' &&
    title !== '' &&
    title.length <= 80 &&
    isObject(schema) &&
    own(schema, '$ref') === undefined
    ? title
    : name;
}

function idOf(context, path) {
  if (!context.ids.has(path)) context.ids.set(path, `form${context.serial}-${context.ids.size}`);
  return context.ids.get(path);
}

// Values that were not given.

const MISSING = {
  boolean: 'Choose yes or no.',
  enum: 'Choose one.',
  array: 'Add the list.',
  object: 'Add the group.',
  map: 'Add the group.',
};

function missing(context) {
  const list = [];
  for (const [path, { simple, required, item }] of context.fields) {
    if ((!required && !item) || valueAt(context.value, path) !== null || allowsNull(simple))
      continue;
    list.push({
      path,
      message: item
        ? 'Fill this in, or remove the entry.'
        : (MISSING[kindOf(simple)] ?? 'Fill this in.'),
    });
  }
  return list;
}

/**
 * The arguments without empty optional fields; with `given`, also without empty required ones.
 */
function sendable(context, { given = false } = {}) {
  const copy = structuredCloneJson(context.value);
  for (const [path, { simple, required, item }] of context.fields) {
    if ((required && !given) || item || allowsNull(simple) || valueAt(context.value, path) !== null) continue;
    const parts = pointerParts(path);
    const parent = parts.slice(0, -1).reduce((at, part) => at?.[part], copy);
    if (isObject(parent)) delete parent[parts.at(-1)];
  }
  return copy;
}

function valueAt(value, path) {
  return pointerParts(path).reduce(
    (at, part) => (Array.isArray(at) ? at[part] : own(at, part)),
    value,
  );
}

// Paths.

/** The shown field at a path, or the nearest one around it. */
function nearest(context, path) {
  for (let at = path; at !== ''; at = at.slice(0, at.lastIndexOf('/')))
    if (context.fields.has(at)) return at;
  return undefined;
}

/** Focuses the field at a path; adds it first when it is an absent optional one. */
function focus(context, path) {
  const add = context.adders.get(path);
  if (add && !context.fields.has(path)) return add();
  const at = nearest(context, path);
  if (at === undefined) return undefined;
  const id = context.ids.get(at);
  const control = document.getElementById(id);
  if (control) return control.focus();
  const row = document.getElementById(`${id}-name`)?.closest('.field');
  return row?.querySelector('.nested :is(input, textarea, select, button)')?.focus();
}

/** "billing › city", "lines › 2 › price". */
function label(context, path) {
  if (path === '') return 'The arguments as a whole';
  let at = '';
  return pointerParts(path)
    .map((part) => {
      at = pointerJoin(at, part);
      const field = context.fields.get(at);
      if (field?.item) return String(Number(part) + 1);
      return field ? nameOf(field.simple, part, context) : part;
    })
    .join(' › ');
}

// The controls of a form, one per kind of value. Each returns {element, focus, group?}; `group`
// means that the element contains several inputs and is labelled by aria-labelledby.
import { h } from './dom.js';
import { exactNumber, parseJson, parseProblem, pretty } from './json.js';
import { enumValues } from './schema.js';

let serial = 0;

export function uniqueId() {
  serial += 1;
  return `field${serial}`;
}

/** Grows with its content; a null value stays null until it is edited. */
export function textControl({ id, simple }, value, changed) {
  const secret = simple.format === 'password' || simple.writeOnly === true;
  const element = h(secret ? 'input' : 'textarea', {
    id,
    class: 'input',
    spellcheck: 'false',
    autocomplete: 'off',
    placeholder: value === null ? 'null' : '',
    ...(secret ? { type: 'password' } : { rows: '1' }),
    value: value ?? '',
    on: { input: () => changed(element.value) },
  });
  return { element, focus: () => element.focus() };
}

/** Text that is not a number is sent as it is, so that the server's validator reports it. */
export function numberControl({ id }, value, changed) {
  const element = h('input', {
    id,
    class: 'input number',
    type: 'text',
    inputmode: 'decimal',
    autocomplete: 'off',
    placeholder: value === null ? 'null' : '',
    value: value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value),
    on: {
      input: () => {
        const text = element.value.trim();
        if (text === '') changed(null);
        else
          changed(
            /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)
              ? exactNumber(text)
              : element.value,
          );
      },
    },
  });
  return { element, focus: () => element.focus() };
}

export function flagControl({ id }, value, changed) {
  const options = [true, false].map((flag) =>
    h(
      'label',
      { class: 'radio' },
      h('input', {
        type: 'radio',
        name: id,
        id: flag ? id : `${id}-false`,
        checked: value === flag,
        on: { change: () => changed(flag) },
      }),
      String(flag),
    ),
  );
  const element = h('div', { class: 'segmented' }, options);
  return { element, focus: () => element.querySelector('input').focus(), group: true };
}

export function choiceControl({ id, simple }, value, changed) {
  const values = enumValues(simple);
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const at = values.findIndex((option) => same(option, value));
  // The current value can be outside the list: null before a choice, or text entered as JSON.
  const options =
    at < 0
      ? [h('option', { value: '-1', text: value === null ? '– choose –' : JSON.stringify(value) })]
      : [];
  values.forEach((option, index) =>
    options.push(
      h('option', {
        value: String(index),
        text: typeof option === 'string' ? option : pretty(option),
      }),
    ),
  );
  const element = h(
    'select',
    {
      id,
      class: 'input',
      on: {
        change: () => {
          if (element.value !== '-1') changed(values[Number(element.value)]);
        },
      },
    },
    options,
  );
  element.value = String(at);
  return { element, focus: () => element.focus() };
}

/** Any JSON. While the text does not parse, the last valid value stays and `problem` is called. */
export function jsonControl({ id }, value, changed, problem) {
  const element = h('textarea', {
    id,
    class: 'input mono',
    rows: '2',
    spellcheck: 'false',
    autocomplete: 'off',
    value: pretty(value),
    on: {
      input: () => {
        const bad = parseProblem(element.value);
        problem(bad?.message);
        if (!bad) changed(parseJson(element.value));
      },
    },
  });
  return { element, focus: () => element.focus() };
}

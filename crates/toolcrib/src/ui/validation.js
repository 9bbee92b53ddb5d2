// The validator's result: valid, or one line per violation with a link to its field.
import { h, plural } from './dom.js';
import { isObject, jsonBlock } from './json.js';
import { problemText } from './api.js';

/** The violations in a validation reply, or undefined for any other reply. */
export function violations(reply) {
  if (!isObject(reply.data) || typeof reply.data.valid !== 'boolean') return undefined;
  const errors = Array.isArray(reply.data.errors) ? reply.data.errors : [];
  return errors.filter(isObject).map(({ path, message }) => ({
    path: typeof path === 'string' ? path : '',
    message: typeof message === 'string' ? message : '',
  }));
}

export function renderValidation(reply, editor) {
  const errors = violations(reply);
  if (errors === undefined) {
    return h(
      'div',
      { class: 'verdict bad', role: 'alert' },
      h('p', { class: 'strong', text: 'The input could not be checked' }),
      h('p', { text: problemText(reply) }),
    );
  }
  if (reply.data.valid)
    return h('div', { class: 'verdict good', role: 'status' }, h('p', { text: 'Input is valid.' }));
  return h(
    'div',
    { class: 'verdict bad', role: 'alert' },
    h('p', { class: 'strong', text: `Input is not valid: ${plural(errors.length, 'problem')}` }),
    h(
      'ul',
      { class: 'violations' },
      errors.map((error) => violation(error, editor)),
    ),
    h('details', {}, h('summary', { text: 'Validator’s response as JSON' }), jsonBlock(reply.data)),
  );
}

function violation({ path, message }, editor) {
  const line = editor.lineOf(path);
  const where =
    path === ''
      ? h('span', { class: 'path', text: '(whole input)' })
      : h(
          'button',
          {
            type: 'button',
            class: 'path link',
            title: 'Go to this value',
            on: { click: () => editor.focus(path) },
          },
          h('bdi', { text: path }),
        );
  return h(
    'li',
    {},
    where,
    ': ',
    h('bdi', { text: message }),
    line === undefined ? undefined : h('span', { class: 'muted', text: ` (line ${line})` }),
  );
}

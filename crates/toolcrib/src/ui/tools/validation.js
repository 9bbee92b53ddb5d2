// What is wrong with the arguments: one line per problem with a link to its field.
import { h, plural } from '../dom.js';
import { isObject, jsonBlock } from '../json.js';
import { problemText } from '../api.js';
import { plainMessage } from './words.js';

/** The violations in a validation reply, or undefined for any other reply. */
export function violations(reply, editor) {
  if (!isObject(reply.data) || typeof reply.data.valid !== 'boolean') return undefined;
  const errors = Array.isArray(reply.data.errors) ? reply.data.errors : [];
  const text = (value) => (typeof value === 'string' ? value : '');
  return errors.filter(isObject).map((error) => {
    const path = text(error.path);
    const plain = { keyword: text(error.keyword), message: text(error.message) };
    return { path, message: plainMessage(plain, editor.schemaAt(path)) };
  });
}

export function renderValidation(reply, editor) {
  const errors = violations(reply, editor);
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
  return summary(
    `Input is not valid: ${plural(errors.length, 'problem')}`,
    errors,
    editor,
    h('details', {}, h('summary', { text: 'Validator’s response as JSON' }), jsonBlock(reply.data)),
  );
}

/** A summary of problems that jumps to them. */
export function summary(title, errors, editor, more) {
  return h(
    'div',
    { class: 'verdict bad', role: 'alert' },
    h('p', { class: 'strong', text: title }),
    h(
      'ul',
      { class: 'violations' },
      errors.map((error) => violation(error, editor)),
    ),
    more,
  );
}

function violation({ path, message }, editor) {
  const line = editor.lineOf(path);
  const where =
    path === ''
      ? h('span', { class: 'path', text: 'The arguments as a whole' })
      : h(
          'button',
          {
            type: 'button',
            class: 'path link',
            title: 'Go to this value',
            on: { click: () => editor.focus(path) },
          },
          h('bdi', { text: editor.label(path) }),
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

// "Save call" under the arguments: a name, and what is left out of what is stored.
import { h, button, announce } from '../dom.js';
import { parseJson } from '../json.js';
import { saveCall, savedCalls, withoutSecrets } from './saved.js';

export function saveButton(tool, editor, saved) {
  const host = h('span', { class: 'save' });
  const open = button('Save call', () => ask(), { class: 'quiet', data: { action: 'save' } });
  const close = () => {
    host.replaceChildren(open);
    open.focus();
  };

  function ask() {
    const text = editor.compact();
    if (text === undefined) return editor.focusFirst();
    const { args, left } = withoutSecrets(parseJson(text), tool.inputSchema);
    const name = h('input', {
      class: 'input',
      type: 'text',
      maxlength: '80',
      'aria-label': 'Name of the call',
      autocomplete: 'off',
      value: `Call ${savedCalls(tool.name).length + 1}`,
    });
    const form = h(
      'form',
      {
        class: 'save-form',
        on: {
          submit: (event) => {
            event.preventDefault();
            const chosen = name.value.trim();
            if (chosen === '') return name.focus();
            const done = saveCall(tool.name, chosen, args);
            announce(done ? 'Saved in this browser' : 'The browser did not store it');
            close();
            return saved();
          },
          keydown: (event) => {
            if (event.key === 'Escape') close();
            event.stopPropagation(); // Enter here saves, and does not run the tool
          },
        },
      },
      name,
      h('button', { type: 'submit', class: 'button', text: 'Save' }),
      button('Cancel', close, { class: 'quiet' }),
      h('span', {
        class: 'muted',
        text:
          left.length === 0
            ? 'Stored in this browser only.'
            : `Stored in this browser only, without ${left.join(', ')}.`,
      }),
    );
    host.replaceChildren(form);
    name.select();
    return undefined;
  }

  host.append(open);
  return host;
}

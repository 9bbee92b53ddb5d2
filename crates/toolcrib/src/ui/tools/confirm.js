// The confirmation before a dangerous tool runs.
import { h, button } from '../dom.js';
import { badges, isDestructive } from './badges.js';
import { jsonBlock, parseJson } from '../json.js';

/** Resolves to {run, remember}. Escape and a click on the backdrop cancel. */
export function confirmRun(tool, reasons, body) {
  return new Promise((resolve) => {
    const remember = h('input', { type: 'checkbox' });
    const dialog = h('dialog', { class: 'confirm', 'aria-labelledby': 'confirm-title' });
    const finish = (run) => {
      dialog.close();
      dialog.remove();
      resolve({ run, remember: run && remember.checked });
    };
    const no = button('Cancel', () => finish(false));
    dialog.append(
      h('h2', { id: 'confirm-title' }, 'Run ', h('bdi', { class: 'mono', text: tool.name }), '?'),
      h('div', { class: 'badges' }, badges(tool)),
      h(
        'ul',
        {},
        reasons.map((reason) => h('li', { text: reason })),
      ),
      h('p', { class: 'muted', text: 'It will run with these arguments:' }),
      preview(body),
      h(
        'label',
        { class: 'check' },
        remember,
        'Do not ask again for this tool until the page is reloaded',
      ),
      h(
        'div',
        { class: 'row end' },
        no,
        button('Run tool', () => finish(true), {
          class: `button ${isDestructive(tool) ? 'danger' : 'primary'}`,
          data: { confirm: 'run' },
        }),
      ),
    );
    dialog.addEventListener('cancel', (event) => {
      event.preventDefault();
      finish(false);
    });
    dialog.addEventListener('click', (event) => {
      if (event.target === dialog) finish(false);
    });
    document.body.append(dialog);
    dialog.showModal();
    no.focus();
  });
}

function preview(body) {
  try {
    return jsonBlock(parseJson(body));
  } catch {
    return h('pre', { class: 'code', text: body });
  }
}

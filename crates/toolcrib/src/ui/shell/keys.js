// The keys of the page, as a dialog that `?` opens.
import { html, useEffect, useState, Dialog } from '../lib/ui.js';
import { on, emit } from '../state.js';
import { SECTIONS } from './sections.js';

const KEYS = [
  ['Anywhere', [
    ['Ctrl K', 'go to a tool, screen, source, role or person, or run an action'],
    ['/', 'the search of this screen'],
    ['g, then a letter', `a screen: ${SECTIONS.map(({ keys, name }) => `${keys} ${name.toLowerCase()}`).join(', ')}`],
    ['?', 'these keys'],
    ['Esc', 'close'],
  ]],
  ['Tools', [
    ['↑ ↓', 'the previous and the next tool'],
    ['Enter', 'open the tool'],
    ['Ctrl Enter', 'run the open tool'],
  ]],
  ['Approvals', [
    ['j, k', 'the next and the previous request'],
    ['a', 'approve the focused request'],
    ['r', 'reject it'],
  ]],
];

/** Whether a pressed key belongs to a focused field or dialog, or to another combination. */
export function isTyping(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  return event.target.closest?.('input, textarea, select, dialog, [contenteditable]') != null;
}

export function startKeys() {
  document.addEventListener('keydown', (event) => {
    if (event.key !== '?' || isTyping(event)) return;
    event.preventDefault();
    emit('keys');
  });
}

export function Keys() {
  const [open, setOpen] = useState(false);
  useEffect(() => on('keys', () => setOpen(true)), []);
  if (!open) return null;
  return html`<${Dialog} title="Keys" onClose=${() => setOpen(false)}>
    ${KEYS.map(
      ([place, keys]) => html`<section key=${place}>
        <h3>${place}</h3>
        <dl class="facts keys">
          ${keys.map(([key, does]) => html`<dt key=${key}><kbd>${key}</kbd></dt><dd>${does}</dd>`)}
        </dl>
      </section>`,
    )}
  <//>`;
}

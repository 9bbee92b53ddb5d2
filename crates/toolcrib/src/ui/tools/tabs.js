// A tab list as the ARIA practices describe it: arrows move, one tab stop, panels are labelled.
import { h, reveal } from '../dom.js';

let serial = 0;

/** `tabs`: [{id, label, panel}]. Returns {element, show, setLabel}. */
export function tabs(list, { label, onShow } = {}) {
  serial += 1;
  const prefix = `tabs${serial}`;
  const buttons = new Map();
  const bar = h('div', { class: 'tabs', role: 'tablist', 'aria-label': label });
  for (const tab of list) {
    const button = h('button', {
      type: 'button',
      role: 'tab',
      id: `${prefix}-${tab.id}`,
      'aria-controls': `${prefix}-${tab.id}-panel`,
      text: tab.label,
      data: { tab: tab.id },
      on: { click: () => show(tab.id) },
    });
    tab.panel.id = `${prefix}-${tab.id}-panel`;
    tab.panel.setAttribute('role', 'tabpanel');
    tab.panel.setAttribute('aria-labelledby', button.id);
    buttons.set(tab.id, button);
    bar.append(button);
  }
  bar.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const ids = list.map((tab) => tab.id);
    const at = ids.findIndex((id) => buttons.get(id).getAttribute('aria-selected') === 'true');
    const next = ids[(at + step + ids.length) % ids.length];
    show(next);
    buttons.get(next).focus();
  });

  function show(id) {
    for (const tab of list) {
      const active = tab.id === id;
      buttons.get(tab.id).setAttribute('aria-selected', String(active));
      buttons.get(tab.id).tabIndex = active ? 0 : -1;
      tab.panel.hidden = !active;
    }
    reveal(bar, buttons.get(id));
    onShow?.(id);
  }

  show(list[0].id);
  return {
    element: h(
      'div',
      { class: 'tabbed' },
      bar,
      list.map((tab) => tab.panel),
    ),
    show,
    setLabel: (id, text) => {
      buttons.get(id).textContent = text;
    },
  };
}

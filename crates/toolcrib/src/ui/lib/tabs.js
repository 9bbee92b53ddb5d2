// Tabs after the ARIA practices: arrow keys move, one tab stop, labelled panels. Also a switch between
// views of the same content.
import { html, useLayoutEffect, useRef, useState } from './ui.js';
import { reveal } from '../dom.js';

let serial = 0;

/** The bar of a tab list. `tabs` are {id, label, panel}, where `panel` is the id of the tab's panel. */
export function TabBar({ label, tabs, open, onOpen, prefix }) {
  const bar = useRef();
  const button = (id) => bar.current.querySelector(`[data-tab="${id}"]`);
  useLayoutEffect(() => reveal(bar.current, button(open)), [open]);
  const onKeyDown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const at = tabs.findIndex(({ id }) => id === open);
    const next = tabs[(at + step + tabs.length) % tabs.length].id;
    onOpen(next);
    button(next).focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${bar} onKeyDown=${onKeyDown}>
    ${tabs.map(
      ({ id, label, panel }) => html`<button type="button" role="tab" key=${id} id=${`${prefix}-${id}`}
        data-tab=${id} aria-controls=${panel} aria-selected=${String(id === open)}
        tabindex=${id === open ? 0 : -1} onClick=${() => onOpen(id)}>${label}</button>`,
    )}
  </div>`;
}

/**
 * Tabs with their panels. `tabs` are {id, label, view, style}. `view` is the content, or a function
 * that makes it when the tab first opens; it then stays, with all input. `style` is the class of the
 * panel.
 */
export function Tabs({ label, tabs, open = tabs[0].id, onOpen }) {
  const prefix = useRef();
  prefix.current ??= `tabs${(serial += 1)}`;
  const seen = useRef(new Set());
  seen.current.add(open);
  const panel = (id) => `${prefix.current}-${id}-panel`;
  return html`<div class="tabbed">
    <${TabBar} label=${label} open=${open} onOpen=${onOpen} prefix=${prefix.current}
      tabs=${tabs.map(({ id, label }) => ({ id, label, panel: panel(id) }))} />
    ${tabs.map(
      ({ id, view, style }) => html`<div key=${id} id=${panel(id)} class=${style} role="tabpanel"
        aria-labelledby=${`${prefix.current}-${id}`} hidden=${id !== open}>
        ${typeof view === 'function' ? seen.current.has(id) && view() : view}
      </div>`,
    )}
  </div>`;
}

/** Tabs that keep track of the open one themselves. */
export function OwnTabs(props) {
  const [open, setOpen] = useState(props.tabs[0].id);
  return html`<${Tabs} ...${props} open=${open} onOpen=${setOpen} />`;
}

/** A row of buttons, one of them pressed. `views` are [id, label]; `data-NAME` is the id. */
export function Switch({ name, label, views, chosen, onChoose }) {
  return html`<div class="segmented" role="group" aria-label=${label}>
    ${views.map(([id, text]) => {
      const mark = { [`data-${name}`]: id };
      return html`<button type="button" class="toggle" key=${id} ...${mark}
        aria-pressed=${String(id === chosen)} onClick=${() => onChoose(id)}>${text}</button>`;
    })}
  </div>`;
}

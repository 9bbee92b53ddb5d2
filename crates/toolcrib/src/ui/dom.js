// DOM work outside templates: finding elements, creating the few that no screen draws, scrolling.
// `html` of `lib/ui.js` draws all other elements.
import { visibleText } from './lib/visible.js';

export function byId(id) {
  return document.getElementById(id);
}

/** An element to draw in. It keeps its content while it is off the page. */
export function root(type, className = '') {
  const element = document.createElement(type);
  element.className = className;
  return element;
}

/** Scrolls only the bar, sideways, until `element` in it is visible. */
export function reveal(bar, element) {
  if (!bar || !element) return;
  const [box, own] = [bar.getBoundingClientRect(), element.getBoundingClientRect()];
  if (own.right > box.right) bar.scrollLeft += own.right - box.right;
  else if (own.left < box.left) bar.scrollLeft -= box.left - own.left;
}

/** Announces a text to screen readers without moving the focus. */
export function announce(text) {
  const live = byId('live');
  live.textContent = '';
  // Cleared first, so that a repeated sentence is announced again.
  setTimeout(() => {
    live.textContent = visibleText(text);
  }, 30);
}

/** Copies `text` to the clipboard. Returns whether that worked. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Plain http on a host other than localhost has no clipboard API: use the old way.
    const area = root('textarea', 'sr');
    area.value = text;
    (document.querySelector('dialog[open]') ?? document.body).append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

/** Downloads a blob as a file. */
export function saveFile(blob, name) {
  const link = root('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Builds the page. Invariant: text from the server becomes a text node or a property of a known
// element, never markup. This module cannot set HTML, an event attribute or a style attribute from
// a string. Invariant (I-53): hidden characters of a text that people read are drawn as escapes.
import { visibleText } from './lib/visible.js';

const SVG = 'http://www.w3.org/2000/svg';

export const ICONS = {
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 1.4M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z',
  back: 'M15 5l-7 7 7 7',
  close: 'M6 6l12 12M18 6L6 18',
  plus: 'M12 5v14M5 12h14',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  alert: 'M12 4l9 16H3L12 4ZM12 10v4M12 17v.1',
  // How dangerous a tool is has a shape of its own, so that it does not depend on colour.
  read: 'M12 6a6 6 0 1 0 0 12 6 6 0 0 0 0-12',
  write: 'M12 5l8 14H4Z',
  destructive: 'M8.5 3.5h7l5 5v7l-5 5h-7l-5-5v-7ZM9 9l6 6M15 9l-6 6',
  exec: 'M4 5h16v14H4ZM8 10l2.5 2L8 14M13 15h3',
  clock: 'M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16M12 8v4.5l3 2',
  key: 'M8 11.5a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4M11 12.5L20 3.5M15.5 8l3.5 3.5',
};

/** Creates an element. `props` are properties and attributes by name; `on` contains listeners. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) set(element, name, value);
  append(element, children);
  return element;
}

function set(element, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (name === 'on') {
    for (const [event, listener] of Object.entries(value))
      element.addEventListener(event, listener);
  } else if (name === 'class') {
    element.className = value;
  } else if (name === 'text') {
    setText(element, value);
  } else if (name === 'data') {
    for (const [key, text] of Object.entries(value)) element.dataset[key] = text;
  } else if (name === 'value' || name === 'checked') {
    element[name] = value;
  } else if (/^(on|style$|srcdoc$|innerhtml$|outerhtml$)/i.test(name)) {
    throw new Error(`attribute ${name} is not allowed`);
  } else {
    element.setAttribute(name, value === true ? '' : readable(name, String(value)));
  }
}

function append(element, children) {
  for (const child of children.flat(3)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : visibleText(String(child)));
  }
}

/** The attributes that people read. Others, such as values and addresses, are used as they are. */
const READ = new Set(['title', 'aria-label', 'placeholder', 'alt', 'label']);

/** Returns the value for the attribute `name`. */
export function readable(name, value) {
  return READ.has(name) && typeof value === 'string' ? visibleText(value) : value;
}

/** Returns the parts of a text of the server. `code(part)` draws each part between backticks. */
export function withCode(text, code) {
  return text.split(/`([^`\n]+)`/).map((part, at) => (at % 2 === 1 ? code(part, at) : visibleText(part)));
}

/** Replaces the text of an element. */
export function setText(element, text) {
  element.textContent = visibleText(String(text));
}

export function byId(id) {
  return document.getElementById(id);
}

export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
}

export function button(label, listener, props = {}) {
  return h('button', { type: 'button', class: 'button', on: { click: listener }, ...props }, label);
}

/** Scrolls a bar sideways, and nothing else, so that `element` in it is visible. */
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
    setText(live, text);
  }, 30);
}

/** A button that copies the value of `text()` at the time of the click. */
export function copyButton(text, label = 'Copy', props = {}) {
  const element = button(
    label,
    async () => {
      const done = await copy(text());
      element.textContent = done ? 'Copied!' : 'Copy failed';
      announce(done ? 'Copied to the clipboard' : 'The browser refused the clipboard');
      clearTimeout(element.timer);
      element.timer = setTimeout(() => {
        element.textContent = label;
      }, 1500);
    },
    { class: 'quiet', ...props },
  );
  return element;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Plain http on a host other than localhost has no clipboard API: use the old way.
    const area = h('textarea', { class: 'sr', value: text, 'aria-hidden': 'true' });
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

/** Lower-case units, with one decimal where it helps. */
export function formatMs(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

export function formatBytes(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024
    ? `${(bytes / 1024).toFixed(1)} KiB`
    : `${(bytes / 1048576).toFixed(1)} MiB`;
}

export function plural(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}

// Names as links to their targets, one component for each kind. A name is plain text if the reader may not
// open the target.
import { html, useEvents, useState } from './ui.js';
import { state, may } from '../state.js';
import { condition, href } from './address.js';
import { isListed, toolName } from './tool-name.js';

/** `to` is the address, or undefined for plain text. */
function Name({ to, text, style, ...props }) {
  const name = html`<bdi class=${style}>${text}</bdi>`;
  return to === undefined ? name : html`<a href=${to} ...${props}>${name}</a>`;
}

/** The address of a principal's events; undefined if the reader may not see them. */
export function addressOfPerson(name) {
  return may('audit:read') ? href('record', [], { q: condition('actor', name) }) : undefined;
}

/** A principal, with a link to its events, or to the address `to`. */
export function Person({ name, to = addressOfPerson(name), style, onClick }) {
  return html`<${Name} to=${to} text=${name} style=${style} onClick=${onClick} data-person=${name} />`;
}

export function RoleName({ name, style }) {
  const to = may('roles:read') ? href('access', ['roles', name]) : undefined;
  return html`<${Name} to=${to} text=${name} style=${style} data-role-link=${name} />`;
}

export function SourceName({ name, style = 'mono' }) {
  const to = may('sources:read') ? href('sources', [name]) : undefined;
  return html`<${Name} to=${to} text=${name} style=${style} data-source-link=${name} />`;
}

export function KeyId({ id }) {
  if (!may('keys:manage')) return html`<code>${id}</code>`;
  return html`<a href=${href('access', ['keys', id])} data-key-link=${id}><code>${id}</code></a>`;
}

/** A tool, by its id or its name, with a link if the reader's list has it; `text` is for other readers. */
export function ToolName({ id, name = toolName(id), text = name, style = 'mono' }) {
  const [, drawAgain] = useState(0);
  // The list may load after the screen.
  useEvents(['tools'], () => drawAgain((it) => it + 1));
  const leads = state.status === 'ready' && isListed(name);
  return html`<${Name} to=${leads ? href('tools', [name]) : undefined} text=${leads ? name : text} style=${style} data-tool-link=${name} />`;
}

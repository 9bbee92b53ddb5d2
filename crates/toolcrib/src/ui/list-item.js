// One row of the list, with the search words highlighted.
import { h } from './dom.js';
import { state, select } from './state.js';
import { badges } from './badges.js';

export function item(tool) {
  const open = tool.name === state.selected;
  const title = typeof tool.annotations?.title === 'string' ? tool.annotations.title : undefined;
  const line = firstLine(tool.description);
  return h(
    'li',
    {},
    h(
      'button',
      {
        type: 'button',
        class: 'item',
        data: { name: tool.name },
        'aria-expanded': String(open),
        'aria-controls': 'detail',
        on: {
          click: () => {
            location.hash = `tool=${encodeURIComponent(tool.name)}`;
            select(tool.name);
          },
        },
      },
      h('span', { class: 'item-top' }, h('bdi', { class: 'name' }, marked(tool.name))),
      title && title !== tool.name ? h('bdi', { class: 'item-title', text: title }) : undefined,
      line !== '' ? h('bdi', { class: 'item-text' }, marked(line)) : undefined,
      h('span', { class: 'badges' }, badges(tool)),
    ),
  );
}

function firstLine(text) {
  return (
    text
      .split('\n')
      .find((line) => line.trim() !== '')
      ?.trim()
      .slice(0, 240) ?? ''
  );
}

/** The text with the first matching search word highlighted. */
function marked(text) {
  const lower = text.toLowerCase();
  // Lower-casing can change the length of a text (İ), which would shift the highlight.
  if (lower.length !== text.length) return [text];
  for (const word of state.query.toLowerCase().split(/\s+/)) {
    const at = word === '' ? -1 : lower.indexOf(word);
    if (at >= 0)
      return [
        text.slice(0, at),
        h('mark', { text: text.slice(at, at + word.length) }),
        text.slice(at + word.length),
      ];
  }
  return [text];
}

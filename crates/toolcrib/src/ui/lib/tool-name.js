// What a tool is called. Its name, as callers use it, identifies it on every screen; its title is the
// upstream's own word, and only stands beside the name.
import { state } from '../state.js';
import { own } from '../json.js';
import { classification } from './danger.js';

const MAX_TITLE = 200;

/** The names of the tools of a list, by their ids. */
const known = new WeakMap();

/** Returns the name that callers use for a tool id such as `mcp:files.read`. */
export function toolName(id) {
  if (!known.has(state.tools))
    known.set(state.tools, new Map(state.tools.map((tool) => [classification(tool).toolId, tool.name])));
  const name = known.get(state.tools).get(id);
  if (name !== undefined) return name;
  return id.replace(/^[a-z-]+:/, '').replace('.', '__');
}

/** Returns the words that a tool uses for itself; undefined if they say no more than its name. */
export function toolTitle(tool) {
  const text = [own(tool, 'title'), own(own(tool, 'annotations'), 'title')].find(
    (it) => typeof it === 'string' && it.trim() !== '',
  );
  return text === undefined || text === tool.name ? undefined : text.slice(0, MAX_TITLE);
}

// Names of tools. The name that callers use identifies a tool on every screen. Its title comes from the
// upstream, and is shown only after the name.
import { state } from '../state.js';
import { own } from '../json.js';
import { classification } from './danger.js';

const MAX_TITLE = 200;

/** For each list of tools: the names by id, and all names. */
const known = new WeakMap();

function namesOf(list) {
  if (!known.has(list)) {
    const ids = new Map(list.map((tool) => [classification(tool).toolId, tool.name]));
    known.set(list, { ids, names: new Set(list.map(({ name }) => name)) });
  }
  return known.get(list);
}

/** The name that callers use for a tool id such as `mcp:files.read`. */
export function toolName(id) {
  return namesOf(state.tools).ids.get(id) ?? id.replace(/^[a-z-]+:/, '').replace('.', '__');
}

/** Whether the list of the caller has a tool of this name. */
export const isListed = (name) => namesOf(state.tools).names.has(name);

/** The title that a tool gives itself; undefined if it repeats the name. */
export function toolTitle(tool) {
  const text = [own(tool, 'title'), own(own(tool, 'annotations'), 'title')].find(
    (it) => typeof it === 'string' && it.trim() !== '',
  );
  return text === undefined || text === tool.name ? undefined : text.slice(0, MAX_TITLE);
}

// The list of tools. The server sends it in parts, and a reload fetches only the parts that changed.
import { on } from './state.js';
import { getCatalog, getCatalogPart } from './api.js';
import { isObject } from './json.js';

/** Parts loaded at the same time. */
const AT_ONCE = 4;
/** Attempts to load a list that changes meanwhile. */
const TRIES = 3;

/** The parts of the last list, by tag, as {tools, skipped}. */
let kept = new Map();

on('token', () => {
  kept = new Map();
});

/**
 * Loads the list. Calls `show(list)` with the first tools if more follow. Returns {list}, or {reply} with the
 * failed reply. A list is {tools, skipped, coming}.
 */
export async function loadCatalog(signal, show) {
  for (let tries = 1; ; tries += 1) {
    const reply = await getCatalog(signal);
    const parts = reply.status === 200 ? reply.data?.parts : undefined;
    if (!Array.isArray(parts) || !parts.every(isPart)) return { reply };
    const found = new Map();
    for (const { tag, tools } of parts) {
      const part = Array.isArray(tools) ? readable(tools) : kept.get(tag);
      if (part !== undefined) found.set(tag, part);
    }
    const missing = parts.filter(({ tag }) => !found.has(tag));
    const list = () => joined(parts, found);
    if (missing.length > 0) show(list());
    const problem = await loadAll(missing, found, signal);
    kept = found;
    // A part is missing if the list has changed.
    if (problem?.status === 404 && tries < TRIES) continue;
    if (problem !== undefined) return { reply: problem };
    return { list: list() };
  }
}

/** Loads `parts` into `found`. Returns the first failed reply, if any. */
async function loadAll(parts, found, signal) {
  const waiting = [...parts];
  let problem;
  const next = async () => {
    while (waiting.length > 0 && problem === undefined) {
      const { tag } = waiting.shift();
      const reply = await getCatalogPart(tag, signal);
      if (reply.status === 200 && Array.isArray(reply.data)) found.set(tag, readable(reply.data));
      else problem ??= reply;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
  return problem;
}

/** The tools of all parts before the first missing one. */
function joined(parts, found) {
  const missing = parts.findIndex(({ tag }) => !found.has(tag));
  const here = missing === -1 ? parts : parts.slice(0, missing);
  const loaded = here.map(({ tag }) => found.get(tag));
  return {
    tools: loaded.flatMap(({ tools }) => tools),
    skipped: loaded.reduce((sum, { skipped }) => sum + skipped, 0),
    coming: parts.slice(here.length).reduce((sum, { count }) => sum + count, 0),
  };
}

const isPart = (part) => isObject(part) && typeof part.tag === 'string' && Number.isSafeInteger(part.count);

/** The displayable tools of a part, and the number of the others. */
function readable(list) {
  const tools = list
    .filter((tool) => isObject(tool) && typeof tool.name === 'string')
    .map((tool) => ({ ...tool, description: typeof tool.description === 'string' ? tool.description : '' }));
  return { tools, skipped: list.length - tools.length };
}

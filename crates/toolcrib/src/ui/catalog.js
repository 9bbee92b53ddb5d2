// The list of tools. The server sends it in parts, and after a change only those that differ are loaded.
import { on } from './state.js';
import { getCatalog, getCatalogPart } from './api.js';
import { isObject } from './json.js';

/** Parts that are loaded at the same time. */
const AT_ONCE = 4;
/** How often a list that changes while it is loaded is read from its start. */
const TRIES = 3;

/** The parts of the last list, by tag, as {tools, skipped}. */
let kept = new Map();

on('token', () => {
  kept = new Map();
});

/**
 * Loads the list. Calls `show(list)` with its first tools if more are to come. Returns {list}, or {reply} with
 * the reply of the server that is no list. A list is {tools, skipped, coming}.
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
    // A part that is gone belongs to a list that has changed.
    if (problem?.status === 404 && tries < TRIES) continue;
    if (problem !== undefined) return { reply: problem };
    return { list: list() };
  }
}

/** Loads `parts` into `found`. Returns the first reply that is no part. */
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

/** The tools of the parts up to the first that is missing. */
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

/** The tools of a part that can be shown, and the number of the others. */
function readable(list) {
  const tools = list
    .filter((tool) => isObject(tool) && typeof tool.name === 'string')
    .map((tool) => ({ ...tool, description: typeof tool.description === 'string' ? tool.description : '' }));
  return { tools, skipped: list.length - tools.length };
}

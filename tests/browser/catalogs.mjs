// Made-up tools, as the server describes them to the page.
import { createHash } from 'node:crypto';

/** What the server says of a tool beside its description. */
export const meta = (source, tier, more = {}) => ({
  'toolcrib/toolId': `mcp:${source}.${tier}`,
  'toolcrib/source': 'mcp',
  'toolcrib/sourceId': source,
  'toolcrib/tier': tier,
  'toolcrib/approval': 'never',
  'toolcrib/scopes': ['demo:read'],
  ...more,
});

const TIERS = ['read', 'write', 'exec', 'pure'];

/** Returns tools of 40 sources with descriptions of usual length. */
export const manyTools = (count) =>
  Array.from({ length: count }, (_, at) => ({
    name: `source${at % 40}__tool_${at}`,
    description: `Does the thing number ${at} for a source, with a description of usual length.`,
    annotations: at % 7 === 0 ? { destructiveHint: true } : {},
    _meta: meta(`source${at % 40}`, TIERS[at % 4], { 'toolcrib/toolId': `mcp:s.${at}` }),
  }));

/** Tools in a part of the stand-in for the list. */
const PART = 200;

/**
 * Answers the requests of a page for the list with the tools that `list` returns. Returns the tags of the
 * parts that the page has loaded since, which grow; `gate` is awaited before each of them.
 */
export async function serveTools(page, list, gate = async () => {}) {
  const loaded = [];
  const parts = () => {
    const tools = list();
    const found = [];
    for (let at = 0; at < tools.length || found.length === 0; at += PART) {
      const part = tools.slice(at, at + PART);
      found.push({ tag: createHash('sha256').update(JSON.stringify(part)).digest('hex'), count: part.length, tools: part });
    }
    return found;
  };
  await page.route(/\/explorer\/catalog$/, (route) => {
    const described = parts().map((part, at) => (at === 0 ? part : { ...part, tools: undefined }));
    return route.fulfill({ json: { total: list().length, parts: described } });
  });
  await page.route(/\/explorer\/catalog\/\w+$/, async (route) => {
    const tag = route.request().url().split('/').at(-1);
    loaded.push(tag);
    await gate();
    const part = parts().find((it) => it.tag === tag);
    return part ? route.fulfill({ json: part.tools }) : route.fulfill({ status: 404, json: { error: 'no such part' } });
  });
  return loaded;
}

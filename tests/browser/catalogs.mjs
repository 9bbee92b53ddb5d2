// Made-up tools, as the server describes them to the page.

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

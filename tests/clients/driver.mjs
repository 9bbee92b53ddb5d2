// What the TypeScript drivers share: arguments, package lookup and the one line of output.
//
//   node DRIVER URL [TOOL [ARGUMENTS_JSON [MODE]]]
//
// TOOLCRIB_KEY          bearer key, sent when set
// TOOLCRIB_CLIENTS_DIR  the folder whose node_modules holds the SDKs
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [url, tool, args, mode] = process.argv.slice(2);
if (!url) {
  console.error('usage: node DRIVER URL [TOOL [ARGUMENTS_JSON [MODE]]]');
  process.exit(2);
}

export const options = {
  url: new URL(url),
  tool: tool || undefined,
  arguments: args ? JSON.parse(args) : {},
  mode: mode || 'legacy',
};

/** Request settings of every HTTP request of the client. */
export const requestInit = process.env.TOOLCRIB_KEY
  ? { headers: { authorization: `Bearer ${process.env.TOOLCRIB_KEY}` } }
  : {};

// The packages live outside the tree, so a bare `import` would not find them.
const folder = process.env.TOOLCRIB_CLIENTS_DIR ?? import.meta.dirname;
export const load = createRequire(join(folder, 'package.json'));

/** Lists every page, calls the tool if there is one, prints the outcome as one JSON line. */
export async function drive(client, callTool, protocolVersion) {
  const tools = [];
  let cursor;
  // A server that hands out cursors for ever must not hold a test for ever.
  for (let page = 0; page < 100; page += 1) {
    const listed = await client.listTools(cursor ? { cursor } : undefined);
    tools.push(...listed.tools.map((found) => found.name));
    cursor = listed.nextCursor;
    if (!cursor) break;
  }
  const progress = [];
  const result = options.tool
    ? await callTool({ name: options.tool, arguments: options.arguments }, (step) => progress.push(step))
    : null;
  const line = { protocolVersion: protocolVersion(), tools, result, progress };
  await client.close();
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Runs a driver; a failure is one line on stderr and exit code 1. */
export function main(run) {
  run().then(
    () => process.exit(0),
    (error) => {
      console.error(`${error?.name ?? 'Error'}: ${error?.message ?? error}${error?.code ? ` (code ${error.code})` : ''}`);
      process.exit(1);
    },
  );
}

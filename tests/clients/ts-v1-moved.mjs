// Calls a tool through the TypeScript SDK of the handshake era (@modelcontextprotocol/sdk 1.x) in the
// session of another server, and then in a new one, as MCP requires of a client that gets a 404.
//
//   node ts-v1-moved.mjs URL TOOL ARGUMENTS_JSON OTHER_URL
//
// TOOLCRIB_OTHER_KEY is the bearer key of the other server. Prints the status of the refused call, the
// number of sessions and the result.
import { load, main, options, requestInit } from './driver.mjs';

const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');

main(async () => {
  const call = { name: options.tool, arguments: options.arguments };
  const connected = async (url, settings) => {
    const client = new Client({ name: 'toolcrib-test-ts-v1', version: '1.0.0' });
    const transport = new StreamableHTTPClientTransport(new URL(url), settings);
    await client.connect(transport);
    return { client, transport };
  };
  const first = await connected(options.url, { requestInit });
  await first.client.callTool(call);
  const { sessionId } = first.transport;

  const other = { headers: { authorization: `Bearer ${process.env.TOOLCRIB_OTHER_KEY}` } };
  // With a session, the SDK sends no `initialize`.
  const moved = await connected(options.mode, { requestInit: other, sessionId });
  const refused = await moved.client.callTool(call).then(
    () => 200,
    (error) => error.code,
  );
  const fresh = await connected(options.mode, { requestInit: other });
  const result = await fresh.client.callTool(call);
  const sessions = new Set([sessionId, fresh.transport.sessionId]).size;
  for (const { client } of [first, moved, fresh]) await client.close();
  process.stdout.write(`${JSON.stringify({ refused, sessions, result })}\n`);
});

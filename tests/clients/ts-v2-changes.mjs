// Waits for one change of the list through the current TypeScript SDK, whose `listChanged` opens the
// stream of the session or the subscription by itself. MODE as in ts-v2.mjs.
//
//   node ts-v2-changes.mjs URL '' '' MODE
//
// Prints a line once it listens, and one with the tools once it has heard.
import { load, main, options, requestInit } from './driver.mjs';

const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');

const line = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

main(async () => {
  const mode = ['legacy', 'auto'].includes(options.mode) ? options.mode : { pin: options.mode };
  let heard;
  const change = new Promise((resolve, reject) => {
    heard = (error, tools) => (error ? reject(error) : resolve(tools));
  });
  const client = new Client(
    { name: 'toolcrib-test-ts-v2', version: '1.0.0' },
    { versionNegotiation: { mode }, listChanged: { tools: { onChanged: heard } } },
  );
  await client.connect(new StreamableHTTPClientTransport(options.url, { requestInit }));
  const before = await client.listTools();
  line({ listening: before.tools.map((tool) => tool.name) });
  const tools = await change;
  line({ changed: tools.map((tool) => tool.name) });
  await client.close();
});

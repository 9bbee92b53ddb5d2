// Lists and calls through the TypeScript SDK of the handshake era (@modelcontextprotocol/sdk 1.x).
import { drive, load, main, options, requestInit } from './driver.mjs';

const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');

main(async () => {
  const client = new Client({ name: 'toolcrib-test-ts-v1', version: '1.0.0' });
  const transport = new StreamableHTTPClientTransport(options.url, { requestInit });
  await client.connect(transport);
  await drive(
    client,
    (params, onprogress) => client.callTool(params, undefined, { onprogress }),
    () => transport.protocolVersion,
  );
});

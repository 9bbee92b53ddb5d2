// Lists and calls through the current TypeScript SDK (@modelcontextprotocol/client 2.x), in the era
// that MODE names: `legacy`, `auto`, or a protocol version to pin, such as `2026-07-28`.
import { drive, load, main, options, requestInit } from './driver.mjs';

const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');

main(async () => {
  const mode = ['legacy', 'auto'].includes(options.mode) ? options.mode : { pin: options.mode };
  const client = new Client(
    { name: 'toolcrib-test-ts-v2', version: '1.0.0' },
    { versionNegotiation: { mode } },
  );
  await client.connect(new StreamableHTTPClientTransport(options.url, { requestInit }));
  await drive(
    client,
    (params, onprogress) => client.callTool(params, { onprogress }),
    () => client.getNegotiatedProtocolVersion(),
  );
});

// Lists and calls through `mcp-remote`, which signs a person in for a client that knows only stdio.
//
//   node remote.mjs URL TOOL ARGUMENTS_JSON
//
// `mcp-remote` writes the address for the browser to standard error, and keeps its files in
// MCP_REMOTE_CONFIG_DIR.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { drive, load, main, options } from './driver.mjs';

const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = load('@modelcontextprotocol/sdk/client/stdio.js');

const folder = join(process.env.TOOLCRIB_CLIENTS_DIR, 'node_modules', 'mcp-remote');
const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));

main(async () => {
  const client = new Client({ name: 'toolcrib-test-remote', version: '1.0.0' });
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [join(folder, bin['mcp-remote']), options.url.href, '--allow-http', '--transport', 'http-only', '--auth-timeout', '60'],
      env: process.env,
      stderr: 'inherit',
    }),
  );
  await drive(
    client,
    (params, onprogress) => client.callTool(params, undefined, { onprogress }),
    () => client.getServerVersion()?.name,
  );
});

// The same call from other clients. A snippet shows `$TOOLCRIB_KEY` in place of the key, so that it
// can be shared safely; the key itself is copied only on request.
import { html, Copy, useState } from '../lib/ui.js';
import { quote } from '../lib/command-line.js';
import { classification } from '../lib/danger.js';
import { Tabs } from '../lib/tabs.js';
import { hasGateway } from '../shell/session.js';
import { state } from '../state.js';
import { authorization, otcToolId, toolPath } from '../api.js';
import { pretty } from '../json.js';

const MCP_VERSION = '2026-07-28';

function authHeader(real) {
  const value = authorization();
  if (value === undefined) return [];
  return [
    real ? `-H ${quote(`Authorization: ${value}`)}` : '-H "Authorization: Bearer $TOOLCRIB_KEY"',
  ];
}

function curl(url, headers, body, real) {
  return [
    `curl -sS -X POST ${quote(url)}`,
    "-H 'Content-Type: application/json'",
    ...headers,
    ...authHeader(real),
    `-d ${quote(body)}`,
  ].join(' \\\n  ');
}

export function explorerCurl(name, args, real) {
  return curl(new URL(`${toolPath(name)}/call`, location.origin).href, [], args, real);
}

export function otcCurl(toolId, args, real) {
  const body = `{"$schema":"otc://1.0","request":{"tool_id":${JSON.stringify(toolId)},"input":${args}}}`;
  return curl(`${location.origin}/tools/call`, [], body, real);
}

export function mcpCurl(name, args, real) {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': MCP_VERSION,
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":${JSON.stringify(name)},"arguments":${args},"_meta":${JSON.stringify(meta)}}}`;
  const headers = [
    'Accept: application/json, text/event-stream',
    `MCP-Protocol-Version: ${MCP_VERSION}`,
    'Mcp-Method: tools/call',
    `Mcp-Name: ${headerText(name)}`,
  ];
  return curl(
    `${location.origin}/mcp`,
    headers.map((header) => `-H ${quote(header)}`),
    body,
    real,
  );
}

/** MCP's encoding of a header value with other characters than visible ASCII. */
function headerText(text) {
  if (/^[\x21-\x7e]+$/.test(text) && !text.startsWith('=?')) return text;
  return `=?base64?${btoa(String.fromCharCode(...new TextEncoder().encode(text)))}?=`;
}

function clientConfig(real) {
  const value = authorization();
  const headers =
    value === undefined ? undefined : { Authorization: real ? value : 'Bearer ${TOOLCRIB_KEY}' };
  return pretty({
    mcpServers: { toolcrib: { type: 'http', url: `${location.origin}/mcp`, headers } },
  });
}

/** Python without packages. The arguments are a quoted JSON text, because JSON is not Python. */
export function pythonCall(name, args, real) {
  const value = authorization();
  const key = real ? pythonText(value ?? '') : undefined;
  const auth =
    value === undefined
      ? ''
      : key === undefined
        ? `\n        "Authorization": "Bearer " + os.environ["TOOLCRIB_KEY"],`
        : `\n        "Authorization": ${key},`;
  return `import json, os, urllib.request

request = urllib.request.Request(
    ${pythonText(new URL(`${toolPath(name)}/call`, location.origin).href)},
    data=${pythonText(args)}.encode(),
    headers={
        "Content-Type": "application/json",${auth}
    },
)
with urllib.request.urlopen(request) as response:
    print(json.load(response)["content"])
`;
}

/** A literal of both Python and JavaScript: JSON with all characters outside ASCII escaped. */
function pythonText(text) {
  return JSON.stringify(text).replace(
    /[\u007f-\uffff]/g,
    (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

export function typescriptCall(name, args, real) {
  const value = authorization();
  const key = real ? pythonText(value ?? '') : '`Bearer ${process.env.TOOLCRIB_KEY}`';
  const auth = value === undefined ? '' : `\n    Authorization: ${key},`;
  return `const response = await fetch(${pythonText(new URL(`${toolPath(name)}/call`, location.origin).href)}, {
  method: "POST",
  headers: {
    "Content-Type": "application/json",${auth}
  },
  body: ${pythonText(args)},
});
const { content, isError } = await response.json();
console.log(isError, content);
`;
}

/** The Code tab. `args` are the arguments as compact JSON, or undefined. */
export function Snippets({ tool, args = '{}' }) {
  const { otcId } = classification(tool);
  // `null`: this server does not have the tool. undefined: it is not known yet.
  const [toolId, setToolId] = useState(otcId);
  const [open, setOpen] = useState('curl');
  const onOpen = async (id) => {
    setOpen(id);
    if (id !== 'otc' || toolId !== undefined) return;
    try {
      setToolId((await otcToolId(tool.name)) ?? null);
    } catch {
      // No reply: retried when the tab is shown again.
    }
  };
  const kinds = [
    {
      id: 'curl',
      label: 'cURL',
      note: 'This explorer’s own endpoint.',
      text: (real) => explorerCurl(tool.name, args, real),
    },
    {
      id: 'otc',
      label: 'Open Tool Calling',
      note: 'OTC 1.0 at the server’s root.',
      text: (real) =>
        toolId === undefined
          ? 'Looking up the tool id…'
          : toolId === null
            ? 'This server has no Open Tool Calling tool with this name at /tools.'
            : otcCurl(toolId, args, real),
    },
    {
      id: 'mcp',
      label: 'MCP',
      note: `One stateless request, protocol ${MCP_VERSION}.`,
      text: (real) => mcpCurl(tool.name, args, real),
    },
    {
      id: 'python',
      label: 'Python',
      note: 'Python 3 without packages.',
      text: (real) => pythonCall(tool.name, args, real),
    },
    {
      id: 'typescript',
      label: 'TypeScript',
      note: 'Node.js 20 or newer, Deno, Bun.',
      text: (real) => typescriptCall(tool.name, args, real),
    },
    {
      id: 'client',
      label: 'MCP client',
      note: 'Configuration for clients that read mcpServers.',
      text: clientConfig,
    },
  ]
    // Another program serves only the explorer's own endpoints.
    .filter(({ id }) => hasGateway || ['curl', 'python', 'typescript'].includes(id));
  return html`<div class="sheet">
    <${Tabs} label="Snippet kinds" open=${open} onOpen=${onOpen}
      tabs=${kinds.map((kind) => ({ ...kind, style: 'outcome-body', view: () => html`<${Snippet} kind=${kind} />` }))} />
  </div>`;
}

function Snippet({ kind }) {
  return html`
    <div class="block-head">
      <span class="muted">${kind.note}</span>
      <${Copy} text=${() => kind.text(false)} />
      ${state.token !== '' && html`<${Copy} text=${() => kind.text(true)} label="Copy with key" />`}
    </div>
    <pre class="code" tabindex="0">${kind.text(false)}</pre>`;
}

// The client of the MCP conformance suites: `toolcrib mcp` over the server that a suite has started.
// It lists the tools and calls each of them, or makes the calls that the suite asks for.
//
//   node suite-client.mjs [--key=value ...] URL
//
// TOOLCRIB is the program. The suite sets MCP_CONFORMANCE_CONTEXT.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const url = process.argv.at(-1);
const folder = mkdtempSync(join(tmpdir(), "suite-client-"));
const config = join(folder, "toolcrib.toml");
writeFileSync(
  config,
  `[[source]]\nid = "suite"\nkind = "mcp"\nurl = ${JSON.stringify(url)}\nnames = "bare"\n`,
);

const host = spawn(process.env.TOOLCRIB, ["mcp", "--config", config], {
  stdio: ["pipe", "pipe", "inherit"],
});
const waiting = new Map();
createInterface({ input: host.stdout }).on("line", (line) => {
  const message = JSON.parse(line);
  waiting.get(message.id)?.(message);
});

let lastId = 0;
function request(method, params) {
  const id = ++lastId;
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": { elicitation: {}, sampling: {}, roots: {} },
  };
  const answered = new Promise((resolve) => waiting.set(id, resolve));
  host.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, _meta } })}\n`);
  return answered;
}

// Something that the schema takes, as far as the suites' tools need it.
function sample(schema = {}) {
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  switch (schema.type) {
    case "object":
      return Object.fromEntries(
        (schema.required ?? []).map((key) => [key, sample(schema.properties?.[key])]),
      );
    case "array":
      return [];
    case "boolean":
      return true;
    case "integer":
    case "number":
      return 1;
    default:
      return "x";
  }
}

function input({ method, params }) {
  if (method === "elicitation/create") {
    return { action: "accept", content: sample(params.requestedSchema) };
  }
  if (method === "roots/list") return { roots: [] };
  return { role: "assistant", model: "none", content: { type: "text", text: "x" } };
}

async function call(params) {
  let { result, error } = await request("tools/call", params);
  for (let round = 0; result?.resultType === "input_required" && round < 10; round++) {
    const asked = Object.entries(result.inputRequests ?? {});
    const inputResponses = Object.fromEntries(asked.map(([key, ask]) => [key, input(ask)]));
    const { requestState } = result;
    ({ result, error } = await request("tools/call", { ...params, inputResponses, requestState }));
  }
  console.log(params.name, JSON.stringify(result ?? error));
}

// What a scenario wants to have called: the calls that it names, or each tool once.
function calls(tools) {
  const { toolCalls } = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
  // A value of null is no value where the schema has no place for it, and would be refused.
  const known = ({ name, arguments: args }) => ({
    name,
    arguments: Object.fromEntries(Object.entries(args).filter(([, value]) => value !== null)),
  });
  if (toolCalls) return toolCalls.map(known);
  const schemas = Object.fromEntries(tools.map(({ name, inputSchema }) => [name, inputSchema]));
  return tools.map(({ name, inputSchema }) => ({
    name,
    // This one wants to see what became of another's schema.
    arguments:
      name === "json_schema_echo"
        ? { schema: schemas.json_schema_2020_12_tool }
        : sample(inputSchema),
  }));
}

const listed = await request("tools/list", {});
const { tools } = listed.result;
console.log("tools", tools.map(({ name }) => name).join(" "));
for (const params of calls(tools)) await call(params);

// Beside the calls, lists of resources and prompts are counted. The suite checks these requests, too.
await new Promise((resolve) => setTimeout(resolve, 1_000));
host.stdin.end();
await new Promise((resolve) => host.on("exit", resolve));
rmSync(folder, { recursive: true });

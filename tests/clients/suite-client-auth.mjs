// The client of the scenarios `auth/*` of the MCP conformance suites: `toolcrib serve` over the server
// that a suite has started, with an account that is connected as a person does it in a browser. It
// lists the tools and calls each of them, and connects again where a call asks for it.
//
//   node suite-client-auth.mjs [--key=value ...] URL
//
// TOOLCRIB is the program. The suite sets MCP_CONFORMANCE_CONTEXT, which can have a client.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const url = process.argv.at(-1);
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const folder = mkdtempSync(join(tmpdir(), "suite-client-"));
const program = process.env.TOOLCRIB;
writeFileSync(join(folder, "seal.key"), Buffer.alloc(32, 7).toString("base64"), { mode: 0o600 });
writeFileSync(join(folder, "client.secret"), context.client_secret ?? "none", { mode: 0o600 });
const { client_id: id, issuer } = context;
const client = id
  ? `client_id = ${JSON.stringify(id)}\nclient_secret = { file = "client.secret" }\nissuer = ${JSON.stringify(issuer)}\n`
  : "";
writeFileSync(
  join(folder, "toolcrib.toml"),
  `[server]
listen = "127.0.0.1:0"
public_url = "https://crib.example"
[store]
seal_key = { file = "seal.key" }
[[source]]
id = "suite"
kind = "mcp"
url = ${JSON.stringify(url)}
tenants = ["default"]
allow = ["localhost"]
[source.oauth]
of = "tenant"
${client}[source.tools."*"]
scopes = ["suite:use"]
safety_tier = "read"
`,
);
const made = execFileSync(
  program,
  ["keys", "create", "--json", "--name", "suite", "--principal", "ann", "--scope", "*"],
  { cwd: folder },
);
const { key } = JSON.parse(made);

const host = spawn(program, ["serve"], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
const address = await new Promise((resolve) => {
  createInterface({ input: host.stdout }).on("line", (line) => {
    if (line.startsWith("listening on ")) resolve(line.slice("listening on ".length));
  });
});

async function ask(path, body, headers = {}) {
  const response = await fetch(`${address}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, json: await response.json() };
}

// What a browser does between the two pages of the console.
async function connect() {
  const begun = await ask("/v1/connections/begin", { source: "suite", tenant: true });
  if (begun.status !== 200) throw new Error(JSON.stringify(begun.json));
  const cookie = begun.headers.get("set-cookie").split(";")[0];
  const back = await fetch(begun.json.address, { redirect: "manual" });
  const brought = new URL(back.headers.get("location"), begun.json.address).searchParams;
  const body = { source: "suite" };
  for (const name of ["state", "code", "iss", "error"]) {
    if (brought.has(name)) body[name] = brought.get(name);
  }
  const finished = await ask("/v1/connections/finish", body, { cookie });
  if (finished.status !== 200) throw new Error(JSON.stringify(finished.json));
}

// The tools of the source. If the service refuses the account meanwhile, or wants more scopes, it is
// connected again.
async function tools() {
  for (let tries = 0; tries < 200; tries++) {
    const { json } = await ask("/v1/tools");
    if (json.length > 0) return json;
    const listed = await ask("/v1/connections?all=true");
    const { connections } = listed.json;
    if (connections.some((it) => it.state === "needs_consent" || it.missingScopes?.length)) {
      await connect();
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return [];
}

async function call(tool) {
  const name = tool.toolId.replace(/^mcp:/, "").replace(".", "__");
  return ask(`/explorer/tools/${name}/call`, {});
}

try {
  await connect();
  for (const tool of await tools()) {
    let { status, json } = await call(tool);
    if (json.details?.connection === "required") {
      await connect();
      ({ status, json } = await call(tool));
    }
    console.log(tool.toolId, status, JSON.stringify(json));
  }
} catch (error) {
  console.error(String(error));
  process.exitCode = 1;
} finally {
  host.kill();
  rmSync(folder, { recursive: true, force: true });
}

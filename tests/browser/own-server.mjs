// A toolcrib server with a configuration of the test, on a free port of this machine.
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPage, signIn } from './lib.mjs';

export const program = process.env.TOOLCRIB_PROGRAM;
if (!program) {
  console.error('TOOLCRIB_PROGRAM is not set: it is the path of the program');
  process.exit(2);
}

/** Without the address of another server, which commands would use. */
const env = { ...process.env };
delete env.TOOLCRIB_URL;

/** Starts a server with a source whose tool `wipe` needs approvals; `rule` is for it, `more` are other tables. */
export async function startShop(rule = '', more = '') {
  const config = `[store]
seal_key = { file = "seal.key" }

[approvals]
show_arguments = true
timeout = "1h"

[[source]]
id = "shop"
kind = "mcp"
command = [${JSON.stringify(program)}, "demo-upstream"]

[source.tools."*"]
scopes = ["shop:use"]

[source.tools."wipe"]
scopes = ["shop:use"]
approval = "always"
${rule}
${more}`;
  const server = await startServer(config, { 'seal.key': randomBytes(32).toString('base64') });
  /** Makes a key of a principal of this name. */
  const keyOf = (name, scopes, tenant = 'default') =>
    server.key('--name', name, '--principal', name, '--tenant', tenant, ...scopes.flatMap((it) => ['--scope', it]));
  return { ...server, keyOf };
}

/** Opens the page of a server at an address and signs in. What the page complains of is added at its end. */
export async function openSignedIn(browser, url, address, key, complaints, options = {}) {
  const opened = await openPage(browser, options);
  await opened.page.goto(`${url}/explorer${address}`);
  await signIn(opened.page, key);
  return { page: opened.page, close: () => (complaints.push(...opened.complaints), opened.close()) };
}

/** Starts a server, in a folder with these files. Returns {url, folder, key, log, stop}; `key(…)` makes a key. */
export async function startServer(config, files = {}, listen = '127.0.0.1:0') {
  const folder = mkdtempSync(join(tmpdir(), 'toolcrib-browser-'));
  for (const [name, text] of Object.entries({ ...files, 'toolcrib.toml': config }))
    writeFileSync(join(folder, name), text, { mode: 0o600 });
  const child = spawn(program, ['serve', '--listen', listen], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  const url = await new Promise((resolve, reject) => {
    const read = (data) => {
      log += data;
      const found = /listening on (http:\/\/[\d.:]+)/.exec(log);
      if (found) resolve(found[1]);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.on('exit', (code) => reject(new Error(`the server ended with ${code}: ${log}`)));
  });
  return {
    url,
    folder,
    log: () => log,
    key: (...words) =>
      execFileSync(program, ['keys', 'create', ...words], {
        cwd: folder,
        env,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      })
        .match(/tc_[\w-]+/)[0],
    stop: async () => {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.removeAllListeners('exit');
      child.once('exit', () => {});
      child.kill('SIGTERM');
      await Promise.race([ended, new Promise((resolve) => child.once('exit', resolve))]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

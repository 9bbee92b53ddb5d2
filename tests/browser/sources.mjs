// Sources and Access for people who may change the configuration, against a server with a file of its
// own, which this script starts.
//
//   TOOLCRIB_PROGRAM=target/debug/toolcrib node sources.mjs
//
// With SCREENSHOTS=FOLDER it also saves a picture of each screen.
import { spawn, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { check, equal, finish, launch, openPage, signIn, truthy, until } from './lib.mjs';

const program = process.env.TOOLCRIB_PROGRAM;
if (!program) {
  console.error('TOOLCRIB_PROGRAM is not set');
  process.exit(2);
}
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const folder = mkdtempSync(path.join(tmpdir(), 'toolcrib-sources-'));
const file = path.join(folder, 'toolcrib.toml');
const SERVED = `# The tools of the team.
[server]
listen = "127.0.0.1:0"

# Reviewed by Ada.
[[source]]
id = "demo"
kind = "mcp"
command = [${JSON.stringify(program)}, "demo-upstream"]

[source.env]
LOG_LEVEL = "canary-of-the-environment"

# The help desk.
[[role]]
name = "support"
scopes = ["tools:none"]

[toolset.work]
allow = ["demo__*"]
`;
/** Answers for a server that has more than tools. */
const MORE = {
  initialize: {
    protocolVersion: '2025-11-25',
    serverInfo: { name: 'more', version: '1' },
    capabilities: { tools: {}, resources: {}, prompts: {} },
    instructions: 'Look first.',
  },
  'tools/list': {
    tools: [
      { name: 'look', inputSchema: { type: 'object' }, _meta: { ui: { resourceUri: 'ui://look' } } },
      { name: 'refresh', inputSchema: { type: 'object' }, _meta: { ui: { visibility: ['app'] } } },
    ],
  },
  'resources/list': { resources: [{ uri: 'ui://look', name: 'look' }] },
  'prompts/list': { prompts: [] },
};
writeFileSync(
  path.join(folder, 'more.mjs'),
  `import { createInterface } from 'node:readline';
const answers = ${JSON.stringify(MORE)};
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  const result = answers[method];
  const error = { code: -32601, message: 'unknown method' };
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }));
});
`,
);
writeFileSync(file, SERVED);
const env = { PATH: process.env.PATH, HOME: folder };
const key = (name, ...scopes) =>
  JSON.parse(
    execFileSync(program, ['keys', 'create', '--json', '--name', name, ...scopes.flatMap((it) => (it.startsWith('role=') ? ['--role', it.slice(5)] : ['--scope', it]))], {
      cwd: folder,
      env,
    }),
  ).key;
const KEYS = {
  operator: key('operator', 'config:write', 'sources:*', 'roles:read', 'keys:manage', 'pins:approve', 'audit:read', 'tools:*'),
  // Everything but the scope that has to be named.
  admin: key('admin', '*'),
  owner: key('owner', '*', 'config:write'),
  auditor: key('auditor', 'roles:read', 'sources:read'),
  support: key('support', 'role=support'),
};
const server = spawn(program, ['serve'], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
let log = '';
server.stderr.on('data', (data) => (log += data));
const url = await new Promise((resolve, reject) => {
  let out = '';
  server.stdout.on('data', (data) => {
    out += data;
    const found = /listening on (\S+)/.exec(out);
    if (found) resolve(found[1]);
  });
  server.on('exit', () => reject(new Error(`the server ended: ${log}`)));
}).catch((error) => {
  console.error(error.message);
  process.exit(1);
});

const browser = await launch();
const complaints = [];
const api = async (role, address) => {
  const reply = await fetch(`${url}${address}`, { headers: { Authorization: `Bearer ${KEYS[role]}` } });
  return { status: reply.status, data: await reply.json() };
};

/** Opens the page as one of the callers, at an address. */
async function as(role, address = '', options = {}) {
  const opened = await openPage(browser, options);
  const { page } = opened;
  await page.goto(`${url}/explorer${address}`);
  await signIn(page, KEYS[role]);
  return { page, close: () => (complaints.push(...opened.complaints), opened.close()) };
}

/** What a person does with the mouse, counted. Typing goes into the field that has the focus. */
function counter(page) {
  const counted = {
    clicks: 0,
    async click(selector) {
      await page.click(selector);
      counted.clicks += 1;
    },
    async type(text) {
      await page.keyboard.type(text);
    },
    /** A list is opened and one line of it chosen. */
    async choose(selector, value) {
      await page.selectOption(selector, value);
      counted.clicks += 2;
    },
  };
  return counted;
}

const picture = async (page, name) => {
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/${name}.png` });
};

await until('the tools of the first source', async () => {
  const { data } = await api('operator', '/v1/tools');
  return Array.isArray(data) && data.length === 6;
});

await check('the page of a source says what it has that is not offered', async () => {
  const more = `
[[source]]
id = "more"
kind = "mcp"
command = [${JSON.stringify(process.execPath)}, "more.mjs"]
`;
  writeFileSync(file, SERVED + more);
  await until('the counts of the source', async () => {
    const { data } = await api('operator', '/v1/sources');
    return data.sources?.find((it) => it.id === 'more')?.notOffered;
  });
  const { page, close } = await as('operator', '#/sources/more');
  await page.waitForSelector('[data-not-offered]');
  equal(
    await page.textContent('[data-not-offered]'),
    '1 resource, instructions (11 characters), _meta of 1 tool',
  );
  equal(
    await page.textContent('[data-notes] li'),
    'tool refresh is left out: it is for MCP Apps only, which are not offered',
  );
  await close();
  writeFileSync(file, SERVED);
  await until('the first source alone', async () => {
    const { data } = await api('operator', '/v1/sources');
    return data.sources?.length === 1;
  });
});

await check('a tool that returns to an earlier form stays approved where both were kept', async () => {
  // One description in turns: the child reads it at its start.
  const wording = path.join(folder, 'wording.txt');
  writeFileSync(
    path.join(folder, 'turns.mjs'),
    `import { createInterface } from 'node:readline';
import { readFileSync } from 'node:fs';
const tools = () => [{ name: 'plan', description: readFileSync('wording.txt', 'utf8'), inputSchema: { type: 'object' } }];
const answers = {
  initialize: () => ({ protocolVersion: '2025-11-25', serverInfo: { name: 'turns', version: '1' }, capabilities: { tools: {} } }),
  'tools/list': () => ({ tools: tools() }),
};
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  console.log(JSON.stringify({ jsonrpc: '2.0', id, result: answers[method]?.() ?? {} }));
});
`,
  );
  writeFileSync(wording, 'Plans a day.');
  writeFileSync(
    file,
    `${SERVED}
[[source]]
id = "turns"
kind = "mcp"
pins = "enforce"
refresh = "1s"
command = [${JSON.stringify(process.execPath)}, "turns.mjs"]
`,
  );
  const pin = async (state) =>
    until(`the pin as ${state}`, async () => {
      const { data } = await api('operator', '/v1/pins');
      return data.pins?.find((it) => it.toolId === 'mcp:turns.plan' && it.state === state);
    });
  await pin('approved');
  writeFileSync(wording, 'Plans a week.');
  await pin('changed');
  const { page, close } = await as('operator', '#/sources/turns');
  const card = page.locator('[data-pin="mcp:turns.plan"]');
  const keep = card.locator('[data-approve-also]');
  await keep.waitFor();
  equal(await keep.textContent(), 'Approve, and keep the earlier form');
  equal(await keep.isDisabled(), true, 'unread forms cannot be approved');
  await card.getByText('Show what changed').click();
  await card.getByText('"Plans a week."').waitFor();
  await keep.click();
  await page.getByText('Every tool has its approved form.').waitFor();
  // Both forms are approved now, and a third one is not.
  writeFileSync(wording, 'Plans a day.');
  await new Promise((done) => setTimeout(done, 2500));
  equal((await pin('approved')).quarantined, false, 'the earlier form');
  writeFileSync(wording, 'Plans a year.');
  equal((await pin('changed')).quarantined, true, 'another form');
  await close();
  writeFileSync(file, SERVED);
  await until('the first source alone', async () => {
    const { data } = await api('operator', '/v1/sources');
    return data.sources?.length === 1;
  });
});

await check('a person adds an MCP server and gives a team read access in 12 clicks', async () => {
  const { page, close } = await as('operator');
  const hand = counter(page);
  await hand.click('.section[data-section="sources"]');
  await page.waitForSelector('#add-source');
  await hand.click('#add-source');
  await page.waitForFunction(() => document.activeElement?.id === 'source-name');
  await hand.type('files');
  await hand.click('#source-where');
  await hand.type(`${program} demo-upstream`);
  await hand.click('[data-connect]');
  await page.waitForSelector('#source-role');
  await picture(page, 'sources-add-grant');
  await hand.choose('#source-role', 'support');
  await hand.click('[data-continue]');
  await page.waitForSelector('[data-proposal] tr[data-role="support"]');
  await picture(page, 'sources-add-proposal');
  const effect = await page.textContent('[data-proposal] tr[data-role="support"]');
  truthy(/files__/.test(effect), effect);
  truthy(!/files__wipe/.test(effect), `a team that reads would delete: ${effect}`);
  const before = readFileSync(file, 'utf8');
  equal(before, SERVED, 'the file before it is written');
  await hand.click('[data-write]');
  await page.waitForSelector('[data-written]');
  truthy(hand.clicks <= 12, `${hand.clicks} clicks`);
  console.log(`      ${hand.clicks} clicks`);
  const after = readFileSync(file, 'utf8');
  truthy(after.includes('# Reviewed by Ada.') && after.includes('# The help desk.'), after);
  truthy(after.includes('id = "files"') && after.includes('tools:files:read'), after);
  equal(readFileSync(`${file}.bak`, 'utf8'), SERVED, 'the copy');
  await page.keyboard.press('Escape');
  await page.waitForSelector('tr[data-source="files"]');
  const tools = await until('the tools of the team', async () => {
    const { data } = await api('support', '/v1/tools');
    return Array.isArray(data) && data.length > 0 && data;
  });
  const names = tools.map((it) => it.toolId);
  truthy(names.every((it) => it.startsWith('mcp:files.')), names.join());
  truthy(!names.includes('mcp:files.wipe'), names.join());
  await close();
});

await check('the change is in the record, without content', async () => {
  const { data } = await api('operator', '/v1/events?after=0&limit=1000');
  const edits = data.events.map((it) => it.event ?? it).filter((it) => it.type === 'config.edited');
  const written = edits.filter((it) => it.payload.action === 'written');
  equal(written.length, 1, 'written');
  equal(Object.keys(written[0].payload).sort(), ['action', 'after', 'before', 'principal'], 'members');
  truthy(edits.some((it) => it.payload.action === 'previewed'), 'the preview is recorded');
});

await check('the page shows no value of an environment', async () => {
  const { page, close } = await as('operator', '#/sources/demo');
  const texts = [];
  page.on('response', async (reply) => texts.push(await reply.text().catch(() => '')));
  await page.reload();
  await page.fill('#token', KEYS.operator);
  await page.press('#token', 'Enter');
  await page.click('[data-change]');
  await page.waitForSelector('[data-setting="env"]');
  equal(await page.inputValue('[data-setting="env"]'), '{"LOG_LEVEL":"***"}', 'the field');
  equal(await page.isDisabled('[data-setting="env"]'), true, 'a masked field is disabled');
  truthy(!texts.join().includes('canary-of-the-environment'), 'a response has the value');
  await close();
});

await check('a source is changed and the before and after is shown first', async () => {
  const { page, close } = await as('operator', '#/sources/demo');
  await page.click('[data-change]');
  await page.fill('input[aria-label="Another key"]', 'connect_timeout');
  await page.fill('input[aria-label="Its value"]', '45s');
  await page.click('[data-continue]');
  await page.waitForSelector('[data-diff]');
  const diff = await page.textContent('[data-diff]');
  truthy(/connect_timeout = "45s"/.test(diff) && !/LOG_LEVEL/.test(diff), diff);
  await page.click('[data-write]');
  await page.waitForSelector('[data-written]');
  truthy(readFileSync(file, 'utf8').includes('connect_timeout = "45s"'), 'the file');
  await close();
});

await check('a member that is deleted from a table goes from the file', async () => {
  writeFileSync(file, readFileSync(file, 'utf8').replace('command =', 'breaker = { failures = 4, window = "20s" }\ncommand ='));
  const { page, close } = await as('operator', '#/sources/demo');
  const field = 'dialog [data-setting="breaker"]';
  await page.click('[data-change]');
  await page.waitForSelector('dialog');
  if ((await page.locator(field).count()) === 0) throw new Error('the page does not show the setting');
  equal(JSON.parse(await page.inputValue(field)), { failures: 4, window: '20s' }, 'the setting');
  await page.fill(field, '{"failures": 4}');
  await page.click('dialog [data-continue]');
  const diff = await page.textContent('[data-diff]');
  truthy(/- .*window = "20s"/.test(diff), diff);
  await page.click('[data-write]');
  await page.waitForSelector('[data-written]');
  truthy(!/window = "20s"/.test(readFileSync(file, 'utf8')), 'the member is still in the file');
  await close();
});

await check('a value that the checks refuse cannot be written', async () => {
  const { page, close } = await as('operator', '#/sources/demo');
  await page.click('[data-change]');
  await page.fill('input[aria-label="Another key"]', 'commando');
  await page.fill('input[aria-label="Its value"]', 'x');
  await page.click('[data-continue]');
  await page.waitForSelector('[data-proposal] [role=alert]');
  truthy(/commando/.test(await page.textContent('[data-proposal] [role=alert]')), 'the key is named');
  equal(await page.isDisabled('[data-write]'), true, 'the button');
  await close();
});

await check('a file that changed meanwhile is not overwritten', async () => {
  const { page, close } = await as('operator', '#/sources/demo');
  await page.click('[data-add-rule]');
  await page.keyboard.type('echo');
  await page.selectOption('dialog select >> nth=0', 'always');
  await page.click('[data-continue]');
  await page.waitForSelector('[data-diff]');
  writeFileSync(file, `${readFileSync(file, 'utf8')}# By another hand.\n`);
  await page.click('[data-write]');
  await page.getByText('was changed since it was read').waitFor();
  truthy(!/approval/.test(readFileSync(file, 'utf8').split('id = "files"')[0]), 'it was written');
  await page.click('[data-proposal] [role=alert] button');
  await page.waitForSelector('[data-diff]');
  await page.click('[data-write]');
  await page.waitForSelector('[data-written]');
  truthy(readFileSync(file, 'utf8').includes('# By another hand.'), 'the other change is gone');
  await close();
});

await check('proposed rules are shown with their reason, and written one by one', async () => {
  const { page, close } = await as('operator', '#/sources/demo');
  await page.waitForSelector('[data-proposed]');
  const text = await page.textContent('[data-proposed]');
  truthy(/wipe/.test(text) && /approval/i.test(text), text);
  await picture(page, 'sources-rules');
  await page.click('[data-proposed] button');
  await page.waitForSelector('[data-diff]');
  await page.click('[data-write]');
  await page.waitForSelector('[data-written]');
  await until('the rule is in force', async () => {
    const { data } = await api('operator', '/v1/tools/mcp%3Ademo.wipe');
    return data.approval === 'always';
  });
  await close();
});

await check('a rule is changed: a field that is emptied goes, and others stay', async () => {
  const { page, close } = await as('operator', '#/sources/demo');
  const glob = await page.locator('[data-change-rule]').first().getAttribute('data-change-rule');
  const edit = async (scopes) => {
    await page.click(`[data-change-rule="${glob}"]`);
    equal(await page.inputValue('dialog input >> nth=0'), glob, 'the tools of the rule');
    equal(await page.inputValue('dialog select >> nth=0'), 'always', 'the approval of the rule');
    await page.fill('dialog input >> nth=1', scopes);
    await page.click('[data-continue]');
    await page.click('[data-write]');
    await page.waitForSelector('[data-written]');
    await page.keyboard.press('Escape');
  };
  const rule = async () => {
    const { data } = await api('operator', '/v1/config');
    return data.sources.find(({ id }) => id === 'demo').tools[glob];
  };
  await edit('tools:danger');
  equal(await rule(), { approval: 'always', scopes: ['tools:danger'] }, 'the rule');
  await page.getByText('scopes = ["tools:danger"]').waitFor();
  await edit('');
  equal(await rule(), { approval: 'always' }, 'the rule without scopes');
  await close();
});

await check('a source is refreshed now, and not again at once', async () => {
  const { page, close } = await as('operator', '#/sources/files');
  await page.waitForSelector('[data-refresh]');
  const before = (await api('operator', '/v1/sources')).data.sources.find((it) => it.id === 'files');
  await page.click('[data-refresh]');
  await until('a new discovery', async () => {
    const { data } = await api('operator', '/v1/sources');
    return data.sources.find((it) => it.id === 'files').discoveredAt !== before.discoveredAt;
  });
  await page.waitForSelector('[data-refresh]:not([disabled])');
  await page.click('[data-refresh]');
  await page.getByText('refreshed a moment ago').waitFor();
  await close();
});

await check('run times are shown once a tool was called', async () => {
  await fetch(`${url}/tools/call`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${KEYS.operator}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ request: { tool_id: 'files.echo', input: { text: 'a' } } }),
  });
  const { page, close } = await as('operator', '#/sources/files');
  await page.getByText('95 of 100 within').waitFor();
  await picture(page, 'source');
  await close();
});

await check('toolsets are added, changed and removed', async () => {
  const { page, close } = await as('operator', '#/sources');
  await page.click('#add-toolset');
  await page.keyboard.type('reading');
  await page.fill('dialog input >> nth=2', 'files__*');
  await page.click('[data-continue]');
  await page.click('[data-write]');
  await page.waitForSelector('[data-written]');
  await page.keyboard.press('Escape');
  await page.getByText('reading', { exact: true }).waitFor();
  await page.click('[data-change-toolset="reading"]');
  equal(await page.inputValue('dialog input >> nth=2'), 'files__*', 'the tools of the toolset');
  await page.fill('dialog input >> nth=1', 'To read');
  await page.fill('dialog input >> nth=2', 'files__read_* files__list_*');
  await page.click('[data-continue]');
  await page.click('[data-write]');
  await page.waitForSelector('[data-written]');
  await page.keyboard.press('Escape');
  truthy(/\[toolset\.reading\]\ntitle = "To read"\nallow = \["files__read_\*", "files__list_\*"\]|allow = \["files__read_\*", "files__list_\*"\]\ntitle = "To read"/.test(readFileSync(file, 'utf8')), readFileSync(file, 'utf8'));
  await page.locator('tr', { hasText: 'reading' }).getByText('Remove').click();
  await page.click('[data-write]');
  await page.waitForSelector('[data-written]');
  truthy(!readFileSync(file, 'utf8').includes('reading'), 'the toolset is gone');
  await close();
});

await check('roles show what they see, and are changed', async () => {
  const { page, close } = await as('operator', '#/access/roles');
  await page.click('tr[data-role="support"] a');
  await page.waitForSelector('tr[data-tool^="files__"]');
  equal(await page.locator('tr[data-tool="files__wipe"]').count(), 0, 'a tool that deletes');
  await picture(page, 'access-role');
  await page.click('[data-change]');
  await page.fill('dialog textarea', 'tools:*');
  await page.click('[data-continue]');
  await page.waitForSelector('[data-proposal] tr[data-role="support"]');
  truthy(/appear/.test(await page.textContent('[data-proposal]')), 'what appears');
  await page.click('[data-write]');
  await page.waitForSelector('[data-written]');
  await page.keyboard.press('Escape');
  await page.waitForSelector('tr[data-tool="demo__echo"]');
  await page.goto(`${url}/explorer#/access/roles`);
  await page.click('#new-role');
  await page.keyboard.type('<img src=x onerror=alert(1)>');
  await page.fill('dialog textarea', 'tools:files');
  await page.click('[data-continue]');
  await page.click('[data-write]');
  await page.waitForSelector('[data-written]');
  await page.keyboard.press('Escape');
  await page.waitForSelector('tr[data-role^="<img"]');
  equal(await page.locator('img[src="x"]').count(), 0, 'a name became an element');
  await close();
});

await check('whoever cannot give a new role reads who can before it is written, and what to run then', async () => {
  const { page, close } = await as('operator', '#/access/roles');
  await page.click('#new-role');
  await page.keyboard.type('night shift');
  await page.fill('dialog textarea', 'tools:files');
  await page.click('[data-continue]');
  const givers = page.locator('[data-givers="night shift"]');
  await givers.waitFor();
  equal(await page.locator('[data-written]').count(), 0, 'written already');
  const said = (await givers.innerText()).replace(/\s+/g, ' ').trim();
  equal(
    said,
    'Who can give the role night shift You cannot make keys with it. A key can have only roles that its creator has, and the scope * includes every role. admin and owner can, and so can the operator of the server, on its machine.',
    'who can give it',
  );
  await page.click('[data-write]');
  const command = await page.locator('[data-team-command] code').innerText();
  equal(command, "toolcrib keys create --name 'night shift' --principal night-shift --tenant default --role 'night shift'", 'the command');
  equal(await page.locator('[data-team-key]').count(), 0, 'a button that could not work');
  await page.keyboard.press('Escape');
  // The form for a key says the same, and offers no such role.
  await until('the role', async () => JSON.stringify((await api('auditor', '/v1/roles')).data).includes('night shift'));
  await page.click('[data-part="keys"]');
  await page.click('#new-key');
  const others = page.locator('[data-others]');
  await until('the other roles', async () => (await others.innerText()).includes('night shift'));
  truthy(/^You cannot give any role\. You cannot give .*night shift.*: a key can have only roles that its creator has/.test(await others.innerText()), await others.innerText());
  equal(await page.locator('dialog .chip[data-role]').count(), 0, 'roles to choose');
  await close();
});

await check('a server, a new role and a key of the team: its first call after at most 12 clicks', async () => {
  const { page, close } = await as('owner', '#/sources');
  const hand = counter(page);
  await hand.click('#add-source');
  await hand.type('notes');
  await hand.click('#source-where');
  await hand.type(`${program} demo-upstream`);
  await hand.click('[data-connect]');
  await page.waitForSelector('#source-role');
  await hand.choose('#source-role', '+');
  await hand.click('#source-new-role');
  await hand.type('writers');
  await hand.click('[data-continue]');
  await page.locator('[data-givers="writers"]').getByText('You can make keys with it, once it is written.').waitFor();
  await hand.click('[data-write]');
  await picture(page, 'sources-add-written');
  await hand.click('[data-team-key="writers"]');
  // The server applies the file within a moment, and the role is chosen then.
  await page.waitForSelector('dialog .chip[data-role="writers"][aria-pressed="true"]');
  equal(await page.inputValue('dialog input >> nth=0'), 'writers', 'the name of the key');
  await picture(page, 'access-team-key');
  await hand.click('dialog .button.primary');
  const made = await page.locator('[data-new-key]').innerText();
  const headers = { Authorization: `Bearer ${made}`, 'Content-Type': 'application/json' };
  const who = await (await fetch(`${url}/v1/whoami`, { headers })).json();
  equal([who.principal, who.roles], ['writers', ['writers']], 'the key');
  const called = await fetch(`${url}/explorer/tools/notes__echo/call`, { method: 'POST', headers, body: '{"text":"first"}' });
  equal(called.status, 200, 'the first call');
  truthy(hand.clicks <= 12, `${hand.clicks} clicks`);
  console.log(`      ${hand.clicks} clicks`);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => location.hash === '#/access/keys');
  await page.waitForSelector('tr[data-key] a[data-role-link="writers"]');
  await close();
});

await check('a server, a role and a key of its people are added with the keyboard alone', async () => {
  const { page, close } = await as('owner', '#/sources');
  const tabTo = async (selector) => {
    for (let stops = 0; stops < 80; stops += 1) {
      if (await page.evaluate((it) => document.activeElement?.matches(it) === true, selector)) return;
      await page.keyboard.press('Tab');
    }
    throw new Error(`${selector} is not reached`);
  };
  const press = (key) => page.keyboard.press(key);
  await page.waitForSelector('#add-source');
  await tabTo('#add-source');
  await press('Enter');
  await page.waitForFunction(() => document.activeElement?.id === 'source-name');
  await page.keyboard.type('desk');
  await tabTo('#source-where');
  await page.keyboard.type(`${program} demo-upstream`);
  await press('Enter');
  await page.waitForSelector('#source-role');
  await tabTo('#source-role');
  await page.keyboard.type('a new role');
  await tabTo('#source-new-role');
  await page.keyboard.type('clerks');
  await press('Enter');
  await page.waitForSelector('[data-write]:not([disabled])');
  await tabTo('[data-write]');
  await press('Enter');
  await page.waitForSelector('[data-team-key="clerks"]');
  equal(await page.evaluate(() => document.activeElement?.dataset.written), 'true', 'the focus is on the result');
  await tabTo('[data-team-key="clerks"]');
  await press('Enter');
  await page.waitForSelector('dialog .chip[data-role="clerks"][aria-pressed="true"]');
  await tabTo('dialog .button.primary');
  await press('Enter');
  await page.waitForSelector('[data-new-key]');
  await close();
});

await check('a key for a client gets a role that is chosen, and nothing by default', async () => {
  const operator = await as('operator', '#/connect/cursor');
  await operator.page.waitForSelector('.steps input');
  equal(await operator.page.locator('.chip[data-role]').count(), 0, 'roles that the caller does not have');
  await operator.close();
  const { page, close } = await as('admin', '#/connect/cursor');
  equal(await page.inputValue('.steps input'), '', 'what the key may do at first');
  await page.click('.chip[data-role="support"]');
  await page.click('.steps .button.primary');
  await page.waitForSelector('.steps .done');
  const { headers } = JSON.parse(await page.textContent('[data-snippet]')).mcpServers.toolcrib;
  const who = await (await fetch(`${url}/v1/whoami`, { headers })).json();
  equal(who.roles, ['support'], 'the roles of the key');
  await close();
});

await check('who may not edit sees no button for it', async () => {
  for (const role of ['admin', 'auditor']) {
    const { page, close } = await as(role, '#/sources');
    await page.waitForSelector('tr[data-source="demo"]');
    equal(await page.locator('#add-source, #add-toolset').count(), 0, `${role}: buttons`);
    await page.click('tr[data-source="demo"] a');
    await page.waitForSelector('.facts');
    equal(await page.locator('[data-change], [data-remove], [data-add-rule]').count(), 0, role);
    await page.goto(`${url}/explorer#/access/roles`);
    await page.waitForSelector('tr[data-role="support"]');
    equal(await page.locator('#new-role').count(), 0, `${role}: roles`);
    equal((await api(role, '/v1/config')).status, 403, role);
    await close();
  }
});

for (const theme of ['light', 'dark']) {
  for (const width of [1280, 390]) {
    await check(`no accessibility problem while editing, ${theme}, ${width} px`, async () => {
      const options = { colorScheme: theme, viewport: { width, height: 860 }, bypassCSP: true };
      const { page, close } = await as('operator', '', options);
      const look = async (name) => {
        await page.waitForFunction(() => !document.querySelector('.skeleton'));
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => window.axe.run());
        equal(violations.map((it) => `${it.id}: ${it.nodes[0].target}`), [], name);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        truthy(wide <= 0, `${name} is ${wide} px too wide`);
        await picture(page, `${name}-${theme}-${width}`);
      };
      const go = (address) => page.evaluate((it) => (location.hash = it), address);
      await go('#/sources');
      await page.waitForSelector('#add-source');
      await look('edit-sources');
      await page.click('#add-source');
      await look('edit-add');
      await page.keyboard.type('more');
      await page.fill('#source-where', `${program} demo-upstream`);
      await page.click('[data-connect]');
      await page.waitForSelector('#source-role');
      await look('edit-grant');
      await page.selectOption('#source-role', 'support');
      await page.click('[data-continue]');
      await page.waitForSelector('[data-diff]');
      await look('edit-proposal');
      await page.keyboard.press('Escape');
      await go('#/sources/demo');
      await page.waitForSelector('[data-add-rule]');
      await look('edit-source');
      await go('#/access/roles');
      await page.waitForSelector('tr[data-role="support"]');
      await look('edit-roles');
      await go('#/access/roles/support');
      await page.waitForSelector('tr[data-tool]');
      await look('edit-role');
      await close();
    });
  }
}

await check('a source is removed', async () => {
  const { page, close } = await as('operator', '#/sources/files');
  await page.click('[data-remove]');
  await page.waitForSelector('[data-proposal] tr[data-role="support"]');
  truthy(/disappear/.test(await page.textContent('[data-proposal]')), 'what disappears');
  await page.click('[data-write]');
  await page.waitForSelector('[data-written]');
  await page.keyboard.press('Escape');
  await page.getByText('Source not found').waitFor();
  await close();
});

await check('with edit = false the page changes nothing', async () => {
  writeFileSync(file, `${readFileSync(file, 'utf8')}\n[explorer]\nedit = false\n`);
  await until('the routes are gone', async () => (await api('operator', '/v1/config')).status === 404);
  const { page, close } = await as('operator', '#/sources');
  await page.waitForSelector('tr[data-source="demo"]');
  equal(await page.locator('#add-source').count(), 0, 'the button');
  await close();
});

await check('no error, exception or policy violation was reported', async () => {
  // The refused write of a changed file is one on purpose.
  equal(complaints.filter((it) => !/status of (400|409)/.test(it)), [], 'complaints');
});

await browser.close();
server.removeAllListeners('exit');
server.kill('SIGTERM');
await new Promise((done) => server.on('exit', done));
rmSync(folder, { recursive: true, force: true });
finish();

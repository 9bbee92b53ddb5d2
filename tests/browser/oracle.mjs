// Non-disclosure: what the page of a role fetched, receives and shows has nothing that the API does
// not give to that role when it is asked directly.
//
// The secrets are found, not listed: each name, id and description that the API gives to the
// administrators of two tenants, less those that it gives to the role itself. They are searched in
// every answer that the page got, in its stream of changes, its document, title and storage.
//
//   TOOLCRIB_URL=http://127.0.0.1:8808 TOOLCRIB_KEY_ADMIN=tc_… TOOLCRIB_KEY_READER=tc_… \
//     TOOLCRIB_KEY_APPROVER=tc_… TOOLCRIB_KEY_OTHER_TENANT=tc_… node oracle.mjs
import { check, equal, finish, launch, truthy } from './lib.mjs';
import {
  ROLES,
  SCREENS,
  as,
  ask,
  askForApproval,
  callTool,
  checkComplaints,
  goTo,
  keyOf,
  opens,
  settled,
  startRoles,
} from './screens.mjs';

const browser = await launch();
await startRoles();
const mark = `secret${Date.now().toString(36)}`;

/** Lists of the API, and for each of their ids the paths of its details. */
const LISTS = [
  '/v1/whoami',
  '/v1/tools',
  '/explorer/tools',
  '/explorer/catalog',
  '/tools',
  '/oxp/tools',
  '/v1/events?limit=1000',
  '/v1/runs',
  '/v1/sources',
  '/v1/keys',
  '/v1/roles',
  '/v1/sessions',
  '/v1/pins',
  '/v1/approvals?limit=200',
  '/v1/approvals?state=pending',
  '/v1/explain',
];
const DETAILS = {
  toolId: (id) => [`/v1/tools/${id}`, `/v1/pins?tool=${id}`],
  name: (id) => [`/explorer/tools/${id}`, `/v1/explain?tool=${id}`],
  runId: (id) => [`/v1/runs/${id}/events`],
  approvalId: (id) => [`/v1/approvals/${id}`],
};
/** What everyone gets: the page, and how to sign in. */
const PUBLIC = ['/explorer', '/explorer/sign-in'];
/** Details of each kind that are read, the newest: the same are opened in the page. */
const MOST = 12;

/** Everything that the API gives to a role. */
async function given(role) {
  const texts = [];
  const details = new Set();
  // The whole record: filters of the page find older events than the newest ones.
  for (let after = 0; ; ) {
    const { status, text, data } = await ask(role, `/v1/events?after=${after}&limit=1000`);
    if (status !== 200 || data.events.length === 0) break;
    texts.push(text);
    after = data.events.at(-1).position;
  }
  for (const path of LISTS) {
    const { status, text, data } = await ask(role, path);
    if (status !== 200) continue;
    texts.push(text);
    const found = leaves(data).filter(([key]) => Object.hasOwn(DETAILS, key));
    for (const key of Object.keys(DETAILS))
      for (const [, value] of found.filter(([it]) => it === key).slice(-MOST))
        for (const detail of DETAILS[key](encodeURIComponent(value))) details.add(detail);
  }
  const answers = await Promise.all([...details].map((path) => ask(role, path)));
  texts.push(...answers.filter(({ status }) => status === 200).map(({ text }) => text));
  return texts;
}

/** Returns [key, text] of each text in a document. */
function leaves(value, key = '') {
  if (typeof value === 'string') return [[key, value]];
  if (Array.isArray(value)) return value.flatMap((it) => leaves(it, key));
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([name, it]) => [...leaves(it, name), ...(name.includes(mark) ? [['', name]] : [])]);
}

/** Texts that name one thing, and do not occur by chance. */
function telling([key, text]) {
  if (/timestamp|At$|since/.test(key)) return false;
  if (text.includes(mark)) return true;
  if (/^[0-9a-f]{8}-[0-9a-f-]{27}$|^[0-9a-f]{40,}$/.test(text)) return true;
  if (/^[a-z-]+:[\w-]+\.[\w-]+$|^[\w-]+__[\w-]+$/.test(text)) return true;
  return key === 'description' && text.length > 20;
}

const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};
const tellingOf = (texts) => texts.flatMap((text) => leaves(parsed(text)).filter(telling)).map(([, text]) => text);

// Things that only some may know, in both tenants.
for (const [role, name] of [['admin', `${mark}-demo`], ['other', `${mark}-other`]]) {
  const made = await ask(role, '/v1/keys', { name: `${name}-key`, principal: `${name}-principal`, scopes: ['*'] });
  equal(made.status, 201, 'status of a new key');
  const headers = { Authorization: `Bearer ${made.data.key}`, 'Content-Type': 'application/json' };
  const call = (tool, input) =>
    fetch(`${process.env.TOOLCRIB_URL}/explorer/tools/${tool}/call`, { method: 'POST', headers, body: JSON.stringify(input) });
  await call('demo__echo', { text: `${mark}-argument` });
  await call('demo__wipe', { target: `${mark}-hidden-argument` });
  await call('flows__forecast', { city: 'Oslo' });
}
await callTool('caller', 'demo__echo', { text: `${mark}-argument-of-caller` });

const everything = [...(await given('admin')), ...(await given('other'))];
const candidates = new Set(tellingOf(everything));
// No answer of the API has arguments, for any role.
const never = [`${mark}-argument`, `${mark}-hidden-argument`, `${mark}-argument-of-caller`];
// Neither has a key its text, except that of the page itself.
const keyTexts = Object.keys(ROLES).map(keyOf).filter(Boolean);

/** What a role may not see: what the API has, and does not give to it. */
async function secretsOf(role, before = []) {
  const allowed = [...before, ...(await given(role))].join('\n');
  const escaped = (text) => JSON.stringify(text).slice(1, -1);
  // Who knows the id of a tool knows its name.
  const knows = (text) => allowed.includes(escaped(text)) || allowed.includes(`:${text.replace('__', '.')}"`);
  const hidden = [...candidates].filter((text) => !knows(text));
  return [...hidden, ...never, ...keyTexts.filter((key) => key !== keyOf(role))];
}

/** Opens the page and keeps all that it receives. */
async function watched(role, address) {
  const received = [];
  const statuses = [];
  const waiting = [];
  const before = async (page) => {
    page.on('response', (response) => {
      const path = response.url().slice(process.env.TOOLCRIB_URL.length);
      if (path.startsWith('/explorer/assets/') || /text\/event-stream/.test(response.headers()['content-type'] ?? '')) return;
      statuses.push([response.request().method(), path, response.status()]);
      waiting.push(
        response.text().then(
          (text) => received.push([path, text]),
          () => undefined, // cancelled by the page
        ),
      );
    });
    const client = await page.context().newCDPSession(page);
    const streams = new Set();
    const keep = (data) => received.push(['/v1/changes', Buffer.from(data ?? '', 'base64').toString()]);
    client.on('Network.responseReceived', async ({ requestId, response }) => {
      if (response.mimeType !== 'text/event-stream') return;
      streams.add(requestId);
      const { bufferedData } = await client.send('Network.streamResourceContent', { requestId }).catch(() => ({}));
      keep(bufferedData);
    });
    client.on('Network.dataReceived', ({ requestId, data }) => streams.has(requestId) && keep(data));
    await client.send('Network.enable');
  };
  const opened = await as(browser, role, address, { before });
  return { ...opened, received, statuses, all: () => Promise.all(waiting) };
}

/** Everything that a page has: its document, title, fields and storage. */
const shown = (page) =>
  page.evaluate(() =>
    [
      document.documentElement.outerHTML,
      document.body.innerText,
      document.title,
      [...document.querySelectorAll('input, textarea, select')].map((it) => it.value).join('\n'),
      JSON.stringify({ ...localStorage }),
      JSON.stringify({ ...sessionStorage }),
      document.cookie,
    ].join('\n'),
  );

const found = (secrets, where, text) =>
  secrets.filter((it) => text.includes(it) || text.includes(JSON.stringify(it).slice(1, -1))).map((it) => `${where}: ${it}`);

/** Opens each screen of a role, and its parts by the links that it shows. */
async function visit(page, role) {
  const texts = [];
  const keep = async (where) => texts.push([where, await shown(page)]);
  if (role === 'anonymous') {
    for (const { address } of SCREENS) {
      await goTo(page, address);
      await page.waitForSelector('#signin');
      await keep(address);
    }
    return texts;
  }
  for (const screen of SCREENS) {
    await goTo(page, screen.address);
    if (opens(role, screen)) await settled(page, screen);
    else await page.waitForSelector('#screen .empty');
    await keep(screen.address);
    // What the screen links to, and its tabs.
    const links = await page
      .locator('#screen a[href^="#/"]')
      .evaluateAll((all) => [...new Set(all.map((it) => it.getAttribute('href')))].slice(0, 6));
    for (const link of [...links, ...(screen.id === 'approvals' ? ['#/approvals/history'] : [])]) {
      await goTo(page, link);
      if (link.startsWith('#/tools')) await page.waitForSelector('#tools :is(button.item, .notice):not(#loading)');
      else await page.waitForFunction(() => document.querySelector('#screen h2') && !document.querySelector('.skeleton'));
      await keep(link);
    }
  }
  // The palette, and a tool with its tabs.
  await page.keyboard.press('Control+k');
  await page.waitForSelector('.palette');
  await keep('palette');
  await page.keyboard.press('Escape');
  await goTo(page, '#');
  await settled(page, SCREENS[0]);
  if ((await page.locator('button.item').count()) === 0) return texts;
  await page.click('#filter-toggle');
  await keep('filters');
  await page.click('button.item >> nth=0');
  await page.waitForSelector('.tool .tabs');
  for (const tab of ['about', 'schema', 'history', 'snippets', 'why']) {
    await page.click(`.tool [data-tab="${tab}"]`);
    await page.waitForTimeout(200);
    await keep(`tool ${tab}`);
  }
  return texts;
}

/**
 * Follows deep links to what a role may not see. The ids in them are the only trace that may be there.
 * Returns what was found, and the secrets that this person has named.
 */
async function follow(page, role, secrets) {
  const problems = [];
  const named = new Set();
  const pick = (fits) => secrets.find((it) => fits.test(it));
  const tool = pick(/^[\w-]+__[\w-]+$/);
  // The server explains to a caller of the tenant why a tool that it names is not there for it.
  const explained = (await ask(role, `/v1/explain?tool=${tool}`)).text;
  const id = pick(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
  for (const [address, own] of [
    [tool && `#tool=${tool}`, tool],
    [id && `#/approvals/${id}`, id],
    [id && `#/record/run/${id}`, id],
    ['#/sources/demo', undefined],
    [id && `#/access/keys/${id}`, id],
    [id && `#/access/roles/${id}`, id],
    ['#/access/keys?new=key&role=admin', undefined],
    ['#/access/sessions', undefined],
    ['#/connections/clients/all', undefined],
  ]) {
    if (!address) continue;
    named.add(own);
    await goTo(page, address);
    await page.waitForTimeout(250);
    const hidden = secrets.filter((it) => !named.has(it) && !explained.includes(it));
    problems.push(...found(hidden, address, await shown(page)));
  }
  return { problems, excused: secrets.filter((it) => named.has(it) || explained.includes(it)) };
}

await check('the oracle finds what a role may not see', async () => {
  for (const role of ['caller', 'approver', 'auditor', 'other', 'anonymous'])
    truthy((await secretsOf(role)).length > 5, `${role} has no secrets`);
  const secrets = await secretsOf('caller');
  for (const wanted of [`${mark}-other-principal`, `${mark}-demo-key`, 'demo__wipe'])
    truthy(secrets.includes(wanted), `${wanted} is no secret for a caller`);
  truthy(!(await secretsOf('auditor')).includes(`${mark}-demo-principal`), 'the record is hidden from an auditor');
  // The page of an administrator shows things that a caller may not see: the search works.
  const { page, received, all, close } = await watched('admin', '#/access');
  await settled(page, SCREENS.find(({ id }) => id === 'access'));
  await all();
  truthy(found(secrets, 'page', await shown(page)).length > 0, 'nothing was found in the document');
  truthy(received.some(([path, text]) => found(secrets, path, text).length > 0), 'nothing was found in the traffic');
  await close();
});

await Promise.all(
  Object.keys(ROLES).map((role) =>
    check(`${role}: the page has nothing that the API does not give`, async () => {
      const before = await given(role); // what leaves a list of the newest was there once
      const { page, received, statuses, all, close } = await watched(role);
      const texts = await visit(page, role);
      // Changes while the page is open, in both tenants.
      await Promise.all([
        askForApproval('admin', `${mark}-hidden-argument ${role}`),
        callTool('other', 'demo__echo', { text: `${mark}-argument` }),
        callTool('admin', 'demo__echo', { text: `${mark}-argument` }),
      ]);
      await page.waitForTimeout(1_500); // the stream looks at the record once in a second
      texts.push(['after changes', await shown(page)]);
      const secrets = await secretsOf(role, before);
      const { problems, excused } = await follow(page, role, secrets);
      await all();
      const hidden = secrets.filter((it) => !excused.includes(it));
      equal(
        [
          ...texts.flatMap(([where, text]) => found(secrets, where, text)),
          ...received.flatMap(([path, text]) => found(hidden, path, text)),
          ...problems,
        ].slice(0, 8),
        [],
        'disclosed',
      );
      const stream = received.filter(([path]) => path === '/v1/changes').map(([, text]) => text).join('');
      if (role === 'anonymous') equal(stream, '', 'the stream of changes');
      else truthy(role === 'other' || role === 'caller' || /event: /.test(stream), 'the stream was not read');
      if (!opens(role, SCREENS.find(({ id }) => id === 'record')))
        truthy(!/event: record/.test(stream), 'the stream has positions of the record');
      // The page requests only what the role may have; anonymous gets no data at all.
      const wrong = statuses.filter(([, path, status]) =>
        role === 'anonymous' ? status !== 401 && !PUBLIC.includes(path) : status === 403 || status === 401,
      ).filter(([, path, status]) => !(status === 401 && /^\/explorer\/(tools|catalog)/.test(path)));
      equal(wrong, [], 'requests that the server refused');
      await close();
    }),
  ),
);

await check('an answer of the page is that of the API', async () => {
  for (const role of ['caller', 'auditor', 'admin', 'other']) {
    const { page, received, all, close } = await watched(role);
    await visit(page, role);
    await all();
    for (const [path, text] of new Map(received.filter(([it]) => it.startsWith('/v1/') && it !== '/v1/changes'))) {
      const direct = (await ask(role, path)).text;
      const more = tellingOf([text]).filter((it) => !direct.includes(JSON.stringify(it).slice(1, -1)));
      // Of the newest events, the oldest have left the answer since.
      if (!/[?&]limit=/.test(path)) equal(more, [], `${role} ${path}: only in the page's answer`);
    }
    await close();
  }
});

await checkComplaints();
await browser.close();
await finish();

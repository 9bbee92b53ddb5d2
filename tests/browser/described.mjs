// Checks that the page reads no member of an answer that the API's description (/v1/openapi.json of the
// server) does not have: a misspelled or renamed member would be `undefined` in silence.

/** Where the page parses answers, and what the test puts there. */
const PARSED = 'data: tryParse(text),';
const CHECKED =
  'data: globalThis.asDescribed === undefined ? tryParse(text) : globalThis.asDescribed(method, path, response.status, tryParse(text)),';

/** Serves the page's `api.js` with the check, to all pages of a context. */
export async function checkReads(context, report) {
  let described;
  await context.exposeFunction('reportRead', report);
  await context.exposeFunction('description', async (origin) => {
    described ??= context.request.get(`${origin}/v1/openapi.json`).then((it) => (it.ok() ? it.json() : {}));
    return described;
  });
  await context.addInitScript(watchReads);
  await context.route(/\/assets\/(?:[\w-]+\/)?api(?:\.[0-9a-f]+)?\.js$/, async (route) => {
    const response = await route.fetch();
    const text = await response.text();
    if (!text.includes(PARSED)) report('api.js has another form than this check expects');
    await route.fulfill({ response, body: text.replace(PARSED, CHECKED) });
  });
}

/** Runs in the page: returns answers whose members report when they are read without being described. */
function watchReads() {
  let api;
  const loading = window.description(location.origin).then((it) => (api = it));
  const told = new Set();
  const resolve = (schema) => {
    let found = schema;
    for (let hops = 0; typeof found?.$ref === 'string' && hops < 20; hops += 1)
      found = found.$ref.slice(2).split('/').reduce((at, part) => at?.[part], api);
    return found;
  };
  /** The members that a schema and its parts describe; `undefined` if it describes none. */
  const membersOf = (schema) => {
    const found = resolve(schema);
    const parts = [...(found?.allOf ?? []), ...(found?.oneOf ?? []), ...(found?.anyOf ?? [])].map(membersOf);
    const isOpen = found?.additionalProperties !== undefined && found.additionalProperties !== false;
    if (isOpen || parts.includes(undefined) && parts.length > 0 && found?.properties === undefined) return undefined;
    const all = Object.assign({}, ...parts.filter(Boolean), found?.properties);
    return Object.keys(all).length === 0 ? undefined : all;
  };
  const itemsOf = (schema) => {
    const found = resolve(schema);
    return found?.items ?? [...(found?.oneOf ?? []), ...(found?.anyOf ?? [])].map(itemsOf).find(Boolean);
  };
  const usual = new Set(['toJSON', 'then', 'constructor', 'key', 'ref', 'type', '__k', '__e']);
  /** What was made of each value, so that the page gets the same object each time. */
  const made = new WeakMap();
  const wrapped = (value, schema, place) => {
    if (typeof value !== 'object' || value === null || schema === undefined) return value;
    if (!made.has(value)) made.set(value, made.get(value) ?? wrap(value, schema, place));
    return made.get(value);
  };
  const wrap = (value, schema, place) => {
    if (Array.isArray(value)) {
      const items = itemsOf(schema);
      return items === undefined ? value : value.map((it) => wrapped(it, items, `${place}[]`));
    }
    const members = membersOf(schema);
    if (members === undefined) return value;
    return new Proxy(value, {
      get(target, name, receiver) {
        const found = Reflect.get(target, name, receiver);
        if (typeof name === 'symbol' || name in Object.prototype || usual.has(name)) return found;
        if (!Object.hasOwn(members, name)) {
          const text = `${place}: the page reads \`${name}\`, which the API does not describe`;
          if (!told.has(text)) window.reportRead(text);
          told.add(text);
          return found;
        }
        return wrapped(found, members[name], `${place}.${name}`);
      },
    });
  };
  const templates = () =>
    Object.keys(api.paths ?? {}).map((path) => [path, new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`)]);
  let known;
  window.asDescribed = (method, address, status, data) => {
    if (api === undefined) return data; // only the first answers, before the description has arrived
    known ??= templates();
    const { pathname } = new URL(address, location.href);
    // Other surfaces have errors of other forms.
    if (!pathname.startsWith('/v1/')) return data;
    // A path without parameters comes first.
    const matching = known.filter(([, pattern]) => pattern.test(pathname)).map(([path]) => path);
    const path = matching.find((it) => it === pathname) ?? matching[0];
    const responses = api.paths?.[path]?.[method.toLowerCase()]?.responses;
    const schema = responses?.[status]?.content?.['application/json']?.schema;
    return wrapped(data, schema, `${method} ${path}`);
  };
  window.described = loading;
}

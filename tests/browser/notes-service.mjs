// A service with accounts, on a free port of this machine: an MCP server of the revision 2026-07-28 and its
// own authorization server, with registration of clients, PKCE, tokens that rotate, and a page on which a
// person types a name and agrees. Its tool `whoami` says whose token a call had.
import { createHash, randomBytes } from 'node:crypto';
import http from 'node:http';

const random = () => randomBytes(16).toString('hex');
const TOOL = { name: 'whoami', description: 'Says whose account this is.', inputSchema: { type: 'object', properties: {} }, annotations: { readOnlyHint: true } };

/** Starts it. Returns {url, seen, people, stop}: `seen` has the requests, `people` the accounts by token. */
export async function startService() {
  const seen = [];
  const clients = new Map();
  const codes = new Map();
  /** The access and the refresh tokens that work, each with its person. */
  const people = new Map();
  const renewals = new Map();
  const server = http.createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    const url = new URL(request.url, issuer);
    seen.push({ method: request.method, path: url.pathname, referer: request.headers.referer });
    const reply = (status, value, headers = {}) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(value === undefined ? '' : JSON.stringify(value));
    };
    const route = ROUTES[`${request.method} ${url.pathname}`];
    if (route === undefined) reply(404, { error: 'not_found' });
    else route({ request, response, url, body, reply });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const resource = `${issuer}/mcp`;

  const issue = (person, client) => {
    const [access, renewal] = [`access-${random()}`, `renewal-${random()}`];
    people.set(access, person);
    renewals.set(renewal, { person, client });
    return { access_token: access, refresh_token: renewal, token_type: 'Bearer', expires_in: 300, scope: 'notes:read' };
  };
  const ROUTES = {
    'GET /.well-known/oauth-protected-resource/mcp': ({ reply }) =>
      reply(200, { resource, authorization_servers: [issuer], scopes_supported: ['notes:read'] }),
    'GET /.well-known/oauth-authorization-server': ({ reply }) =>
      reply(200, {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        registration_endpoint: `${issuer}/register`,
        revocation_endpoint: `${issuer}/revoke`,
        response_types_supported: ['code'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
        authorization_response_iss_parameter_supported: true,
      }),
    'POST /register': ({ body, reply }) => {
      const asked = JSON.parse(body);
      const client = `client-${random()}`;
      clients.set(client, asked.redirect_uris);
      reply(201, { ...asked, client_id: client, token_endpoint_auth_method: 'none' });
    },
    'GET /authorize': ({ url, response }) => {
      response.setHeader('content-type', 'text/html');
      if (!clients.get(url.searchParams.get('client_id'))?.includes(url.searchParams.get('redirect_uri')))
        return response.end('<h1>Unknown client</h1>');
      return response.end(`<!doctype html><title>Notes</title><h1>Sign in to Notes</h1>
        <form method="post" action="${url.pathname}${url.search.replaceAll('&', '&amp;')}">
        <input name="person" id="person" aria-label="Name"><button id="agree" name="verdict" value="agree">Agree</button>
        <button id="refuse" name="verdict" value="refuse">Refuse</button></form>`);
    },
    'POST /authorize': ({ url, body, response }) => {
      const asked = url.searchParams;
      const form = new URLSearchParams(body);
      const back = new URL(asked.get('redirect_uri'));
      back.searchParams.set('state', asked.get('state'));
      back.searchParams.set('iss', issuer);
      if (form.get('verdict') === 'agree') {
        const code = `code-${random()}`;
        codes.set(code, { person: form.get('person'), asked });
        back.searchParams.set('code', code);
      } else back.searchParams.set('error', 'access_denied');
      response.writeHead(303, { location: back.href });
      response.end();
    },
    'POST /token': ({ body, reply }) => {
      const form = new URLSearchParams(body);
      const client = form.get('client_id');
      if (form.get('grant_type') === 'refresh_token') {
        const found = renewals.get(form.get('refresh_token'));
        renewals.delete(form.get('refresh_token'));
        return found?.client === client ? reply(200, issue(found.person, client)) : reply(400, { error: 'invalid_grant' });
      }
      const found = codes.get(form.get('code'));
      codes.delete(form.get('code'));
      const challenge = createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url');
      const fits =
        found !== undefined &&
        found.asked.get('client_id') === client &&
        found.asked.get('redirect_uri') === form.get('redirect_uri') &&
        found.asked.get('code_challenge') === challenge &&
        found.asked.get('resource') === form.get('resource');
      return fits ? reply(200, issue(found.person, client)) : reply(400, { error: 'invalid_grant' });
    },
    'POST /revoke': ({ body, reply }) => {
      const token = new URLSearchParams(body).get('token');
      const person = people.get(token) ?? renewals.get(token)?.person;
      for (const [access, whose] of people) if (whose === person) people.delete(access);
      for (const [renewal, { person: whose }] of renewals) if (whose === person) renewals.delete(renewal);
      reply(200);
    },
    'POST /mcp': ({ request, body, reply }) => {
      const person = people.get((request.headers.authorization ?? '').replace(/^Bearer /, ''));
      if (person === undefined)
        return reply(401, { error: 'invalid_token' }, {
          'www-authenticate': `Bearer resource_metadata="${issuer}/.well-known/oauth-protected-resource/mcp", scope="notes:read"`,
        });
      const { id, method } = JSON.parse(body);
      const result = {
        'server/discover': { supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, ttlMs: 0, cacheScope: 'private' },
        'tools/list': { tools: [TOOL], ttlMs: 0, cacheScope: 'private' },
        'tools/call': { content: [{ type: 'text', text: `This is the account of ${person}.` }], isError: false },
      }[method];
      if (id === undefined) return reply(202);
      if (result === undefined) return reply(404, { jsonrpc: '2.0', id, error: { code: -32601, message: 'unknown method' } });
      return reply(200, { jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } });
    },
  };
  return {
    url: resource,
    seen,
    people,
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

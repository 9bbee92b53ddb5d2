// An MCP server of the TypeScript SDK 1.x that is protected by the SDK's own OAuth router and example
// provider, on a free port of this machine alone.
//
//   node oauth-server.mjs FOLDER
//
// Prints `listening on http://ADDR` once it listens; FOLDER has the packages in node_modules. The page of
// an authorization request has a form, in which a person types a name and agrees. The tool `whoami`
// answers this name. Each session is one account's. A line on standard input is answered with one:
// `expire` ends all access tokens, `revoke NAME` all tokens of a person, `renewals` and `mixed` count
// renewals and requests in another account's session, `tokens NAME` a person's tokens. It ends when its
// standard input does, so that it never outlives the test that started it.
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [folder] = process.argv.slice(2);
const require = createRequire(join(folder, 'node_modules/x.js'));
const sdk = (path) =>
  import(pathToFileURL(join(folder, 'node_modules/@modelcontextprotocol/sdk/dist/esm', path)).href);
const { default: express } = await import(pathToFileURL(require.resolve('express')).href);
const { McpServer } = await sdk('server/mcp.js');
const { StreamableHTTPServerTransport } = await sdk('server/streamableHttp.js');
const { getOAuthProtectedResourceMetadataUrl, mcpAuthRouter } = await sdk('server/auth/router.js');
const { requireBearerAuth } = await sdk('server/auth/middleware/bearerAuth.js');
const { InvalidGrantError, InvalidTargetError, InvalidTokenError } = await sdk('server/auth/errors.js');
const { DemoInMemoryAuthProvider } = await sdk('examples/server/demoInMemoryOAuthProvider.js');

/** The example, with a page for the person, refresh tokens that are valid once, and revocation. */
class Provider extends DemoInMemoryAuthProvider {
  waiting = new Map();
  people = new Map();
  refreshTokens = new Map();
  renewals = 0;

  async authorize(client, params, response) {
    const id = randomUUID();
    this.waiting.set(id, { client, params });
    response.type('html').send(`<form method="post" action="/agree">
<input name="id" value="${id}" type="hidden"><input name="person"><button>Agree</button></form>`);
  }

  /** The answer of the form. */
  async agree({ id, person }, response) {
    const { client, params } = this.waiting.get(id);
    this.waiting.delete(id);
    const before = new Set(this.codes.keys());
    await super.authorize(client, params, response);
    for (const code of this.codes.keys()) if (!before.has(code)) this.people.set(code, person);
  }

  #lasting(tokens, person) {
    const refresh_token = randomUUID();
    this.people.set(tokens.access_token, person).set(refresh_token, person);
    this.refreshTokens.set(refresh_token, { ...this.tokens.get(tokens.access_token) });
    return { ...tokens, refresh_token };
  }

  async exchangeAuthorizationCode(client, code, ...more) {
    return this.#lasting(await super.exchangeAuthorizationCode(client, code, ...more), this.people.get(code));
  }

  async exchangeRefreshToken(client, token, _scopes, resource) {
    const kept = this.refreshTokens.get(token);
    if (kept?.clientId !== client.client_id) throw new InvalidGrantError('canary');
    if (resource?.href !== kept.resource?.href) throw new InvalidTargetError('canary');
    this.refreshTokens.delete(token);
    this.renewals += 1;
    const access_token = randomUUID();
    this.tokens.set(access_token, { ...kept, token: access_token, expiresAt: Date.now() + 3600000 });
    const answer = { access_token, token_type: 'bearer', expires_in: 3600, scope: kept.scopes.join(' ') };
    return this.#lasting(answer, this.people.get(token));
  }

  async revokeToken(_client, { token }) {
    this.tokens.delete(token);
    this.refreshTokens.delete(token);
  }

  async verifyAccessToken(token) {
    if (!this.tokens.has(token)) throw new InvalidTokenError('canary');
    return { ...(await super.verifyAccessToken(token)), extra: { person: this.people.get(token) } };
  }

  tokensOf(person) {
    const all = [...this.tokens.keys(), ...this.refreshTokens.keys()];
    return all.filter((token) => this.people.get(token) === person);
  }
}

const server = http.createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = new URL(`http://127.0.0.1:${server.address().port}`);
const resource = new URL('/mcp', issuer);
const provider = new Provider((asked) => asked?.href === resource.href);
const sessions = new Map();
let mixed = 0;

const app = express();
app.use(mcpAuthRouter({ provider, issuerUrl: issuer, resourceServerUrl: resource, scopesSupported: ['notes'] }));
app.post('/agree', express.urlencoded({ extended: false }), (request, response) =>
  provider.agree(request.body, response),
);
const resourceMetadataUrl = getOAuthProtectedResourceMetadataUrl(resource);
app.all(
  '/mcp',
  requireBearerAuth({ verifier: provider, requiredScopes: ['notes'], resourceMetadataUrl }),
  express.json(),
  async (request, response) => {
    const id = request.headers['mcp-session-id'];
    const { person } = request.auth.extra;
    let session = sessions.get(id);
    if (session !== undefined && session.person !== person) mixed += 1;
    if (id !== undefined && session?.person !== person) return response.status(404).end();
    if (session === undefined) {
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (made) => sessions.set(made, session),
      });
      session = { person, transport };
      const mcp = new McpServer({ name: 'notes', version: '1.0.0' });
      mcp.registerTool('whoami', { description: 'Says whose account this is.' }, ({ authInfo }) => ({
        content: [{ type: 'text', text: authInfo.extra.person }],
      }));
      await mcp.connect(transport);
    }
    return session.transport.handleRequest(request, response, request.body);
  },
);
server.on('request', app);

const commands = {
  expire: () => provider.tokens.clear(),
  revoke: (person) => provider.tokensOf(person).forEach((token) => provider.revokeToken(null, { token })),
  renewals: () => provider.renewals,
  mixed: () => mixed,
  tokens: (person) => provider.tokensOf(person).length,
};
process.stdout.write(`listening on ${issuer.origin}\n`);
createInterface({ input: process.stdin })
  .on('line', (line) => {
    const [command, person] = line.split(' ');
    process.stdout.write(`${commands[command](person) ?? 'done'}\n`);
  })
  .on('close', () => process.exit(0));

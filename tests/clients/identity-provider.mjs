// oidc-provider as published on npm, as the identity provider of people, and the https host of the document
// of a client of MCP.
//
//   node identity-provider.mjs FOLDER CALLBACK CERTIFICATE KEY closed|open
//
// Prints `listening on http://ADDR`, and the address of the document. FOLDER has the packages in
// node_modules. Its only client is `crib` with the secret `crib-secret`, which comes back to CALLBACK. On its
// page a person types a name. If it is open, it also registers clients and takes documents of clients. Each refresh token is valid once. A line on standard input is answered with
// one: `leave NAME` refuses a person from now on, `sign CLAIMS` signs an assertion with these claims, and
// `requests` lists the authorization requests and registrations. It ends when its standard input does, so that it
// never outlives the test that started it.
import { generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [folder, callback, certificate, key, registration] = process.argv.slice(2);
const require = createRequire(join(folder, 'node_modules/x.js'));
const { default: Provider } = await import(pathToFileURL(require.resolve('oidc-provider')).href);
// It prints advice for production servers.
console.info = console.warn = () => {};

const listening = (server) =>
  new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(`127.0.0.1:${server.address().port}`)));

const server = http.createServer((request, response) => handle(request, response));
const issuer = `http://${await listening(server)}`;
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const kid = randomUUID();
const left = new Set();
const requests = [];

const provider = new Provider(issuer, {
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'ES256' }] },
  clients: [
    {
      client_id: 'crib',
      client_secret: 'crib-secret',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      redirect_uris: [callback],
      application_type: 'native',
      id_token_signed_response_alg: 'ES256',
    },
  ],
  cookies: { keys: ['a test'] },
  scopes: ['openid', 'offline_access'],
  claims: { openid: ['sub', 'groups'] },
  conformIdTokenClaims: false,
  rotateRefreshToken: true,
  ttl: { AccessToken: 300, AuthorizationCode: 60, Grant: 3600, IdToken: 300, Interaction: 600, RefreshToken: 3600, Session: 3600 },
  findAccount: (_context, id) =>
    left.has(id) ? undefined : { accountId: id, claims: () => ({ sub: id, groups: ['reader'] }) },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: registration === 'open' },
    clientIdMetadataDocument: { enabled: registration === 'open', ack: 'draft-02' },
  },
  interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
});

async function handle(request, response) {
  const { pathname, search } = new URL(request.url, issuer);
  if (pathname === '/auth' || pathname === '/reg') requests.push(`${pathname}${search}`);
  if (!pathname.startsWith('/interaction/')) return provider.callback()(request, response);
  let body = '';
  for await (const part of request) body += part;
  const { prompt, params, session } = await provider.interactionDetails(request, response);
  if (request.method === 'GET') {
    const field = prompt.name === 'login' ? '<input name="person">' : '';
    response.setHeader('content-type', 'text/html');
    return response.end(`<form method="post" action="${pathname}">${field}<button>Go on</button></form>`);
  }
  if (prompt.name === 'login') {
    const accountId = new URLSearchParams(body).get('person');
    return provider.interactionFinished(request, response, { login: { accountId } });
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope('openid offline_access');
  return provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
}

const host = https.createServer(
  { cert: readFileSync(certificate), key: readFileSync(key) },
  (_request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({
        client_id: document,
        client_name: 'A documented client',
        redirect_uris: ['http://127.0.0.1/callback', 'http://localhost/callback', 'http://127.0.0.1/oauth/callback'],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
      }),
    );
  },
);
const document = `https://${await listening(host)}/client.json`;

/** An assertion with these claims (ID-JAG). */
function assertion(claims) {
  const now = Math.floor(Date.now() / 1000);
  const all = { iss: issuer, iat: now, exp: now + 300, jti: randomUUID(), groups: ['reader'], ...claims };
  const encoded = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const text = `${encoded({ alg: 'ES256', typ: 'oauth-id-jag+jwt', kid })}.${encoded(all)}`;
  const signature = sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' });
  return `${text}.${signature.toString('base64url')}`;
}

const commands = {
  leave: (name) => left.add(name) && 'done',
  sign: (claims) => assertion(JSON.parse(claims)),
  requests: () => JSON.stringify(requests),
};
process.stdout.write(`listening on ${issuer}\n${document}\n`);
createInterface({ input: process.stdin })
  .on('line', (line) => {
    const [, command, rest] = /^(\w+) ?(.*)$/.exec(line);
    process.stdout.write(`${commands[command](rest)}\n`);
  })
  .on('close', () => process.exit(0));

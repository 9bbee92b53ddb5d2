// oidc-provider as published on npm, on a free port of this machine alone.
//
//   node issuer.mjs FOLDER
//
// Prints `listening on http://ADDR` once it listens; FOLDER has the packages in node_modules. It has one
// client, `agent` with the secret `agent-secret`, that gets signed access tokens for whatever `resource`
// it asks for with the grant `client_credentials`. A line `rotate` on standard input gives it another
// key, whose name it answers with; it ends when its standard input does, so that it never outlives the
// test that started it.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import http from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [folder] = process.argv.slice(2);
const require = createRequire(join(folder, 'node_modules/x.js'));
const { default: Provider } = await import(pathToFileURL(require.resolve('oidc-provider')).href);
// It tells what a production server should be told, and nobody reads that.
console.info = console.warn = () => {};

function provider(issuer) {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const kid = randomUUID();
  const made = new Provider(issuer, {
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'ES256' }] },
    clients: [
      {
        client_id: 'agent',
        client_secret: 'agent-secret',
        grant_types: ['client_credentials'],
        response_types: [],
        redirect_uris: [],
        id_token_signed_response_alg: 'ES256',
      },
    ],
    scopes: ['files:read', 'files:write'],
    extraTokenClaims: () => ({ org: { id: 'default' }, groups: ['reader'] }),
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context, audience) => ({
          scope: 'files:read files:write',
          audience,
          accessTokenFormat: 'jwt',
          accessTokenTTL: 300,
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
  });
  return { kid, answer: made.callback() };
}

let now;
const server = http.createServer((request, response) => now.answer(request, response));
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  now = provider(issuer);
  process.stdout.write(`listening on ${issuer}\n`);
  createInterface({ input: process.stdin })
    .on('line', (line) => {
      if (line !== 'rotate') return;
      now = provider(issuer);
      process.stdout.write(`rotated to ${now.kid}\n`);
    })
    .on('close', () => process.exit(0));
});

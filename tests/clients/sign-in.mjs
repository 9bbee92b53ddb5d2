// Signs a person in with the OAuth of a TypeScript SDK, renews the access token once, lists and calls.
//
//   node sign-in.mjs URL TOOL ARGUMENTS_JSON v1|v2 [DOCUMENT [wait]]
//
// `v1` is @modelcontextprotocol/sdk 1.x, `v2` is @modelcontextprotocol/client 2.x. The address for the
// browser goes to standard error. With DOCUMENT this is the client whose document has that address;
// otherwise it registers itself. With `wait` it prints `signed-in`, and waits for the file `go-on` in HOME
// before it renews.
import { existsSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { drive, load, main, options } from './driver.mjs';

const document = process.argv[6] || undefined;
const isFirst = options.mode === 'v1';
const sdk = isFirst
  ? {
      ...load('@modelcontextprotocol/sdk/client/auth.js'),
      ...load('@modelcontextprotocol/sdk/client/index.js'),
      ...load('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    }
  : load('@modelcontextprotocol/client');

let arrived;
const back = new Promise((resolve) => (arrived = resolve));
const listener = http.createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://127.0.0.1');
  if (pathname === '/callback') arrived(searchParams);
  response.end('You can close this page.');
});
await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
const redirectUrl = `http://127.0.0.1:${listener.address().port}/callback`;

const kept = {};
const authProvider = {
  redirectUrl,
  clientMetadataUrl: document,
  clientMetadata: {
    client_name: `The TypeScript SDK ${options.mode}`,
    redirect_uris: [redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  },
  state: () => 'the state of the client',
  clientInformation: () => kept.information,
  saveClientInformation: (information) => (kept.information = information),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => (kept.tokens = tokens),
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => (kept.verifier = verifier),
  discoveryState: () => kept.discovery,
  saveDiscoveryState: (discovery) => (kept.discovery = discovery),
  redirectToAuthorization: (address) => console.error(address.href),
};

const newClient = () => {
  const about = { name: 'toolcrib-test-sign-in', version: '1.0.0' };
  return isFirst ? new sdk.Client(about) : new sdk.Client(about, { versionNegotiation: { mode: 'auto' } });
};
const newTransport = () => new sdk.StreamableHTTPClientTransport(options.url, { authProvider });

main(async () => {
  const first = newTransport();
  await newClient()
    .connect(first)
    .then(
      () => Promise.reject(new Error('the server asked for no sign-in')),
      (error) => error instanceof sdk.UnauthorizedError || Promise.reject(error),
    );
  const answer = await back;
  if (answer.has('error')) throw new Error(`refused: ${answer.get('error')}`);
  await first.finishAuth(isFirst ? answer.get('code') : answer);
  if (process.argv[7] === 'wait') {
    console.error('signed-in');
    while (!existsSync(join(process.env.HOME, 'go-on'))) await pause(50);
  }
  const { access_token, refresh_token } = kept.tokens;
  const renewed = await sdk.auth(authProvider, { serverUrl: options.url });
  if (renewed !== 'AUTHORIZED' || kept.tokens.access_token === access_token || kept.tokens.refresh_token === refresh_token)
    throw new Error('the access token was not renewed');
  const client = newClient();
  const transport = newTransport();
  await client.connect(transport);
  await drive(
    client,
    (params, onprogress) =>
      isFirst ? client.callTool(params, undefined, { onprogress }) : client.callTool(params, { onprogress }),
    () => (isFirst ? transport.protocolVersion : client.getNegotiatedProtocolVersion()),
  );
});

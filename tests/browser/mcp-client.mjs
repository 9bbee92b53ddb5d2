// An MCP client that signs a person in: the TypeScript SDK with its own OAuth, and a listener to which the
// browser comes back.
import http from 'node:http';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

/**
 * Starts to connect to `url`, and registers there. Returns {address, redirect, back, connected, tokens, stop}:
 * `address` is for the browser, `back` the parameters that it brings, and `connected()` continues with them.
 */
export async function startClient(url, name) {
  let arrived;
  const back = new Promise((resolve) => (arrived = resolve));
  const listener = http.createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://127.0.0.1');
    if (pathname !== '/callback') return response.writeHead(404).end();
    arrived(Object.fromEntries(searchParams));
    return response.writeHead(200, { 'content-type': 'text/html' }).end('<title>back</title><p id="back">Back in the client.</p>');
  });
  await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const redirect = `http://127.0.0.1:${listener.address().port}/callback`;

  const kept = {};
  const authProvider = {
    redirectUrl: redirect,
    clientMetadata: {
      client_name: name,
      redirect_uris: [redirect],
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
    redirectToAuthorization: (address) => (kept.address = address.href),
  };
  const transport = () => new StreamableHTTPClientTransport(new URL(url), { authProvider });
  const first = transport();
  try {
    await new Client({ name, version: '1.0.0' }).connect(first);
    throw new Error('the server asked for no sign-in');
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
  }
  return {
    address: kept.address,
    id: kept.information.client_id,
    redirect,
    back,
    tokens: () => kept.tokens,
    connected: async () => {
      await first.finishAuth((await back).code);
      const client = new Client({ name, version: '1.0.0' });
      await client.connect(transport());
      return client;
    },
    stop: () => {
      listener.closeAllConnections();
      listener.close();
    },
  };
}

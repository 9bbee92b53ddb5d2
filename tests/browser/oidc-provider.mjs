// oidc-provider as published on npm, on a free port of this machine, with a page for sign-in and one
// for consent. It registers no clients. The two of the console are public and use PKCE; that of the
// server (`[auth.bridge]`) has a secret.
import http from 'node:http';
import Provider from 'oidc-provider';

console.info = console.warn = () => {};

/** The secret of the client of the server. */
export const SECRET = 'the secret of the server at its provider';

/** Starts it for a console at `redirect`. Returns {issuer, settings, allow, stop}. */
export async function startProvider({ port = 0 } = {}) {
  let provider;
  const server = http.createServer((request, response) => handle(request, response));
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const settings = { codeTTL: 60, redirects: [], seen: [] };

  const build = () => {
    const client = (client_id) => ({
      client_id,
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code'],
      response_types: ['code'],
      redirect_uris: settings.redirects,
      application_type: 'native',
    });
    provider = new Provider(issuer, {
      clients: [
        client('console'),
        client('other'),
        { ...client('server'), token_endpoint_auth_method: 'client_secret_basic', client_secret: SECRET },
      ],
      claims: { openid: ['sub', 'groups'] },
      conformIdTokenClaims: false,
      cookies: { keys: ['a test'] },
      ttl: { AuthorizationCode: () => settings.codeTTL, AccessToken: () => settings.tokenTTL ?? 300, Session: 3600, Grant: 3600, Interaction: 600, IdToken: 300 },
      pkce: { required: () => true },
      scopes: ['openid', 'try:it'],
      findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id, groups: ['reader'] }) }),
      features: {
        devInteractions: { enabled: false },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => undefined,
          getResourceServerInfo: (_context, audience) => ({
            scope: 'try:it',
            audience,
            accessTokenFormat: 'jwt',
          }),
        },
      },
      interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
    });
  };

  async function handle(request, response) {
    const { pathname, search } = new URL(request.url, issuer);
    settings.seen.push({ method: request.method, path: pathname, search, referer: request.headers.referer });
    if (!pathname.startsWith('/interaction/')) return provider.callback()(request, response);
    const { prompt, params, session } = await provider.interactionDetails(request, response);
    const [, , , verb] = pathname.split('/');
    if (verb === undefined) {
      response.setHeader('content-type', 'text/html');
      const form = (name) => `<form method="post" action="${pathname}/${name}"><button id="${name}">${name}</button></form>`;
      response.end(`<h1>${prompt.name}</h1>${form(prompt.name)}${form('abort')}`);
      return undefined;
    }
    if (verb === 'abort')
      return provider.interactionFinished(request, response, { error: 'access_denied', error_description: 'The <b>person</b> declined.' });
    if (verb === 'login')
      return provider.interactionFinished(request, response, { login: { accountId: 'ada' } });
    const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope('openid try:it');
    for (const resource of [params.resource].flat().filter(Boolean)) grant.addResourceScope(resource, 'try:it');
    return provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
  }
  build();
  return {
    issuer,
    settings,
    /** Registers the address of the console. */
    allow: (...redirects) => {
      settings.redirects = redirects;
      build();
    },
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

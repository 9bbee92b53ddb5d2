// Lists and calls with an assertion of the identity provider in place of a sign-in (ID-JAG), through the
// TypeScript SDK 2.x.
//
//   node assertion.mjs URL TOOL ARGUMENTS_JSON
//
// TOOLCRIB_ISSUER            the authorization server
// TOOLCRIB_CLIENT            the id of the client, and after a blank its secret
// TOOLCRIB_ASSERTION         the assertion
import { drive, load, main, options } from './driver.mjs';

const { Client, CrossAppAccessProvider, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
const [clientId, clientSecret] = process.env.TOOLCRIB_CLIENT.split(' ');

main(async () => {
  const authProvider = new CrossAppAccessProvider({
    assertion: async () => process.env.TOOLCRIB_ASSERTION,
    clientId,
    clientSecret,
    expectedIssuer: process.env.TOOLCRIB_ISSUER,
  });
  const client = new Client({ name: 'toolcrib-test-assertion', version: '1.0.0' });
  await client.connect(new StreamableHTTPClientTransport(options.url, { authProvider }));
  await drive(
    client,
    (params, onprogress) => client.callTool(params, { onprogress }),
    () => client.getNegotiatedProtocolVersion(),
  );
});

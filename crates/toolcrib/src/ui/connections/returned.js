// The end of a connection: the person comes back from the service.
import { html, useEffect, useState, announce, send, Empty, Problem, Skeleton } from '../lib/ui.js';
import { SourceName } from '../lib/links.js';
import { href } from '../lib/address.js';
import { takeResponse } from '../shell/returned.js';

export function Returned() {
  const [reply, setReply] = useState();
  useEffect(() => {
    const response = takeResponse();
    if (response === undefined) setReply({ isMissing: true });
    else finish(response).then(setReply);
  }, []);
  const own = html`<p><a href=${href('connections')}>Your connections</a></p>`;
  if (reply === undefined) return html`<${Skeleton} rows=${4} />`;
  if (reply.isMissing)
    return html`<${Empty} title="Nothing to finish">
      <p class="muted">The account was connected already, or you came here from elsewhere.</p>
      ${own}
    <//>`;
  if (reply.problem !== undefined)
    return html`<div class="panel padded consent">
      <h2>The account is not connected</h2>
      <${Problem} text=${reply.problem} />
      <p>Nothing has changed. You can start again.</p>
      ${own}
    </div>`;
  const { source, host, of } = reply.data.connection;
  return html`<div class="panel padded consent" data-connected=${source}>
    <h2>Connected</h2>
    <p class="done" id="connection-done">
      Connected. You can go back to your agent.
    </p>
    <p>
      The tools of <${SourceName} name=${source} /> act with ${of === 'tenant' ? 'this account' : 'your account'} at <bdi>${host}</bdi> from now on.
    </p>
    ${own}
  </div>`;
}

/** Brings the response to the server, which checks whether this browser and person started it. */
async function finish(response) {
  const body = {};
  for (const name of ['source', 'state', 'code', 'iss', 'error']) {
    const value = response.get(name);
    if (value !== null) body[name] = value;
  }
  const reply = await send('POST', '/v1/connections/finish', body);
  announce(reply.problem === undefined ? 'Connected' : 'The account is not connected');
  return reply;
}

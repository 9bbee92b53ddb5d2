// One account before it is connected: the service, the access, and whose account it will be. Nothing happens
// before a click.
import { html, useEffect, useState, announce, send, Button, Empty, Problem, Skeleton } from '../lib/ui.js';
import { SourceName } from '../lib/links.js';
import { href } from '../lib/address.js';

/** `wanted` is a link, or a source: the body of the requests. */
export function Consent({ wanted, who }) {
  const [shown, setShown] = useState();
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let isOpen = true;
    setShown(undefined);
    send('POST', '/v1/connections/preview', wanted).then((reply) => isOpen && setShown(reply));
    return () => {
      isOpen = false;
    };
  }, [turn]);
  if (shown === undefined) return html`<${Skeleton} rows=${4} />`;
  if (shown.data !== undefined && shown.problem === undefined)
    return html`<${Question} it=${shown.data} wanted=${wanted} who=${who} onChanged=${() => setTurn((it) => it + 1)} />`;
  const own = html`<p><a href=${href('connections')}>Your connections</a></p>`;
  if (shown.status !== 404)
    return html`<${Problem} text=${shown.problem} retry=${() => setTurn((it) => it + 1)} />${own}`;
  return html`<${Empty} title=${wanted.link ? 'This link does not work' : 'Source not found'}>
    <p class="muted" id="connection-refused">
      ${
        wanted.link
          ? 'It was used already, is older than ten minutes, or is for another person: make the same call again for a new one.'
          : 'No source of this name acts with an account, or it is not one of yours.'
      }
    </p>
    ${own}
  <//>`;
}

function Question({ it, wanted, who, onChanged }) {
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  const isOfTenant = it.of === 'tenant';
  const connect = async () => {
    setBusy(true);
    const shown = { servers: it.servers, scopes: it.scopes };
    const reply = await send('POST', '/v1/connections/begin', { ...wanted, shown });
    const address = reply.data?.address;
    if (reply.problem === undefined && /^https?:\/\//i.test(address)) {
      location.assign(address);
      return; // the button stays busy until the page is gone
    }
    if (reply.data?.details?.reason === 'changed') {
      announce('The service wants something else now: look at it again');
      onChanged();
      return;
    }
    setBusy(false);
    setProblem(reply.problem ?? 'The server returned no address of the service.');
  };
  return html`<div class="panel padded consent" data-consent=${it.source}>
    <h2>
      ${isOfTenant ? html`Connect an account of <bdi>${who.tenant}</bdi>` : 'Connect your account'} at <bdi>${it.host}</bdi>?
    </h2>
    <p id="connection-sentence">
      ${
        isOfTenant
          ? html`The tools of <${SourceName} name=${it.source} /> are listed with this account. If they share
              one account, the calls of everyone in <bdi>${who.tenant}</bdi> act with it.`
          : html`The tools of <${SourceName} name=${it.source} /> that you or your agents call then act with your
              account at <bdi>${it.host}</bdi>. Calls of other people never use it.`
      }
      ${it.again && ' It replaces the account that is connected now.'}
    </p>
    <dl class="facts">
      <dt>Service</dt><dd><bdi>${it.host}</bdi></dd>
      <dt>You sign in at</dt>
      <dd id="connection-servers">
        ${it.servers.map((server, at) => html`${at > 0 && ', '}<bdi key=${server} class="strong">${server}</bdi>`)}
      </dd>
      ${
        it.earlierServer &&
        html`<dt>Changed</dt>
          <dd id="connection-moved">
            Before, accounts were connected at <bdi class="strong">${it.earlierServer}</bdi>. If you do not know
            why this has changed, do not go on: the service can send you to any place.
          </dd>`
      }
      <dt>Access</dt>
      <dd id="connection-scopes">
        ${
          it.scopes.length > 0
            ? it.scopes.map((scope) => html`<${Scope} key=${scope} it=${it} scope=${scope} />`)
            : 'the service shows it before you agree'
        }
      </dd>
      <dt>${isOfTenant ? 'Connected by' : 'For'}</dt><dd><bdi>${it.principal}</bdi></dd>
    </dl>
    <p class="muted">
      You sign in and agree at the service, which brings you back here. This server never sees your password
      there, and you can disconnect the account at any time. Go on only if you or your agent started this, and if
      your account is one of the place where you sign in.
      ${!who.sessionId && ' You may have to sign in here again when you come back, because this tab alone has your key.'}
    </p>
    ${problem && html`<${Problem} text=${problem} />`}
    <div class="row">
      <${Button} kind="primary" id="connect-account" busy=${busy} onClick=${connect}>Connect<//>
      <a class="button" href=${href('connections')}>Not now</a>
    </div>
  </div>`;
}

/** A scope of the request: what the operator says of it, and the name that the service uses. */
function Scope({ it, scope }) {
  const text = it.scopeTexts?.[scope];
  return html`<span class="scope">
    ${text && html`<bdi>${text}</bdi> `}<code>${scope}</code>${it.newScopes?.includes(scope) && ' (new)'}${' '}
  </span>`;
}

// Explains why a tool can be used or not, and why the list is empty: the server's decision for this
// key, step by step. Embedded pages have no explanation, because their server lacks the endpoint.
import { html, ServerText, useEffect, useState } from '../lib/ui.js';
import { Person } from '../lib/links.js';
import { explain, problemText } from '../api.js';
import { hasGateway } from '../shell/session.js';

const MARKS = { pass: '✓', depends: '?', ask: '…', stop: '✕' };
const WORDS = { pass: 'passes', depends: 'depends', ask: 'needs approval', stop: 'stops' };
const NAMES = {
  identity: 'Key',
  tool: 'Tool',
  tenant: 'Tenant',
  pin: 'Pin',
  scope: 'Scope',
  policy: 'Policy',
  rate: 'Rate',
  quota: 'Quota',
  credential: 'Credential',
  approval: 'Approval',
  source: 'Source',
};
const OUTCOMES = {
  allowed: 'A call would run.',
  depends: 'Whether a call would run depends on its arguments.',
  needs_approval: 'A call would wait for an approval.',
  unavailable: 'A call would be permitted, but the tool’s source or its credential is not available now.',
  denied: 'A call would be refused.',
  hidden: 'This key cannot see the tool.',
  unknown: 'The tool does not exist for this key.',
};

/** The explanation for the tool `name` or, without it, for the list. A new `visit` loads it again. */
export function Why({ name, visit }) {
  const [found, setFound] = useState({});
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let over = false;
    setFound({});
    explain(name).then(
      (reply) => !over && setFound({ reply }),
      (error) => !over && setFound({ error }),
    );
    return () => {
      over = true;
    };
  }, [name, visit, turn]);
  const again = html`<button type="button" class="button" onClick=${() => setTurn(turn + 1)}>Try again</button>`;
  return html`<div class="why" aria-live="polite">${explained(found, name, again)}</div>`;
}

function explained({ reply, error }, name, again) {
  const said = (text) => html`<p class="muted">${text}</p>`;
  if (error) return [said(`The server could not be reached (${error.message}).`), again];
  if (reply === undefined) return said('Loading the explanation…');
  if (reply.status === 200 && Array.isArray(reply.data?.steps))
    return html`<${Report} report=${reply.data} name=${name} />`;
  if (reply.status === 401) return said('The server requires a key to explain this.');
  if (reply.status === 404 || reply.status === 405)
    return said('This server does not explain its decisions.');
  return [said(problemText(reply)), again];
}

/** The panel under the notice of an empty list. */
export function WhyEmpty() {
  const [seen, setSeen] = useState(false);
  if (!hasGateway) return null;
  return html`<details class="why-empty" onToggle=${(event) => event.target.open && setSeen(true)}>
    <summary>Why is the list empty?</summary>
    ${seen && html`<${Why} />`}
  </details>`;
}

function Report({ report, name }) {
  const grants = Array.isArray(report.grants) ? report.grants.map(String) : [];
  return html`
    ${name !== undefined && html`<p class="strong">${OUTCOMES[report.outcome] ?? ''}</p>`}
    <ol class="why-steps">
      ${report.steps.map(
        (step) => html`<li data-result=${String(step?.result)}>
          <span class="why-mark" role="img" aria-label=${WORDS[step?.result] ?? 'unknown'}>${MARKS[step?.result] ?? '·'}</span>
          <span class="why-name">${NAMES[step?.step] ?? String(step?.step)}</span>
          <bdi class="why-text"><${ServerText} text=${String(step?.message ?? '')} /></bdi>
        </li>`,
      )}
    </ol>
    <p class="muted">For <${Person} name=${String(report.principal)} style="mono" /> in tenant <bdi class="mono">${String(report.tenant)}</bdi>
      ${grants.length === 0 ? ', which holds no scopes' : ', which holds '}<bdi class="mono">${grants.join(', ')}</bdi>
    </p>`;
}

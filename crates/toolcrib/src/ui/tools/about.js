// The About tab: description, danger, requirements and origin of a tool.
import { html, useData } from '../lib/ui.js';
import { DANGERS, classification, dangersOf } from '../lib/danger.js';
import { state, may } from '../state.js';
import { own } from '../json.js';
import { hasGateway } from '../shell/session.js';
import { SourceName } from '../lib/links.js';
import { egressText } from './filters.js';
import { Versions } from './versions.js';

const APPROVALS = {
  never: 'Not needed.',
  conditional: 'Depends on the arguments of the call.',
  always: 'Each call waits until another person agrees.',
};
const REPEATS = {
  deterministic: 'The same arguments give the same result, without side effects.',
  idempotent: 'Repeating a call with the same idempotency key has no further effect.',
  'non-deterministic': 'Every call counts.',
};
const HINTS = [
  ['readOnlyHint', true, 'makes no changes'],
  ['destructiveHint', true, 'may delete or overwrite'],
  ['destructiveHint', false, 'does not delete or overwrite'],
  ['idempotentHint', true, 'repeating a call has no further effect'],
  ['openWorldHint', false, 'talks to no outside system'],
  ['openWorldHint', true, 'talks to outside systems'],
];

export function About({ tool }) {
  const { toolId, otcId, source, kind, scopes, approval } = classification(tool);
  const listed = hasGateway && state.who !== undefined && toolId !== undefined;
  const more = useData(`/v1/tools/${encodeURIComponent(toolId)}`, { enabled: listed });
  const facts = more.data ?? {};
  const levels = dangersOf(tool);
  const hints = HINTS.filter(([name, value]) => own(tool.annotations, name) === value);
  const version = /@([^@]+)$/.exec(otcId ?? '')?.[1];
  return html`<div class="about">
    <section class="panel-box" aria-label="Description">
      <h3>Description</h3>
      ${
        tool.description === ''
          ? html`<p class="muted">Its author wrote no description.</p>`
          : html`<p class="description"><bdi>${tool.description}</bdi></p>`
      }
    </section>
    <section class="panel-box" aria-label="How dangerous it is">
      <h3>How dangerous it is</h3>
      ${levels.length === 0 && html`<p class="muted">It is not classified: assume that it can change things.</p>`}
      ${levels.map(
        (level) => html`<p key=${level} class="danger-line">
          <strong>${DANGERS[level].word}</strong>: ${DANGERS[level].text}
        </p>`,
      )}
      ${
        hints.length > 0 &&
        html`<p class="muted">Its author says, unverified: ${hints.map(([, , text]) => text).join('; ')}.</p>`
      }
    </section>
    <section class="panel-box" aria-label="Requirements">
      <h3>Requirements</h3>
      <dl class="about-facts">
        ${
          toolId !== undefined &&
          html`<dt>Scopes</dt>
          <dd>${scopes.length === 0 ? 'none' : scopes.map((scope) => html`<code key=${scope}>${scope}</code> `)}</dd>`
        }
        ${approval !== undefined && html`<dt>Approval</dt><dd>${APPROVALS[approval] ?? approval}</dd>`}
        ${
          facts.auth !== undefined &&
          html`<dt>Credential</dt>
          <dd>${facts.auth.credentialRef === true ? 'The gateway uses a stored one; you never see it.' : 'none'}</dd>`
        }
        ${facts.egress !== undefined && html`<dt>Network</dt><dd>${egressText(facts.egress)}</dd>`}
        ${
          facts.replayPolicy !== undefined &&
          html`<dt>Repeating</dt><dd>${REPEATS[facts.replayPolicy] ?? facts.replayPolicy}</dd>`
        }
        ${toolId === undefined && html`<dt>Access</dt><dd>This server does not say.</dd>`}
      </dl>
    </section>
    ${
      toolId !== undefined &&
      html`<section class="panel-box" aria-label="Where it comes from">
      <h3>Where it comes from</h3>
      <dl class="about-facts">
        <dt>Source</dt>
        <dd>
          <${SourceName} name=${source} />
          ${kind !== undefined && html` <span class="muted">${kind}</span>`}
        </dd>
        ${version !== undefined && html`<dt>Version</dt><dd><bdi>${version}</bdi></dd>`}
        <dt>Tool id</dt><dd><bdi class="mono">${toolId}</bdi></dd>
        ${otcId !== undefined && html`<dt>OTC id</dt><dd><bdi class="mono">${otcId}</bdi></dd>`}
      </dl>
    </section>`
    }
    ${hasGateway && may('pins:approve') && toolId !== undefined && html`<${Versions} toolId=${toolId} />`}
  </div>`;
}

// Explains a denied call in one sentence: the missing scopes, the roles that have them, and who can give
// them. The server explains the current state, so the sentence also says if a call would run now.
import { html, listed, useState, useData } from '../lib/ui.js';
import { Person, RoleName, ToolName } from '../lib/links.js';
import { toolName } from '../lib/tool-name.js';
import { may } from '../state.js';

/** The meanings of the reasons, for denials without a detailed explanation. */
const REASONS = {
  unauthenticated: 'The request had no valid key or token.',
  tenant: 'The tool does not exist for the tenant of the caller.',
  scope: 'The caller lacks a scope of the tool.',
  unlabelled: 'The tool has no scopes configured, so every call is denied.',
  policy: 'A policy forbids it.',
  undecided: 'The policies could not be evaluated, so every call is denied.',
  unknown: 'The tool does not exist for the caller.',
  forbidden: 'The caller may not use the tool.',
  unknown_state: 'The browser brought back an answer that was not requested, was used, or came too late.',
  other_browser: 'The answer came from another browser than the one that began.',
  other_principal: 'The answer came from another principal than the one that began.',
  lost_scope: 'The principal has lost the scope to connect accounts of the tenant.',
  other_source: 'The answer came to the address of another source.',
  other_response: 'The answer is not that of the service.',
  other_redirect: 'The client has lost the address to which the browser would go.',
  declined: 'The person did not agree.',
  not_signed_in: 'The identity provider did not sign the person in.',
  rate_limited: 'The caller exceeded a rate limit. It may call again later.',
  quota_exceeded: 'The caller exceeded the daily quota.',
};

/** Whether an event is a denial that can be explained. */
export function isDenial({ event, facts }) {
  return event.type === 'authorization.decided' || facts?.status === 'denied' || facts?.status === 'forbidden';
}

export function Why({ it }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class="quiet" aria-expanded=${open} data-why onClick=${() => setOpen(!open)}>Why?</button>
    ${open && html`<${Sentence} it=${it} />`}`;
}

function Sentence({ it: { event, facts = {} } }) {
  // The result of a denied call has no reason; the denial before it in the run has.
  const isResult = event.type !== 'authorization.decided';
  const search = new URLSearchParams({ run: event.runId, type: 'authorization.decided' });
  const denial = useData(`/v1/events?${search}`, { enabled: isResult });
  if (isResult && denial.loading) return html`<p class="muted" role="status">Loading the reason…</p>`;
  const own = denial.data?.events.find((it) => it.event.causationId === event.causationId);
  const decided = isResult ? own?.event : event;
  return html`<${Reason} payload=${decided?.payload ?? event.payload} code=${event.payload.error?.code} facts=${facts} />`;
}

function Reason({ payload, code, facts }) {
  const { reason, resource, missing: lacked = [] } = payload;
  const { principal } = facts;
  const tool = facts.tool ?? resource;
  const isExplained = may('explain:others') && principal !== undefined && tool?.includes(':') === true;
  const search = new URLSearchParams({ tool, principal });
  const found = useData(`/v1/explain?${search}`, { enabled: isExplained });
  // The event has the scopes missing then; the server explains those missing now.
  const missing = lacked.length > 0 ? lacked : missingScopes(found.data);
  const roles = useData('/v1/roles', { enabled: missing.length > 0 && may('roles:read') }).data?.roles;
  if (isExplained && found.loading) return html`<p class="muted" role="status">Loading the explanation…</p>`;
  const words = REASONS[reason ?? code] ?? 'The call was denied.';
  return html`<p class="denial" role="status" data-denial>
    ${missing.length > 0
      ? html`<${Person} name=${principal} style="strong" /> ${lacked.length > 0 ? 'lacked' : 'lacks'}${' '}
        ${listed(missing.map((it) => html`<code key=${it}>${it}</code>`))} for <${ToolName} name=${toolName(tool)} />.${' '}
        <${Remedy} missing=${missing} roles=${roles} />`
      : words}
    ${found.data?.outcome === 'allowed' && html` <strong>A call of <${Person} name=${principal} /> would run now: something has changed since.</strong>`}
  </p>`;
}

/** The roles with the missing scopes, if the reader may see them, and who can give them. */
function Remedy({ missing, roles }) {
  const all = (roles ?? []).filter(({ scopes }) => missing.every((scope) => scopes?.some((it) => covers(it, scope))));
  return html`${roles !== undefined &&
    (all.length === 0
      ? 'No role of this tenant has it. '
      : html`${all.length === 1 ? 'The role' : 'The roles'} ${listed(all.map(({ name }) => html`<${RoleName} key=${name} name=${name} />`))} ${all.length === 1 ? 'has' : 'have'} it. `)}
    A caller with it and the scope <code>keys:manage</code> can give it.`;
}

function missingScopes(report) {
  const step = report?.steps?.find(({ step, result }) => step === 'scope' && result === 'stop');
  return (step?.details?.required ?? []).filter(({ grant }) => grant === null).map(({ scope }) => scope);
}

/**
 * Whether a grant covers a tool's scope: `*` is one segment, and at the end one or more. No tool
 * requires a scope that must be named.
 */
function covers(grant, scope) {
  const [held, wanted] = [grant.split(':'), scope.split(':')];
  const last = held.length - 1;
  const isLong = held[last] === '*' ? wanted.length > last : wanted.length === held.length;
  return isLong && held.every((segment, at) => segment === '*' || segment === wanted[at]);
}

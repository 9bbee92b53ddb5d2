// Metadata of a tool beyond its name: the hints of its upstream (`annotations`, unverified) and the
// operator's classification (`_meta`).
import { h } from './dom.js';
import { own } from './json.js';

const HINTS = [
  {
    id: 'read-only',
    label: 'read-only',
    color: 'green',
    test: (a) => own(a, 'readOnlyHint') === true,
    title: 'The upstream says: changes nothing',
  },
  {
    id: 'destructive',
    label: 'destructive',
    color: 'red',
    test: (a) => own(a, 'destructiveHint') === true,
    title: 'The upstream says: may delete or overwrite',
  },
  {
    id: 'idempotent',
    label: 'idempotent',
    color: 'blue',
    test: (a) => own(a, 'idempotentHint') === true,
    title: 'The upstream says: repeating a call changes nothing more',
  },
  {
    id: 'closed-world',
    label: 'closed world',
    color: 'grey',
    test: (a) => own(a, 'openWorldHint') === false,
    title: 'The upstream says: talks to no outside system',
  },
];

const TIER_COLORS = { read: 'green', write: 'amber', exec: 'red' };

export const hintLabels = new Map(HINTS.map((hint) => [hint.id, hint.label]));

export function hintsOf(tool) {
  return HINTS.filter((hint) => hint.test(tool.annotations)).map((hint) => hint.id);
}

/** Returns the operator's classification, as far as the server sends it. */
export function classification(tool) {
  const text = (key) => {
    const value = own(tool._meta, `toolcrib/${key}`);
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const scopes = own(tool._meta, 'toolcrib/scopes');
  return {
    toolId: text('toolId'),
    otcId: text('otcId'),
    tier: text('tier'),
    /** The source of the tool; a server that does not name it sends at least its kind. */
    source: text('sourceId') ?? text('source'),
    kind: text('sourceId') === undefined ? undefined : text('source'),
    approval: text('approval'),
    scopes: Array.isArray(scopes) ? scopes.filter((scope) => typeof scope === 'string') : [],
  };
}

export function needsApproval(tool) {
  const { approval } = classification(tool);
  return approval !== undefined && approval !== 'never';
}

export function badges(tool) {
  const { tier, approval } = classification(tool);
  const list = [];
  if (tier) list.push(badge(tier, TIER_COLORS[tier] ?? 'grey', 'Safety tier, set by the operator'));
  if (needsApproval(tool))
    list.push(badge(`approval: ${approval}`, 'violet', 'Each call requires an approval'));
  for (const hint of HINTS) {
    if (hint.test(tool.annotations)) list.push(badge(hint.label, `${hint.color} hint`, hint.title));
  }
  return list;
}

export function badge(text, color, title) {
  return h('span', { class: `badge ${color}`, title, text });
}

/** Returns the reasons to confirm a run of this tool, or an empty list. */
export function dangers(tool) {
  const reasons = [];
  const { tier } = classification(tool);
  if (own(tool.annotations, 'destructiveHint') === true)
    reasons.push('It is marked destructive: it may delete or overwrite things.');
  if (tier === 'write')
    reasons.push('Its safety tier is “write”: it changes something outside this page.');
  if (tier === 'exec') reasons.push('Its safety tier is “exec”: it runs a program on the host.');
  return reasons;
}

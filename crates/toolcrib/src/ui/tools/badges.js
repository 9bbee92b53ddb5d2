// Metadata of a tool beyond its name: the hints of its upstream (`annotations`, unverified), the
// operator's classification (`_meta`), and how dangerous the tool is, in a shape and a word.
import { h, icon } from '../dom.js';
import { own } from '../json.js';

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

/** Each level: its word, its colour, and a sentence. The shape is the icon of the same name. */
export const DANGERS = {
  read: {
    word: 'read',
    tone: 'blue',
    text: 'Only reads or computes. It changes nothing.',
  },
  write: {
    word: 'write',
    tone: 'amber',
    text: 'Changes something outside this page.',
  },
  destructive: {
    word: 'destructive',
    tone: 'red',
    text: 'May delete or overwrite things. What it removes may be gone for good.',
  },
  exec: {
    word: 'runs commands',
    tone: 'violet',
    text: 'Runs a program on the host of the gateway.',
  },
};
const LEVELS = { pure: 'read', read: 'read', write: 'write', exec: 'exec' };

/** Returns the levels of danger that apply to a tool, the most important one first. */
export function dangersOf(tool) {
  const { tier } = classification(tool);
  const hint = (name) => own(tool.annotations, name) === true;
  const levels = levelsOf(tier, hint('destructiveHint'));
  // Without the operator's tier, the upstream's own word is all there is.
  return levels.length === 0 && hint('readOnlyHint') ? ['read'] : levels;
}

/** Returns the levels of a tier, and of the word of the upstream. */
export function levelsOf(tier, destructive) {
  const level = Object.hasOwn(LEVELS, tier ?? '') ? LEVELS[tier] : undefined;
  const levels = destructive ? ['destructive'] : [];
  if (level === 'exec' || (levels.length === 0 && level !== undefined)) levels.push(level);
  return levels;
}

/** A shape with its word. */
export function dangerMark(level) {
  const { word, tone } = DANGERS[level];
  return h('span', { class: `level ${tone}`, data: { danger: level } }, icon(level), word);
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

/** The marks under the name of an open tool. */
export function badges(tool) {
  const list = dangersOf(tool).map(dangerMark);
  if (needsApproval(tool))
    list.push(badge('needs approval', 'violet', 'Calls wait until a person agrees'));
  for (const hint of HINTS) {
    if (hint.id === 'destructive' || !hint.test(tool.annotations)) continue;
    list.push(badge(hint.label, `${hint.color} hint`, hint.title));
  }
  return list;
}

export function badge(text, color, title) {
  return h('span', { class: `badge ${color}`, title, text });
}

/** Returns the reasons to confirm a run of this tool, or an empty list. */
export function reasonsToConfirm(tool) {
  return dangersOf(tool)
    .filter((level) => level !== 'read')
    .map((level) => DANGERS[level].text);
}

export function isDestructive(tool) {
  return dangersOf(tool).includes('destructive');
}

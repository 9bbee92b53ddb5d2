// How dangerous a tool is, in a shape and a word, and the operator's classification of it (`_meta`).
import { own } from '../json.js';

/** Each level: its word, its colour, and a sentence. The shape is the icon of the same name. */
export const DANGERS = {
  read: {
    word: 'read',
    tone: 'blue',
    text: 'Only reads or computes. It makes no changes.',
  },
  write: {
    word: 'write',
    tone: 'amber',
    text: 'Changes something outside this page.',
  },
  destructive: {
    word: 'destructive',
    tone: 'red',
    text: 'May delete or overwrite things, possibly for good.',
  },
  exec: {
    word: 'runs commands',
    tone: 'violet',
    text: 'Runs a program on the host of the gateway.',
  },
};
const LEVELS = { pure: 'read', read: 'read', write: 'write', exec: 'exec' };

/** The danger levels of a tool, the most important one first. */
export function dangersOf(tool) {
  const { tier } = classification(tool);
  const hint = (name) => own(tool.annotations, name) === true;
  const levels = levelsOf(tier, hint('destructiveHint'));
  // Without the operator's tier, the upstream's hint decides.
  return levels.length === 0 && hint('readOnlyHint') ? ['read'] : levels;
}

/** The danger levels of the operator's tier and the upstream's destructive hint. */
export function levelsOf(tier, destructive) {
  const level = Object.hasOwn(LEVELS, tier ?? '') ? LEVELS[tier] : undefined;
  const levels = destructive ? ['destructive'] : [];
  if (level === 'exec' || (levels.length === 0 && level !== undefined)) levels.push(level);
  return levels;
}

/** The operator's classification, as far as the server sends it. */
export function classification(tool) {
  const text = (key) => {
    const value = own(tool._meta, `toolcrib/${key}`);
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const scopes = own(tool._meta, 'toolcrib/scopes');
  return {
    toolId: text('toolId'),
    otcId: text('otcId'),
    egress: text('egress'),
    hasCredential: own(tool._meta, 'toolcrib/credential') === true,
    tier: text('tier'),
    /** The id of the tool's source, or its kind if the server sends no id. */
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

/** The reasons to confirm a run of this tool; may be empty. */
export function reasonsToConfirm(tool) {
  return dangersOf(tool)
    .filter((level) => level !== 'read')
    .map((level) => DANGERS[level].text);
}

export function isDestructive(tool) {
  return dangersOf(tool).includes('destructive');
}

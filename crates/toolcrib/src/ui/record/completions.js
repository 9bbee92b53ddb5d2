// Completions of the last word of a query: field names, and values that the caller may see.
import { state } from '../state.js';
import { classification } from '../lib/danger.js';
import { NAMES } from './names.js';

/** The most completions offered. */
const MOST = 30;
const FIELDS = ['actor:', 'tool:', 'source:', 'kind:', 'type:', 'status:', 'took:', 'run:', 'id:', 'after:', 'before:'];
const STATUSES = ['ok', 'error', 'failed', 'denied', 'forbidden', 'rate_limited', 'approval_required', 'timeout'];
const AGES = ['1h', '24h', '7d', '30d', 'today', 'yesterday'];
const RUN_TIMES = ['>100ms', '>1s', '>10s', '<100ms'];

/** Returns whole queries that start with `text`. `summary` counts the events that match it now. */
export function completions(text, summary) {
  const start = text.slice(0, text.search(/[^\s-]\S*$|$/));
  const word = text.slice(start.length);
  const [, field, value] = /^(\w+:)(.*)$/.exec(word) ?? [];
  const used = new Set(start.match(/\w+:/g) ?? []);
  const whole = (all) => all.slice(0, MOST).map((it) => start + it);
  if (field === undefined)
    return whole(FIELDS.filter((it) => it.startsWith(word) && it !== word && !used.has(it)));
  const values = [...new Set(valuesOf(field, summary))].filter(
    // Spaces separate conditions.
    (it) => it.toLowerCase().startsWith(value.toLowerCase()) && it !== value && !/\s/.test(it),
  );
  return whole(values.map((it) => field + it));
}

function valuesOf(field, summary) {
  const tools = state.tools.map(classification);
  const named = (groups) => (groups ?? []).map(({ name }) => name);
  switch (field) {
    case 'actor:':
      return named(summary?.principals);
    case 'tool:':
      return [...named(summary?.tools), ...tools.map(({ toolId }) => toolId ?? '')];
    case 'source:':
      return tools.map(({ source }) => source ?? '');
    case 'kind:':
      return tools.map(({ kind }) => kind ?? '');
    case 'type:':
      return Object.keys(NAMES);
    case 'status:':
      return STATUSES;
    case 'took:':
      return RUN_TIMES;
    case 'after:':
    case 'before:':
      return AGES;
    default:
      return [];
  }
}

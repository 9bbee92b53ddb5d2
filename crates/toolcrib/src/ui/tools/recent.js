// The latest calls of a tool in the record, with latency and the share of errors, for callers that may
// read the record.
import { h, formatMs, plural } from '../dom.js';
import { request } from '../api.js';
import { isObject, own } from '../json.js';
import { hasGateway, may } from '../shell/session.js';
import { href } from '../shell/routes.js';
import { ago } from '../lib/ui.js';
import { classification } from './badges.js';

/** The newest events of the tool. */
const LIMIT = 200;
const SHOWN = 20;

/** Fills `host`, or leaves it hidden. */
export async function recentCalls(tool, host) {
  const { toolId } = classification(tool);
  if (!hasGateway || toolId === undefined || !may('audit:read')) return;
  const events = await newestEvents(toolId);
  if (events === undefined) return;
  const calls = callsOf(events, toolId);
  host.hidden = false;
  host.replaceChildren(
    h('h3', { text: 'In the record' }),
    figures(calls),
    calls.length === 0
      ? h('p', { class: 'muted', text: 'The record of your tenant has no call of it.' })
      : table(calls.slice(0, SHOWN)),
    h(
      'p',
      {},
      h('a', { href: href('record', [], { q: `tool:${toolId}` }) }, 'All its calls in the record'),
    ),
  );
}

/** Returns the newest events of a tool, of the types that match `type`. */
export async function newestEvents(toolId, type = '*') {
  try {
    const reply = await request('GET', `/v1/events?limit=${LIMIT}&tool=${encodeURIComponent(toolId)}&type=${type}`);
    return reply.status === 200 && isObject(reply.data) ? reply.data : undefined;
  } catch {
    return undefined;
  }
}

/** Joins the events of each call, the newest first: who called, when, how it ended, how long it took. */
function callsOf({ events }, toolId) {
  const calls = new Map();
  for (const entry of Array.isArray(events) ? events : []) {
    const event = own(entry, 'event') ?? entry;
    const payload = own(event, 'payload');
    const id = own(payload, 'callId');
    if (typeof id !== 'string' || own(payload, 'toolName') !== toolId) continue;
    const call = calls.get(id) ?? { runId: own(event, 'runId') };
    calls.set(id, call);
    if (event.type === 'agent.toolCalled') {
      call.at = event.timestamp;
      call.principal = own(payload, 'principal');
    } else if (event.type === 'agent.toolReturned') {
      call.end = event.timestamp;
      call.status = own(payload, 'status');
      call.code = own(own(payload, 'error'), 'code');
      call.ms = own(payload, 'durationMs') ?? own(payload, 'latencyMs');
    }
  }
  return [...calls.values()].reverse().map((call) => ({
    ...call,
    ms: call.ms ?? between(call.at, call.end),
    // A call that waits for an approval has not failed.
    waits: call.code === 'approval_required',
    failed: call.status !== undefined && call.status !== 'ok' && call.code !== 'approval_required',
  }));
}

function between(from, to) {
  const ms = new Date(to ?? NaN) - new Date(from ?? NaN);
  return Number.isNaN(ms) ? undefined : ms;
}

function figures(calls) {
  const done = calls.filter((call) => call.status !== undefined);
  const times = done
    .map((call) => call.ms)
    .filter((ms) => ms !== undefined)
    .sort((a, b) => a - b);
  const failed = done.filter((call) => call.failed).length;
  if (done.length === 0) return undefined;
  const rows = [
    ['Calls', `the last ${plural(done.length, 'call')}`],
    ['Errors', `${Math.round((failed / done.length) * 100)} % (${failed})`],
    ['Usual time', times.length === 0 ? undefined : formatMs(times[Math.floor(times.length / 2)])],
    [
      'Slowest of 20',
      times.length < 20 ? undefined : formatMs(times[Math.floor(times.length * 0.95)]),
    ],
  ].filter(([, text]) => text !== undefined);
  return h(
    'dl',
    { class: 'tool-facts' },
    rows.map(([name, text]) => h('div', {}, h('dt', { text: name }), h('dd', { text }))),
  );
}

function table(calls) {
  return h(
    'div',
    { class: 'table-scroll', tabindex: '0', role: 'region', 'aria-label': 'Table of recent calls' },
    h(
      'table',
      {},
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          ['When', 'Caller', 'Result', 'Time'].map((text) =>
            h('th', { scope: 'col', class: text === 'Time' ? 'right' : '', text }),
          ),
        ),
      ),
      h('tbody', {}, calls.map(row)),
    ),
  );
}

function row(call) {
  const date = new Date(call.at ?? call.end ?? NaN);
  const when = Number.isNaN(date.getTime())
    ? '–'
    : h('time', { datetime: date.toISOString(), title: date.toLocaleString(), text: ago(date) });
  const linked =
    typeof call.runId === 'string'
      ? h('a', { href: href('record', ['run', call.runId]) }, when)
      : when;
  const [tone, word] =
    call.status === undefined
      ? ['grey', 'running']
      : call.waits
        ? ['amber', 'needs approval']
        : call.failed
          ? ['red', String(call.code ?? 'error').replaceAll('_', ' ')]
          : ['green', 'ok'];
  return h(
    'tr',
    {},
    h('td', {}, linked),
    h('td', {}, h('bdi', { text: String(call.principal ?? '–') })),
    h('td', {}, h('span', { class: `badge ${tone}`, text: word })),
    h('td', { class: 'right', text: call.ms === undefined ? '–' : formatMs(call.ms) }),
  );
}

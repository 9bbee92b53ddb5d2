// The latest calls of a tool in the record, with latency and the share of errors, for callers that may
// read the record.
import { html, ago, plural, Badge, useEffect, useState } from '../lib/ui.js';
import { classification } from '../lib/danger.js';
import { formatMs } from '../lib/format.js';
import { Person } from '../lib/links.js';
import { request } from '../api.js';
import { isObject, own } from '../json.js';
import { may } from '../state.js';
import { hasGateway } from '../shell/session.js';
import { href } from '../lib/address.js';

/** How many of the tool's newest events are read. */
const LIMIT = 200;
const SHOWN = 20;

/** `visit` counts how often the tab was opened: each time the calls are loaded again. */
export function RecentCalls({ tool, visit }) {
  const { toolId } = classification(tool);
  const [calls, setCalls] = useState();
  useEffect(() => {
    if (!hasGateway || toolId === undefined || !may('audit:read')) return undefined;
    let over = false;
    newestEvents(toolId).then((events) => !over && events && setCalls(callsOf(events, toolId)));
    return () => {
      over = true;
    };
  }, [toolId, visit]);
  if (calls === undefined) return null;
  return html`<section class="sub" aria-label="Recent calls">
    <h3>In the record</h3>
    <${Figures} calls=${calls} />
    ${
      calls.length === 0
        ? html`<p class="muted">The record of your tenant has no call of this tool.</p>`
        : html`<${Table} calls=${calls.slice(0, SHOWN)} />`
    }
    <p><a href=${href('record', [], { q: `tool:${toolId}` })}>All its calls in the record</a></p>
  </section>`;
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

/** Joins the events of each call, the newest first: caller, time, result and duration. */
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

function Figures({ calls }) {
  const done = calls.filter((call) => call.status !== undefined);
  const times = done
    .map((call) => call.ms)
    .filter((ms) => ms !== undefined)
    .sort((a, b) => a - b);
  const failed = done.filter((call) => call.failed).length;
  if (done.length === 0) return null;
  const rows = [
    ['Calls', `the last ${plural(done.length, 'call')}`],
    ['Errors', `${Math.round((failed / done.length) * 100)} % (${failed})`],
    ['Usual time', times.length === 0 ? undefined : formatMs(times[Math.floor(times.length / 2)])],
    [
      'Slowest of 20',
      times.length < 20 ? undefined : formatMs(times[Math.floor(times.length * 0.95)]),
    ],
  ].filter(([, text]) => text !== undefined);
  return html`<dl class="tool-facts">
    ${rows.map(([name, text]) => html`<div key=${name}><dt>${name}</dt><dd>${text}</dd></div>`)}
  </dl>`;
}

function Table({ calls }) {
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label="Table of recent calls">
    <table>
      <thead><tr>
        <th scope="col">When</th><th scope="col">Caller</th><th scope="col">Result</th>
        <th scope="col" class="right">Time</th>
      </tr></thead>
      <tbody>${calls.map((call) => html`<${Row} call=${call} />`)}</tbody>
    </table>
  </div>`;
}

function Row({ call }) {
  const date = new Date(call.at ?? call.end ?? NaN);
  const when = Number.isNaN(date.getTime())
    ? '–'
    : html`<time datetime=${date.toISOString()} title=${date.toLocaleString()}>${ago(date)}</time>`;
  const [tone, word] =
    call.status === undefined
      ? ['grey', 'running']
      : call.waits
        ? ['amber', 'needs approval']
        : call.failed
          ? ['red', String(call.code ?? 'error').replaceAll('_', ' ')]
          : ['green', 'ok'];
  return html`<tr>
    <td>${typeof call.runId === 'string' ? html`<a href=${href('record', ['run', call.runId])}>${when}</a>` : when}</td>
    <td>${typeof call.principal === 'string' ? html`<${Person} name=${call.principal} />` : '–'}</td>
    <td><${Badge} tone=${tone}>${word}<//></td>
    <td class="right">${call.ms === undefined ? '–' : formatMs(call.ms)}</td>
  </tr>`;
}

// The record: who did what? The newest events of the tenant, filtered here, and one run as a timeline.
import {
  html,
  useMemo,
  useRef,
  useState,
  milliseconds,
  number,
  plural,
  useData,
  useEvents,
  useTick,
  Badge,
  Button,
  Copy,
  Empty,
  Loaded,
  Time,
} from '../lib/ui.js';
import { pretty } from '../json.js';
import { go, href } from '../shell/routes.js';
import { Chart } from './chart.js';
import { FIELDS, facts, matches, parse, wire } from './query.js';

/** The server returns at most this many events at once. */
const NEWEST = 1000;
/** Rows that are drawn at first. */
const ROWS = 200;

export default function Record({ route, who }) {
  return route.path[0] === 'run'
    ? html`<${Run} key=${route.path[1]} id=${route.path[1] ?? ''} />`
    : html`<${Events} route=${route} who=${who} />`;
}

/** Who made each call: only its first event says so. */
function actorsOf(entries) {
  const actors = new Map();
  for (const { event } of entries) {
    if (event.payload.principal !== undefined && event.payload.callId !== undefined)
      actors.set(event.payload.callId, event.payload.principal);
  }
  return actors;
}

function Events({ route }) {
  const text = route.query.get('q') ?? '';
  const [turn, setTurn] = useState(0);
  const [fresh, setFresh] = useState(0);
  const [rows, setRows] = useState(ROWS);
  const last = useRef(0);
  useTick();
  const found = useData(`/v1/events?limit=${NEWEST}`, { key: String(turn) });
  if (found.data) last.current = found.data.next;
  useEvents(['live:record'], ({ position }) => setFresh(Math.max(position - last.current, 0)));
  const show = () => {
    setFresh(0);
    setTurn((it) => it + 1);
  };
  const { terms, problem } = useMemo(() => parse(text), [text]);
  const entries = found.data?.events;
  const all = useMemo(() => {
    const actors = actorsOf(entries ?? []);
    const row = (entry) => ({ ...facts(entry, actors), position: entry.position, entry });
    return (entries ?? []).map(row).reverse();
  }, [entries]);
  const shown = problem ? [] : all.filter((it) => matches(it, terms));
  const ended = shown.filter((it) => it.type === 'agent.toolReturned');
  const query = (value) => go('record', [], { q: value }, { replace: true });
  const add = (field, value) => {
    const kept = terms.filter(([name]) => name !== field).map(([name, it]) => `${name}:${it}`);
    query([...kept, `${field}:${value}`].join(' '));
  };
  return html`<div>
    <div class="screen-head">
      <div>
        <h2>Record</h2>
        <p>Every call and decision of your tenant, the newest first. It has no arguments and no results.</p>
      </div>
      <${Button} onClick=${show}>Refresh<//>
    </div>
    <div class="bar">
      <input class="input grow mono" type="search" spellcheck="false" autocomplete="off" id="record-query"
        aria-label="Filter the record" placeholder="actor:ada tool:files__* status:denied" value=${text}
        aria-invalid=${problem ? 'true' : undefined} aria-describedby="record-hint"
        onInput=${(event) => query(event.target.value)} />
      ${[
        ['denied', 'status:denied'],
        ['failed', 'status:failed'],
        ['approvals', 'type:interrupt.requested'],
      ].map(
        ([word, filter]) => html`<button type="button" class="chip" key=${word}
          aria-pressed=${text === filter} onClick=${() => query(text === filter ? '' : filter)}>${word}</button>`,
      )}
    </div>
    <p class=${problem ? 'bad' : 'muted'} id="record-hint" role=${problem ? 'alert' : undefined}>
      ${problem ?? `Fields: ${FIELDS.join(', ')}. A star stands for any text.`}
    </p>
    <${Loaded} of=${found} rows=${10}>
      ${({ events }) =>
        events.length === 0
          ? html`<${Empty} title="Nothing is recorded yet">
              <p class="muted">The first call of a tool appears here.</p>
            <//>`
          : html`<${Chart} calls=${ended} />
              <p class="row">
                <span class="muted">${number(shown.length)} of the newest ${plural(events.length, 'event')} match.
                ${events.length === NEWEST && ' Older ones: toolcrib audit export.'}</span>
                <button type="button" class="quiet" disabled=${shown.length === 0}
                  onClick=${() => download(shown)}>Download as JSON lines</button>
              </p>
              <div class="table-box" tabindex="0" role="region" aria-label="Events">
                ${fresh > 0 &&
                html`<button type="button" class="fresh" onClick=${show}>${plural(fresh, 'new event')}</button>`}
                <table class="table">
                  <thead>
                    <tr><th>Time</th><th>Event</th><th>Actor</th><th>Tool</th><th>Status</th><th class="right">Took</th><th>Run</th></tr>
                  </thead>
                  <tbody>
                    ${shown.slice(0, rows).map((it) => html`<${Row} key=${it.position} it=${it} add=${add} />`)}
                  </tbody>
                </table>
              </div>
              ${shown.length > rows &&
              html`<p><${Button} onClick=${() => setRows(rows + ROWS)}>Show more<//></p>`}`}
    <//>
  </div>`;
}

/** Saves the matching events, the oldest first, as the API returns them. */
function download(shown) {
  const lines = shown.map((it) => JSON.stringify(it.entry)).reverse();
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([`${lines.join('\n')}\n`], { type: 'application/jsonl' }));
  link.download = `record-${new Date().toISOString().slice(0, 10)}.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** What people call the types of events. */
const NAMES = {
  'agent.toolCalled': 'call',
  'agent.toolReturned': 'result',
  'authorization.decided': 'denied',
  'egress.decided': 'connection',
  'tool.session.opened': 'session opened',
  'tool.session.closed': 'session closed',
  'interrupt.requested': 'approval requested',
  'approval.granted': 'approved',
  'approval.rejected': 'rejected',
  'approval.overridden': 'overridden',
  'tool.pin.drifted': 'tool changed',
  'tool.pin.approved': 'change approved',
  'record.accepted': 'record accepted',
  'config.edited': 'configuration edited',
};

const TONES = { ok: 'green', error: 'red', forbidden: 'amber', rate_limited: 'amber', denied: 'amber' };

function Status({ it }) {
  if (it.status === '') return null;
  return html`<${Badge} tone=${TONES[it.status] ?? 'grey'}>${it.status.replace('_', ' ')}<//>
    ${it.code !== '' && it.code !== it.status && html` <span class="muted">${it.code.replaceAll('_', ' ')}</span>`}`;
}

function Row({ it, add }) {
  const filter = (field, value, shown) =>
    value === ''
      ? html`<span class="muted">–</span>`
      : html`<button type="button" class="quiet" title=${`Only ${field} ${value}`}
          onClick=${() => add(field, value)}><bdi>${shown}</bdi></button>`;
  return html`<tr data-type=${it.type}>
    <td class="nowrap"><${Time} at=${it.at} /></td>
    <td>${NAMES[it.type] ?? it.type}</td>
    <td>${filter('actor', it.actor, it.actor)}</td>
    <td>${filter('tool', it.tool, wire(it.tool))}</td>
    <td class="nowrap"><${Status} it=${it} /></td>
    <td class="right">${it.ms === undefined ? '' : milliseconds(it.ms)}</td>
    <td><a href=${href('record', ['run', it.run])}><code>${it.run.slice(-8)}</code></a></td>
  </tr>`;
}

function Run({ id }) {
  const found = useData(`/v1/runs/${encodeURIComponent(id)}/events`);
  return html`<div>
    <div class="screen-head">
      <div>
        <p><a href=${href('record')}>Record</a></p>
        <h2>Run <code>${id}</code></h2>
      </div>
      <${Copy} text=${id} label="Copy the id" />
    </div>
    <${Loaded} of=${found}>
      ${(data) => {
        const events = Array.isArray(data) ? data : (data.events ?? []);
        const actors = actorsOf(events.map((event) => ({ event })));
        if (events.length === 0)
          return html`<${Empty} title="There is no such run"><p class="muted">It may have passed its retention.</p><//>`;
        const began = new Date(events[0].timestamp).getTime();
        return html`<section class="panel padded">
          <p class="muted">Began <${Time} at=${events[0].timestamp} />.</p>
          <ol class="timeline">
            ${events.map((event) => {
              const it = facts({ event }, actors);
              return html`<li key=${event.eventId}>
                <time datetime=${event.timestamp} title=${new Date(event.timestamp).toLocaleString()}>
                  +${milliseconds(new Date(event.timestamp).getTime() - began)}
                </time>
                <div class=${`what ${event.causationId ? 'inner' : ''}`}>
                  <div class="row">
                    <strong>${NAMES[event.type] ?? event.type}</strong>
                    ${it.tool !== '' && html`<bdi class="mono">${wire(it.tool)}</bdi>`}
                    ${it.actor !== '' && html`<span class="muted">by <bdi>${it.actor}</bdi></span>`}
                    <${Status} it=${it} />
                    ${it.ms !== undefined && html`<span class="muted">${milliseconds(it.ms)}</span>`}
                  </div>
                  <details><summary>Event</summary><pre class="lines">${pretty(event)}</pre></details>
                </div>
              </li>`;
            })}
          </ol>
        </section>`;
      }}
    <//>
  </div>`;
}

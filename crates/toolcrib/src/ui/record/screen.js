// The record: who did what? Searches by the server, counts over time, and one run as a timeline.
import {
  html,
  announce,
  useEffect,
  useRef,
  useState,
  milliseconds,
  number,
  plural,
  send,
  setAbsoluteTimes,
  useAbsoluteTimes,
  useData,
  useEvents,
  useTick,
  Badge,
  Button,
  Copy,
  Empty,
  Icon,
  Loaded,
  Time,
} from '../lib/ui.js';
import { request, fetchWithKey, problemText } from '../api.js';
import { saveFile } from '../dom.js';
import { visible } from '../json.js';
import { Person, ToolName } from '../lib/links.js';
import { toolName } from '../lib/tool-name.js';
import { href } from '../lib/address.js';
import { go } from '../shell/routes.js';
import { Charts } from './chart.js';
import { completions } from './completions.js';
import { Why, isDenial } from './denial.js';
import { NAMES, TONES } from './names.js';
import { has, parts, withCondition } from './query.js';
import { Verify } from './verify.js';
import { Views } from './views.js';

/** Events of one page. */
const ROWS = 100;
/** The pause between the last keystroke and the search, in ms. */
const PAUSE = 250;
const RANGES = [
  ['1h', 'the last hour'],
  ['24h', 'the last 24 hours'],
  ['7d', 'the last 7 days'],
  ['30d', 'the last 30 days'],
  ['all', 'all time'],
];
/** The period before each range, with its name. */
const BEFORE = {
  '1h': { from: '2h', to: '1h', name: 'the hour before' },
  '24h': { from: '48h', to: '24h', name: 'the 24 hours before' },
  '7d': { from: '14d', to: '7d', name: 'the 7 days before' },
  '30d': { from: '60d', to: '30d', name: 'the 30 days before' },
};
const FORMATS = [
  ['jsonl', 'JSON lines with hashes'],
  ['csv', 'CSV, for spreadsheets'],
  ['ocsf', 'OCSF'],
  ['cloudevents', 'CloudEvents'],
];
const SHORTCUTS = [
  ['denied', 'status:denied'],
  ['failed', 'status:failed'],
  ['approvals', 'type:interrupt.requested'],
];

export function Record({ route, who }) {
  return route.path[0] === 'run'
    ? html`<${Run} key=${route.path[1]} id=${route.path[1] ?? ''} />`
    : html`<${Events} route=${route} who=${who} />`;
}

/** The conditions as parameters. A time in the text replaces the range. */
function parameters(text, range) {
  const all = new URLSearchParams();
  if (text.trim() !== '') all.set('query', text.trim());
  if (range !== 'all' && !has(text, 'after', 'from')) all.set('from', range);
  // The page always searches, so that every event comes with its facts.
  if ([...all].length === 0) all.set('query', '');
  return all;
}

/** The conditions for the period before the chosen one; `undefined` if there is no period before it. */
function parametersBefore(text, range) {
  const before = BEFORE[range];
  if (before === undefined || has(text, 'after', 'from', 'before', 'to')) return undefined;
  const all = new URLSearchParams({ from: before.from, to: before.to });
  if (text.trim() !== '') all.set('query', text.trim());
  return all;
}

/** The columns of the table. `of` is the value of a row there, by which rows are sorted. */
const COLUMNS = [
  { name: 'time', title: 'Time' },
  { name: 'event', title: 'Event', of: ({ event }) => NAMES[event.type] ?? event.type },
  { name: 'actor', title: 'Actor', of: ({ facts }) => facts?.principal ?? '' },
  { name: 'tool', title: 'Tool', of: ({ facts }) => toolName(facts?.tool ?? '') },
  { name: 'status', title: 'Status', of: (it) => `${it.facts?.status ?? ''} ${codeOf(it.event) ?? ''}` },
  // Sorted by the server, over all matching events.
  { name: 'took', title: 'Took', right: true },
  { name: 'run', title: 'Run' },
];

/** Sorts rows by a column. Rows without a value come last. */
function sorted(rows, column) {
  const { of } = COLUMNS.find((it) => it.name === column) ?? {};
  if (of === undefined) return rows;
  const key = (it) => of(it).trim();
  return [...rows].sort((a, b) => {
    const [one, other] = [key(a), key(b)];
    if ((one === '') !== (other === '')) return one === '' ? 1 : -1;
    return one.localeCompare(other);
  });
}

function Events({ route }) {
  const text = route.query.get('q') ?? '';
  const range = route.query.get('range') ?? '24h';
  const [typed, setTyped] = useState(text);
  const [turn, setTurn] = useState(0);
  const [fresh, setFresh] = useState(0);
  const [live, setLive] = useState(false);
  const [older, setOlder] = useState({ entries: [] });
  const known = useRef(0);
  useTick();
  const absolute = useAbsoluteTimes();
  const search = parameters(text, range).toString();
  const sort = route.query.get('sort') ?? 'time';
  const order = sort === 'took' ? '&sort=slowest' : '';
  const found = useData(`/v1/events?limit=${ROWS}${order}&${search}`, { key: String(turn), keep: true });
  // From the loaded rows, because those of another order may still be loading.
  const slowest = found.of?.includes('&sort=slowest') === true;
  const counted = useData(`/v1/events/summary?${search}`, { key: String(turn), keep: true });
  const before = parametersBefore(text, range);
  const earlier = useData(`/v1/events/summary?buckets=1&${before}`, { key: String(turn), enabled: before !== undefined });
  const query = (q, time = range, { replace = false, by = sort } = {}) => {
    typing.current = false;
    go('record', [], conditions(q, time, by), { replace });
  };
  const addressWith = (field, value) => href('record', [], conditions(withCondition(text, field, value), range, sort));
  useEffect(() => setOlder({ entries: [] }), [search, turn, slowest]);
  const typing = useRef(false);
  useEffect(() => {
    if (typed !== text) typing.current = false; // a link or Back has changed the conditions
    setTyped(text);
  }, [text]);
  useEffect(() => {
    if (typed === text) return undefined;
    // Typing leaves one entry in the history, a click another one.
    const timer = setTimeout(() => {
      query(typed, range, { replace: typing.current });
      typing.current = true;
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [typed]);
  if (found.data) known.current = Math.max(known.current, found.data.next);
  const show = () => {
    setFresh(0);
    setTurn((it) => it + 1);
  };
  useEffect(() => setFresh(0), [found.good]);
  const last = useRef(0);
  useEvents(['live:record'], ({ position }) => {
    if (position <= known.current || Date.now() - last.current < 1000) return;
    last.current = Date.now();
    if (live) {
      known.current = position;
      show();
    } else {
      countFresh();
    }
  });
  // Only the search knows which of the new events match.
  const countFresh = async () => {
    const after = known.current;
    const reply = await send('GET', `/v1/events?limit=${ROWS}&after=${after}&${search}`);
    // The table may have loaded them meanwhile.
    if (reply.problem === undefined && after === known.current) setFresh(reply.data.events.length);
  };
  const more = async (cursor) => {
    setOlder((it) => ({ ...it, busy: true }));
    const reply = await request('GET', `/v1/events?limit=${ROWS}&cursor=${cursor}&${search}`);
    setOlder((it) =>
      reply.status === 200
        ? { entries: [...reply.data.events, ...it.entries], cursor: reply.data.cursor, asked: true }
        : { ...it, busy: false, problem: problemText(reply) },
    );
  };
  const add = (field, value) => query(withCondition(text, field, value));
  const select = (from, to) =>
    query(
      withCondition(withCondition(text, 'after', from.toISOString()), 'before', to.toISOString()),
    );
  const bad = found.status === 400 ? found.problem : undefined;
  return html`<div>
    <div class="screen-head">
      <div>
        <h2>Record</h2>
        <p>Every call and decision of your tenant, the newest first. It has no arguments and no results.</p>
      </div>
      <div class="row">
        <${Button} aria-pressed=${absolute} id="absolute-times" onClick=${() => setAbsoluteTimes(!absolute)}>Absolute times<//>
        <${Button} aria-pressed=${live} onClick=${() => setLive(!live)}>${live ? 'Live: on' : 'Live: off'}<//>
        <${Button} onClick=${show}>Refresh<//>
      </div>
    </div>
    <div class="bar">
      <input class="input grow mono" type="search" spellcheck="false" autocomplete="off" id="record-query"
        aria-label="Filter the record" placeholder="ada, or actor:ada tool:files__* -status:ok took:>1s" value=${typed}
        aria-invalid=${bad ? 'true' : undefined} aria-describedby="record-hint" list="record-words"
        onInput=${(event) => setTyped(event.target.value)} />
      <datalist id="record-words">
        ${completions(typed, counted.data).map((it) => html`<option key=${it} value=${it} />`)}
      </datalist>
      <select class="input" aria-label="Time" id="record-range" value=${range}
        onChange=${(event) => query(text, event.target.value)}>
        ${RANGES.map(([value, word]) => html`<option key=${value} value=${value}>${word}</option>`)}
      </select>
      ${SHORTCUTS.map(
        ([word, filter]) => html`<button type="button" class="chip" key=${word}
          aria-pressed=${parts(text).includes(filter)}
          onClick=${() => (text === filter ? query('') : add(...filter.split(/:(.*)/).slice(0, 2)))}>${word}</button>`,
      )}
      ${text !== '' && html`<button type="button" class="quiet" onClick=${() => query('')}>Clear</button>`}
    </div>
    <${Views} query=${viewQuery(text, range, sort)} />
    <p class=${bad ? 'bad' : 'muted'} id="record-hint" role=${bad ? 'alert' : undefined}>
      ${bad ?? 'A word is found in names, codes and ids. Fields: actor, tool, source, kind, type, status, took, run, id, after, before. A star matches any part of a name, OR joins two conditions, and - before one excludes it.'}
    </p>
    ${(bad === undefined || found.data !== undefined) &&
    html`<${Loaded} of=${counted} rows=${3} keeps>
        ${(summary) =>
          summary.events > 0 &&
          html`<${Charts} summary=${summary} onRange=${select} onFilter=${add}
            compared=${before && earlier.data && { before: earlier.data, name: BEFORE[range].name }} />`}
      <//>
      <${Loaded} of=${found} rows=${10} keeps>
        ${({ events, cursor }) => {
          const shown = slowest ? events : sorted([...older.entries, ...events].reverse(), sort);
          const next = slowest || !older.asked ? cursor : older.cursor;
          if (shown.length === 0 && next === undefined)
            return html`<${Empty} title=${text === '' ? 'No events in this period' : 'No event matches'}>
                <p class="muted">${text === '' ? 'The next call of a tool appears here.' : 'Change the conditions, or the time.'}</p>
                ${range !== 'all' && html`<${Button} onClick=${() => query(text, 'all')}>Search all time<//>`}
              <//>
              <${Verify} now=${route.query.get('verify') === 'now'} />`;
          return html`<div class="row">
              <span class="muted" id="record-count">${counted.data ? `${plural(counted.data.events, 'event')} match${counted.data.events === 1 ? 'es' : ''}.` : ''}${orderText(slowest ? 'took' : sort, slowest, shown.length)}</span>
              <${Export} search=${search} />
              <${Verify} now=${route.query.get('verify') === 'now'} />
            </div>
            <div class="table-box" tabindex="0" role="region" aria-label="Events">
              ${fresh > 0 &&
              html`<button type="button" class="fresh" onClick=${show}>${fresh < ROWS ? plural(fresh, 'new event') : `${ROWS} or more new events`}</button>`}
              <table class="table">
                <thead>
                  <tr>${COLUMNS.map((it) => html`<${Heading} key=${it.name} of=${it} sort=${sort} onSort=${(by) => query(text, range, { by })} />`)}</tr>
                </thead>
                <tbody>
                  ${shown.map((it) => html`<${Row} key=${it.position} it=${it} add=${add} addressWith=${addressWith} />`)}
                </tbody>
              </table>
            </div>
            ${older.problem && html`<p class="bad" role="alert">${older.problem}</p>`}
            ${next !== undefined &&
            html`<p><${Button} busy=${older.busy === true} onClick=${() => more(next)}>Show older events<//></p>`}`;
        }}
      <//>`}
  </div>`;
}

/** The parameters of the address. Defaults are left out. */
const conditions = (q, time, by) => ({ q, range: time === '24h' ? '' : time, sort: by === 'time' ? '' : by });

/** The address query of a view. Without a condition it has at least the range. */
function viewQuery(text, range, sort) {
  const query = conditions(text, range, sort);
  const address = href('record', [], text === '' ? { ...query, range } : query);
  return address.slice(address.indexOf('?') + 1);
}

/** Says which events the table has, if they are not the newest ones. */
function orderText(sort, slowest, shown) {
  if (sort === 'time' || (sort === 'took' && !slowest)) return '';
  if (slowest) return ` The table has the slowest ${plural(shown, 'call')}.`;
  return ` The ${plural(shown, 'event')} below ${shown === 1 ? 'is' : 'are'} sorted by ${sort}.`;
}

/** A column heading that sorts the table. */
function Heading({ of, sort, onSort }) {
  const { name, title, right } = of;
  const isSorted = sort === name;
  if (name === 'run') return html`<th>${title}</th>`;
  const down = name === 'time' || name === 'took';
  return html`<th class=${right ? 'right' : undefined} aria-sort=${isSorted ? (down ? 'descending' : 'ascending') : undefined}>
    <button type="button" class="sort" data-sort=${name} onClick=${() => onSort(isSorted ? 'time' : name)}>
      ${title}<span aria-hidden="true">${isSorted ? (down ? ' ↓' : ' ↑') : ''}</span>
    </button>
  </th>`;
}

/** Saves all matching events, the oldest first, in one of the formats. */
function Export({ search }) {
  const [format, setFormat] = useState('jsonl');
  const [state, setState] = useState({});
  const save = async (as) => {
    setState({ busy: as });
    try {
      const path = `/v1/events/export?format=${as}&${search}`;
      const response = await fetchWithKey(path, { cache: 'no-store' });
      if (!response.ok) throw new Error((await response.json()).message ?? `status ${response.status}`);
      const name = /filename="([\w.-]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1];
      saveFile(await response.blob(), name ?? 'record.jsonl');
      announce('The export is saved');
      setState({ saved: name });
    } catch (error) {
      setState({ problem: `The export failed (${error.message}).` });
    }
  };
  return html`<span class="row">
    <select class="input" aria-label="Format of the export" value=${format} onChange=${(event) => setFormat(event.target.value)}>
      ${FORMATS.map(([value, word]) => html`<option key=${value} value=${value}>${word}</option>`)}
    </select>
    <${Button} id="record-export" busy=${state.busy === format} onClick=${() => save(format)}>Export<//>
    <${Button} id="record-csv" busy=${state.busy === 'csv' && format !== 'csv'} onClick=${() => save('csv')}>CSV<//>
    ${state.saved && html`<span class="muted">Saved as <bdi>${state.saved}</bdi>.</span>`}
    ${state.problem && html`<span class="bad" role="alert">${state.problem}</span>`}
  </span>`;
}

function Status({ status, code }) {
  if (status === undefined || status === '') return null;
  return html`<${Badge} tone=${TONES[status] ?? 'grey'}>${status.replace('_', ' ')}<//>
    ${code && code !== status && html` <span class="muted">${String(code).replaceAll('_', ' ')}</span>`}`;
}

/** Who acts for the principal of a call. */
const Acting = ({ ids = [] }) => ids.map((id) => html`<span key=${id} class="muted">${' '}via <bdi>${id}</bdi></span>`);

const codeOf = ({ payload }) => payload.error?.code ?? payload.reason;

/** A name filters the events, or opens the tool; the button next to a tool filters. */
function Row({ it, add, addressWith }) {
  const { event, facts = {} } = it;
  const { principal, tool } = facts;
  const none = html`<span class="muted">–</span>`;
  return html`<tr data-type=${event.type}>
    <td class="nowrap"><${Time} at=${event.timestamp} /></td>
    <td>${NAMES[event.type] ?? event.type}</td>
    <td>${principal ? html`<span class="cell"><${Person} name=${principal} to=${addressWith('actor', principal)} /><${Acting} ids=${event.payload.actors} /></span>` : none}</td>
    <td>${
      tool
        ? html`<span class="cell"><${ToolName} name=${toolName(tool)} style="" /><button type="button" class="quiet icon-only"
            title=${`Only tool ${tool}`} aria-label=${`Only tool ${tool}`} onClick=${() => add('tool', tool)}><${Icon} name="filter" /></button></span>`
        : none
    }</td>
    <td><span class="nowrap"><${Status} status=${facts.status} code=${codeOf(event)} /></span>${isDenial(it) && html`<${Why} it=${it} />`}</td>
    <td class="right">${event.payload.durationMs === undefined ? '' : milliseconds(event.payload.durationMs)}</td>
    <td><a href=${href('record', ['run', event.runId])}><code>${event.runId.slice(-8)}</code></a></td>
  </tr>`;
}

function Run({ id }) {
  const found = useData(`/v1/events?limit=1000&run=${encodeURIComponent(id)}`);
  return html`<div>
    <div class="screen-head">
      <div>
        <p><a href=${href('record')}>Record</a></p>
        <h2>Run <code>${id}</code></h2>
      </div>
      <${Copy} text=${id} label="Copy the id" />
    </div>
    <${Loaded} of=${found}>
      ${({ events, cursor }) => {
        if (events.length === 0)
          return html`<${Empty} title="Run not found">
            <p class="muted">
              The link may be incomplete, the run may have passed its retention, or it belongs to another tenant.
            </p>
          <//>`;
        const began = new Date(events[0].event.timestamp).getTime();
        return html`<section class="panel padded">
          <p class="muted">${cursor === undefined ? 'Started' : `The last ${number(events.length)} events, from`} <${Time} at=${events[0].event.timestamp} />.</p>
          <ol class="timeline">
            ${events.map(({ event, facts = {} }) => {
              const { durationMs } = event.payload;
              return html`<li key=${event.eventId}>
                <time datetime=${event.timestamp} title=${new Date(event.timestamp).toLocaleString()}>
                  +${milliseconds(new Date(event.timestamp).getTime() - began)}
                </time>
                <div class=${`what ${event.causationId ? 'inner' : ''}`}>
                  <div class="row">
                    <strong>${NAMES[event.type] ?? event.type}</strong>
                    ${facts.tool && html`<${ToolName} name=${toolName(facts.tool)} />`}
                    ${event.payload.destination && html`<bdi class="mono">${event.payload.destination}</bdi>`}
                    ${facts.principal && html`<span class="muted">by <${Person} name=${facts.principal} /><${Acting} ids=${event.payload.actors} /></span>`}
                    <${Status} status=${facts.status} code=${codeOf(event)} />
                    ${durationMs !== undefined && html`<span class="muted">${milliseconds(durationMs)}</span>`}
                  </div>
                  ${isDenial({ event, facts }) && html`<div><${Why} it=${{ event, facts }} /></div>`}
                  <details><summary>Event</summary><pre class="lines" tabindex="0">${visible(event)}</pre></details>
                </div>
              </li>`;
            })}
          </ol>
        </section>`;
      }}
    <//>
  </div>`;
}

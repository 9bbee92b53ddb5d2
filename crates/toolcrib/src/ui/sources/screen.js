// Sources: is everything healthy, and what has changed?
import {
  html,
  useEffect,
  useState,
  number,
  milliseconds,
  plural,
  send,
  useData,
  useEvents,
  useTick,
  Badge,
  Button,
  Empty,
  Loaded,
  Problem,
  ServerText,
  Time,
} from '../lib/ui.js';
import { ProposalDialog } from '../lib/proposal.js';
import { useDraft } from '../lib/drafts.js';
import { href } from '../lib/address.js';
import { needsAttention } from '../shell/counts.js';
import { may } from '../state.js';
import { AddSource } from './add.js';
import { ChangeSource, Rules, ToolsetDialog } from './change.js';
import { Changes } from './changes.js';
import { notOffered } from './not-offered.js';

/** The states of a breaker: tone and words. */
const BREAKERS = {
  off: ['grey', 'off'],
  closed: ['green', 'closed'],
  half_open: ['amber', 'trying one call'],
  open: ['red', 'open'],
};

/** A number of calls. The server omits it if other tenants call the source, too. */
const figure = (value) =>
  value === undefined ? html`<span class="muted" title="Other tenants call it too">hidden</span>` : number(value);

/** How often the screen reloads while it is visible. */
const EVERY_MS = 5_000;

const TONES = { starting: 'blue', ready: 'green', degraded: 'red', stopped: 'grey' };

/** Describes the problems of a source. The text of a healthy one is empty. */
function problemOf({ state, detail, problems = [], quarantined, taskFailures }) {
  const first = state === 'ready' ? problems[0] : (detail ?? problems[0]);
  const more = problems.length - (problems.includes(first) ? 1 : 0);
  return [
    first,
    first !== undefined && more > 0 ? `${plural(more, 'more problem')}` : undefined,
    quarantined > 0 ? `${plural(quarantined, 'tool is', 'tools are')} quarantined` : undefined,
    taskFailures > 0 ? `${plural(taskFailures, 'background task')} failed and started again` : undefined,
  ].filter(Boolean).join('; ');
}

/** The state of all sources and toolsets in words, as `toolcrib sources check` judges them. */
function verdict(sources, bad, toolsets = []) {
  const all = plural(sources.length, 'source');
  const starting = sources.filter((it) => it.state === 'starting').length;
  const unresolved = toolsets.reduce((sum, it) => sum + (it.unresolved ?? 0), 0);
  const parts = [
    bad.length > 0 && `${number(bad.length)} of ${all} ${bad.length === 1 ? 'needs' : 'need'} attention`,
    starting > 0 && `${number(starting)} of ${all} ${starting === 1 ? 'is' : 'are'} starting`,
    unresolved > 0 && `${plural(unresolved, 'entry of a toolset matches', 'entries of toolsets match')} no tool`,
  ].filter(Boolean);
  return parts.length === 0 ? `${all}, all healthy.` : `${parts.join('; ')}.`;
}

export function Sources({ route }) {
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && setTurn((it) => it + 1), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  useEvents(['live:catalog', 'live:open'], () => setTurn((it) => it + 1));
  useTick();
  const found = useData('/v1/sources', { key: String(turn) });
  const id = route.path[0];
  const config = useData('/v1/config', { enabled: may('config:write') });
  const onWritten = () => {
    // The server reads the file by itself, a moment later.
    config.reload();
    for (const ms of [300, 1_000, 3_000, 8_000]) setTimeout(() => setTurn((it) => it + 1), ms);
  };
  return html`<${Loaded} of=${found}>
    ${(data) => {
      if (id === undefined) return html`<${All} data=${data} config=${config.data} onWritten=${onWritten} />`;
      const source = data.sources.find((it) => it.id === id);
      return source
        ? html`<${One} source=${source} reload=${found.reload} config=${config.data} onWritten=${onWritten} />`
        : html`<${Empty} title="Source not found">
            <p class="muted">
              The link may be incomplete, the source may have been removed, or it does not serve your tenant.
            </p>
            <p><a href=${href('sources')}>All sources</a></p>
          <//>`;
    }}
  <//>`;
}

function All({ data, config, onWritten }) {
  const { sources, toolsets } = data;
  const [asking, setAsking] = useDraft('sources dialog');
  const bad = sources.filter(needsAttention);
  return html`<div>
    <div class="screen-head">
      <div>
        <h2>Sources</h2>
        <p>
          ${sources.length === 0
            ? 'There is no source yet.'
            : verdict(sources, bad, toolsets)}
        </p>
      </div>
      ${config &&
      html`<${Button} kind="primary" id="add-source" onClick=${() => setAsking({ what: 'source' })}>Add a source<//>`}
    </div>
    ${config && asking?.what === 'source' &&
    html`<${AddSource} config=${config} onClose=${() => setAsking()} onWritten=${onWritten} />`}
    ${config && asking?.what === 'toolset' &&
    html`<${ToolsetDialog} name=${asking.name} settings=${config?.toolsets?.[asking.name]}
      onClose=${() => setAsking()} onWritten=${onWritten} />`}
    ${asking?.what === 'no-toolset' &&
    html`<${ProposalDialog} title=${`Remove ${asking.name}`} onClose=${() => setAsking()} onWritten=${onWritten}
      changes=${[{ action: 'remove', kind: 'toolset', name: asking.name }]} />`}
    ${sources.length === 0
      ? html`<${Empty} title="No source is configured">
          <p class="muted">
            Add a <code>[[source]]</code> to <code>toolcrib.toml</code>; a running server reads the
            file again by itself.
          </p>
        <//>`
      : html`<div class="table-box" tabindex="0" role="region" aria-label="Sources">
          <table class="table">
            <thead>
              <tr>
                <th>Source</th><th>State</th><th>Kind</th><th class="right">Tools</th>
                <th class="right">Quarantined</th><th class="right">Running</th>
                <th class="right">p95</th><th>Breaker</th>
                <th>Last discovery</th><th>Problem</th>
              </tr>
            </thead>
            <tbody>
              ${sources.map(
                (it) => html`<tr key=${it.id} data-source=${it.id}>
                  <td><a href=${href('sources', [it.id])}><bdi class="mono">${it.id}</bdi></a></td>
                  <td><${State} source=${it} /></td>
                  <td>${it.kind}</td>
                  <td class="right"><${ToolCount} source=${it} /></td>
                  <td class="right">
                    ${it.quarantined > 0
                      ? html`<a href=${href('sources', [it.id])}><${Badge} tone="violet">${it.quarantined}<//></a>`
                      : 0}
                  </td>
                  <td class="right">${it.load.running ?? '–'} / ${it.load.maxConcurrency}</td>
                  <td class="right">${milliseconds(it.latency?.p95Ms)}</td>
                  <td><${Breaker} breaker=${it.breaker} /></td>
                  <td><${Time} at=${it.discoveredAt} fallback="not yet" /></td>
                  <td class="wrap muted"><${ServerText} text=${problemOf(it)} /></td>
                </tr>`,
              )}
            </tbody>
          </table>
        </div>`}
    ${config &&
    html`<div class="screen-head"><h3>Toolsets</h3>
      <${Button} id="add-toolset" onClick=${() => setAsking({ what: 'toolset' })}>Add a toolset<//></div>`}
    ${toolsets?.length > 0 &&
    html`${!config && html`<h3 class="screen-head">Toolsets</h3>`}
      <div class="table-box" tabindex="0" role="region" aria-label="Toolsets">
        <table class="table">
          <thead><tr><th>Toolset</th><th class="right">Tools for you</th><th class="right">Entries without a match</th>${config && html`<th>Actions</th>`}</tr></thead>
          <tbody>
            ${toolsets.map(
              (it) => html`<tr key=${it.name}>
                <td><bdi class="mono">${it.name}</bdi></td>
                <td class="right">${number(it.tools ?? 0)}</td>
                <td class="right">${number(it.unresolved ?? 0)}</td>
                ${config && html`<td class="nowrap">
                  <button type="button" class="quiet" data-change-toolset=${it.name}
                    onClick=${() => setAsking({ what: 'toolset', name: it.name })}>Change</button>
                  <button type="button" class="quiet"
                    onClick=${() => setAsking({ what: 'no-toolset', name: it.name })}>Remove</button></td>`}
              </tr>`,
            )}
          </tbody>
        </table>
      </div>`}
  </div>`;
}

/** How many tools a source has, with a link to those that the caller sees. */
function ToolCount({ source }) {
  if (source.tools === 0) return '0';
  return html`<a href=${href('tools', [], { source: source.id })}>${number(source.tools)}</a>`;
}

function State({ source }) {
  const state = String(source.state);
  return html`<${Badge} tone=${TONES[state] ?? 'grey'}>${state}<//>`;
}

function Breaker({ breaker }) {
  const [tone, word] = BREAKERS[breaker.state] ?? ['grey', breaker.state];
  const some = breaker.openToCallers > 0 ? `, open to ${plural(breaker.openToCallers, 'caller')}` : '';
  return html`<${Badge} tone=${tone}><bdi>${word}</bdi>${some}<//>`;
}

/** Starts a new discovery of the tools of a source. */
function RefreshNow({ source, reload }) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState();
  const refresh = async () => {
    setBusy(true);
    const reply = await send('POST', `/v1/sources/${encodeURIComponent(source)}/refresh`);
    setProblem(reply.problem);
    // The result is in the next state of the source.
    for (const ms of [500, 2_000]) setTimeout(reload, ms);
    setTimeout(() => setBusy(false), 2_000);
  };
  return html`<${Button} busy=${busy} data-refresh onClick=${refresh}>Refresh now<//>
    ${problem && html`<${Problem} text=${problem} />`}`;
}

function One({ source, reload, config, onWritten }) {
  const [asking, setAsking] = useDraft(`dialog of the source ${source.id}`);
  const settings = config?.sources?.find((it) => it.id === source.id);
  const rules = useData('/v1/config/rules', { enabled: settings !== undefined, key: config?.hash });
  return html`<div>
    <div class="screen-head">
      <div>
        <p><a href=${href('sources')}>Sources</a></p>
        <h2><bdi class="mono">${source.id}</bdi> <${State} source=${source} /></h2>
        ${source.detail && html`<p><${ServerText} text=${source.detail} /></p>`}
      </div>
      <div class="row">
        ${may('sources:refresh') && html`<${RefreshNow} source=${source.id} reload=${reload} />`}
        ${settings &&
        html`<${Button} data-change onClick=${() => setAsking('change')}>Change<//>
          <${Button} data-remove onClick=${() => setAsking('remove')}>Remove<//>`}
      </div>
    </div>
    ${settings && asking === 'change' &&
    html`<${ChangeSource} source=${settings} onClose=${() => setAsking()} onWritten=${onWritten} />`}
    ${asking === 'remove' &&
    html`<${ProposalDialog} title=${`Remove ${source.id}`} onClose=${() => setAsking()} onWritten=${onWritten}
      changes=${[{ action: 'remove', kind: 'source', name: source.id }]} />`}
    <div class="columns">
      <section class="panel padded">
        <h3>Health</h3>
        <dl class="facts">
          <dt>Kind</dt><dd>${source.kind}</dd>
          <dt>Last discovery</dt><dd><${Time} at=${source.discoveredAt} fallback="not yet" /></dd>
          <dt>Tools</dt><dd><${ToolCount} source=${source} /></dd>
          <dt>Breaker</dt><dd><${Breaker} breaker=${source.breaker} /></dd>
          <dt>In this state since</dt><dd><${Time} at=${source.since} /></dd>
          <dt>Restarts</dt><dd>${number(source.restarts ?? 0)}</dd>
          <dt>Task restarts</dt><dd>${number(source.taskFailures ?? 0)}</dd>
          <dt>Completed calls</dt><dd>${figure(source.load.running === undefined ? undefined : (source.latency?.calls ?? 0))}</dd>
          <dt>Run time</dt>
          <dd>${source.latency
            ? html`half within ${milliseconds(source.latency.p50Ms)}, 95 of 100 within ${milliseconds(source.latency.p95Ms)}`
            : source.load.running === undefined
              ? figure()
              : html`<span class="muted">no call yet</span>`}</dd>
          ${source.notOffered &&
          html`<dt>Not offered</dt><dd data-not-offered>${notOffered(source.notOffered)}</dd>`}
          <dt>Last error</dt>
          <dd>${source.lastError
            ? html`<${Time} at=${source.lastError.at} />: <bdi>${source.lastError.message}</bdi>`
            : html`<span class="muted">no error since the start</span>`}</dd>
        </dl>
      </section>
      <section class="panel padded">
        <h3>Limits</h3>
        <dl class="facts">
          <dt>Calls in progress</dt><dd>${figure(source.load.running)} of at most ${source.load.maxConcurrency}</dd>
          <dt>Rate limits</dt><dd>${source.load.rates?.join(', ') || 'none'}</dd>
          <dt>Rejected by a rate limit</dt><dd>${figure(source.load.refusedByRate)}</dd>
          <dt>Rejected by a quota</dt><dd>${figure(source.load.refusedByQuota)}</dd>
          <dt>Rejected by the breaker</dt><dd>${figure(source.load.refusedByBreaker)}</dd>
        </dl>
      </section>
    </div>
    ${source.problems?.length > 0 &&
    html`<section class="panel padded">
      <h3>Problems</h3>
      <ul>${source.problems.map((text) => html`<li key=${text}><${ServerText} text=${text} /></li>`)}</ul>
    </section>`}
    ${source.notes?.length > 0 &&
    html`<section class="panel padded" data-notes>
      <h3>Notes</h3>
      <ul>${source.notes.map((text) => html`<li key=${text}><${ServerText} text=${text} /></li>`)}</ul>
    </section>`}
    ${settings &&
    html`<${Rules} source=${source.id} settings=${settings} proposals=${rules.data?.proposals ?? []}
      onWritten=${onWritten} />`}
    ${may('pins:approve') && html`<${Changes} source=${source.id} onApproved=${reload} />`}
    ${may('sources:logs') && source.kind === 'mcp' && html`<${Log} source=${source.id} />`}
  </div>`;
}

function Log({ source }) {
  const found = useData(`/v1/sources/${encodeURIComponent(source)}/logs`);
  return html`<section class="panel padded">
    <div class="screen-head"><h3>Last lines on stderr</h3><${Button} onClick=${found.reload}>Refresh<//></div>
    <${Loaded} of=${found} rows=${3}>
      ${({ lines }) =>
        lines.length === 0
          ? html`<p class="muted">No lines since its handshake.</p>`
          : html`<pre class="lines" tabindex="0">${lines
              .map((it) => `${it.at}  ${it.line}`)
              .join('\n')}</pre>`}
    <//>
  </section>`;
}

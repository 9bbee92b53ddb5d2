// Calls over time and their run times, from the counts of the server, with the same numbers as a table.
import { html, useState, milliseconds, number, plural } from '../lib/ui.js';
import { toolName } from '../lib/tool-name.js';

const WIDTH = 800;
const HEIGHT = 110;
const LATENCY = 44;
/** How many tools and principals are listed; the table of events has the others. */
const SHOWN = 5;
/** The results of calls, with the condition that selects them. */
const RESULTS = [
  ['ok', 'succeeded', 'ok'],
  ['failed', 'failed', 'failed'],
  ['denied', 'denied', 'denied'],
  ['approvalRequired', 'needed approval', 'approval_required'],
];

const callsOf = (it) => RESULTS.reduce((sum, [result]) => sum + it[result], 0);

/**
 * `onRange(from, to)` selects a time range; `onFilter(field, value)` adds a condition. `compared` has the
 * summary of the period `before`, and its `name`.
 */
export function Charts({ summary, compared, onRange, onFilter }) {
  const [asTable, setAsTable] = useState(false);
  const { totals, buckets } = summary;
  return html`<section class="panel chart" aria-label="Calls over time">
    <div class="legend">
      ${RESULTS.map(
        ([result, word, status]) => html`<button type="button" class="quiet" key=${result} data-status=${status}
          title=${`Only status ${status}`} onClick=${() => onFilter('status', status)}>
          <i class=${result}></i>${number(totals[result])} ${word}
        </button>`,
      )}
      <span><i class="line"></i>half within ${milliseconds(totals.p50Ms)}, 95 % within ${milliseconds(totals.p95Ms)}</span>
      ${buckets.length > 0 &&
      html`<button type="button" class="quiet" aria-pressed=${asTable} onClick=${() => setAsTable(!asTable)}>
        ${asTable ? 'Show the chart' : 'Show as a table'}
      </button>`}
    </div>
    ${compared && html`<p class="muted" id="record-compared">${comparison(summary, compared)}</p>`}
    ${summary.partial && html`<p class="muted">Only the newest events are counted, because there are too many.</p>`}
    ${buckets.length > 0 &&
    (asTable
      ? html`<${Numbers} buckets=${buckets} onRange=${onRange} step=${summary.stepSecs} />`
      : html`<${Bars} summary=${summary} onRange=${onRange} />`)}
    ${(summary.tools.length > 0 || summary.principals.length > 0) &&
    html`<div class="columns">
      <${Top} title="Tools" field="tool" groups=${summary.tools} shown=${toolName} onFilter=${onFilter} />
      <${Top} title="Principals" field="actor" groups=${summary.principals} shown=${(it) => it} onFilter=${onFilter} />
      ${summary.slowest.length > 0 && html`<${Top} title="Slowest tools" field="tool" groups=${summary.slowest} shown=${toolName} onFilter=${onFilter} byTime />`}
    </div>`}
  </section>`;
}

/** Compares the calls with those of the period before. */
function comparison({ totals }, { before, name }) {
  const [now, then] = [callsOf(totals), callsOf(before.totals)];
  if (now === 0 && then === 0) return `No calls finished in this period or in ${name}.`;
  if (then === 0) return `${plural(now, 'call')} finished, compared with 0 in ${name}.`;
  const percent = Math.round((Math.abs(now - then) / then) * 100);
  const change =
    percent === 0 ? 'as many as' : `${number(percent)} % ${now > then ? 'more' : 'fewer'} than`;
  const failed = `${number(totals.failed)} failed and ${number(totals.denied)} denied, ${number(before.totals.failed)} and ${number(before.totals.denied)} then`;
  return `${plural(now, 'call')} finished, ${change} the ${number(then)} in ${name}: ${failed}.`;
}

function Bars({ summary, onRange }) {
  const { buckets } = summary;
  const step = summary.stepSecs * 1000;
  const time = (it) => new Date(it.from).getTime();
  // The whole selected time, so that periods without calls show as gaps.
  const first = Math.floor(new Date(summary.from).getTime() / step) * step;
  const last = Math.max(new Date(summary.to).getTime(), time(buckets.at(-1)) + step);
  const count = Math.max(Math.ceil((last - first) / step), 1);
  const wide = WIDTH / count;
  const most = Math.max(...buckets.map(callsOf), 1);
  const measured = buckets.map((it) => it.p95Ms).filter((it) => it !== undefined);
  const slowest = measured.length === 0 ? undefined : Math.max(...measured);
  const x = (it) => ((time(it) - first) / step) * wide;
  const y = (ms) => HEIGHT + 8 + LATENCY - (ms / Math.max(slowest, 1)) * LATENCY;
  // A line joins neighbouring buckets only. A bucket without neighbours gets a short line.
  const line = (name) => {
    const known = buckets.filter((it) => it[name] !== undefined);
    return known
      .map((it, at) => {
        const joins = at > 0 && time(it) - time(known[at - 1]) === step;
        const height = y(it[name]).toFixed(1);
        const from = joins ? 'L' : `M${(x(it) + wide / 4).toFixed(1)},${height}L`;
        return `${from}${(x(it) + (joins ? wide / 2 : (3 * wide) / 4)).toFixed(1)},${height}`;
      })
      .join('');
  };
  const label = `${number(buckets.reduce((sum, it) => sum + callsOf(it), 0))} calls from ${new Date(first).toLocaleString()} to ${new Date(last).toLocaleString()}; the table has the numbers`;
  return html`<div>
    <div class="plot">
      <p class="y-axis muted" aria-hidden="true"><span>${number(most)}</span><span>0 calls</span>${slowest !== undefined && html`<span>${milliseconds(slowest)}</span><span>0 ms</span>`}</p>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT + 8 + LATENCY}`} preserveAspectRatio="none" role="img" aria-label=${label}>
        <line class="grid" x1="0" y1=${HEIGHT} x2=${WIDTH} y2=${HEIGHT} />
        ${buckets.map((it) => {
          let top = HEIGHT;
          return RESULTS.map(([kind]) => {
            const height = (it[kind] / most) * HEIGHT;
            top -= height;
            return (
              height > 0 &&
              html`<rect key=${`${it.from}-${kind}`} class=${kind} x=${x(it) + 0.5} y=${top}
                width=${Math.max(wide - 1, 1)} height=${height} />`
            );
          });
        })}
        <path class="line" d=${line('p95Ms')} />
        <path class="line half" d=${line('p50Ms')} />
        ${buckets.map(
          (it) => html`<rect key=${`hit-${it.from}`} class="bar-hit" x=${x(it)} y="0" width=${Math.max(wide, 2)}
            height=${HEIGHT + 8 + LATENCY} onClick=${() => onRange(new Date(it.from), new Date(time(it) + step))}>
            <title>${`${new Date(it.from).toLocaleString()}: ${RESULTS.map(([kind, word]) => `${number(it[kind])} ${word}`).join(', ')}; 95 % within ${milliseconds(it.p95Ms)}`}</title>
          </rect>`,
        )}
      </svg>
    </div>
    <p class="axis-labels muted">
      <span>${new Date(first).toLocaleString()}</span>
      <span>at most ${number(most)} calls${slowest === undefined ? '' : ` and ${milliseconds(slowest)} (p95)`} in ${duration(summary.stepSecs)}</span>
      <span>${new Date(last).toLocaleString()}</span>
    </p>
  </div>`;
}

function duration(seconds) {
  if (seconds < 60) return seconds === 1 ? 'a second' : `${seconds} seconds`;
  if (seconds < 3600) return seconds === 60 ? 'a minute' : `${seconds / 60} minutes`;
  if (seconds < 86_400) return seconds === 3600 ? 'an hour' : `${seconds / 3600} hours`;
  return seconds === 86_400 ? 'a day' : `${seconds / 86_400} days`;
}

/** The tools or principals with most calls or the longest run times: a bar for each that filters the table. */
function Top({ title, field, groups, shown, onFilter, byTime = false }) {
  const size = (it) => (byTime ? it.p95Ms : callsOf(it));
  const most = Math.max(...groups.map(size), 1);
  return html`<div>
    <h3>${title}</h3>
    <ul class="ranking">
      ${groups.slice(0, SHOWN).map(
        (it) => html`<li key=${it.name}>
          <button type="button" class="quiet" title=${`Only ${field} ${it.name}`} onClick=${() => onFilter(field, it.name)}>
            <bdi>${shown(it.name)}</bdi>
          </button>
          <meter min="0" max=${most} value=${size(it)} aria-label=${byTime ? `95 % within ${milliseconds(it.p95Ms)}` : plural(callsOf(it), 'call')}></meter>
          <span class="right">${number(callsOf(it))}</span>
          <span class="muted right">${milliseconds(it.p95Ms)}</span>
        </li>`,
      )}
    </ul>
  </div>`;
}

function Numbers({ buckets, onRange, step }) {
  return html`<div class="table-box" tabindex="0" role="region" aria-label="Calls over time, as a table">
    <table class="table">
      <thead>
        <tr><th>From</th>${RESULTS.map(([kind, word]) => html`<th class="right" key=${kind}>${word}</th>`)}<th class="right">p50</th><th class="right">p95</th></tr>
      </thead>
      <tbody>
        ${buckets.map((it) => {
          const from = new Date(it.from);
          return html`<tr key=${it.from}>
            <td><button type="button" class="quiet" onClick=${() => onRange(from, new Date(from.getTime() + step * 1000))}>${from.toLocaleString()}</button></td>
            ${RESULTS.map(([kind]) => html`<td class="right" key=${kind}>${number(it[kind])}</td>`)}
            <td class="right">${milliseconds(it.p50Ms)}</td>
            <td class="right">${milliseconds(it.p95Ms)}</td>
          </tr>`;
        })}
      </tbody>
    </table>
  </div>`;
}

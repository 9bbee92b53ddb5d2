// Calls over time: a bar for each part of the range, with results by colour and pattern of height, and
// the same numbers as a table.
import { html, useState, milliseconds, number } from '../lib/ui.js';

const PARTS = 40;
const WIDTH = 800;
const HEIGHT = 120;

/** Divides ended calls, the newest first, into parts of equal length. */
export function parts(calls) {
  if (calls.length === 0) return [];
  const times = calls.map((it) => new Date(it.at).getTime());
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const length = Math.max((to - from) / PARTS, 1);
  const found = Array.from({ length: PARTS }, (_, at) => ({
    from: new Date(from + at * length),
    to: new Date(from + (at + 1) * length),
    ok: 0,
    failed: 0,
    denied: 0,
    ms: [],
  }));
  calls.forEach((call, index) => {
    const part = found[Math.min(Math.floor((times[index] - from) / length), PARTS - 1)];
    if (call.status === 'ok') part.ok += 1;
    else if (call.status === 'error') part.failed += 1;
    else part.denied += 1;
    if (call.ms !== undefined) part.ms.push(call.ms);
  });
  return found;
}

/** The value that `share` of the sorted numbers do not exceed. */
export function quantile(numbers, share) {
  if (numbers.length === 0) return undefined;
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(Math.ceil(sorted.length * share) - 1, sorted.length - 1)];
}

export function Chart({ calls }) {
  const [asTable, setAsTable] = useState(false);
  const found = parts(calls);
  if (found.length === 0) return null;
  const most = Math.max(...found.map((it) => it.ok + it.failed + it.denied), 1);
  const all = calls.map((it) => it.ms).filter((it) => it !== undefined);
  const count = (status) => calls.filter(status).length;
  const failed = count((it) => it.status === 'error');
  const ok = count((it) => it.status === 'ok');
  return html`<section class="panel chart" aria-label="Calls over time">
    <div class="legend">
      <span><i class="ok"></i>${number(ok)} succeeded</span>
      <span><i class="failed"></i>${number(failed)} failed</span>
      <span><i class="denied"></i>${number(calls.length - ok - failed)} denied</span>
      <span>half within ${milliseconds(quantile(all, 0.5))}, 95 % within ${milliseconds(quantile(all, 0.95))}</span>
      <button type="button" class="quiet" aria-pressed=${asTable} onClick=${() => setAsTable(!asTable)}>
        ${asTable ? 'Show the chart' : 'Show as a table'}
      </button>
    </div>
    ${asTable ? html`<${Numbers} found=${found} />` : html`<${Bars} found=${found} most=${most} />`}
  </section>`;
}

function Bars({ found, most }) {
  const wide = WIDTH / found.length;
  const scale = (count) => (count / most) * HEIGHT;
  return html`<svg viewBox=${`0 0 ${WIDTH} ${HEIGHT + 18}`} preserveAspectRatio="none" role="img"
    aria-label=${`Calls from ${found[0].from.toLocaleString()} to ${found.at(-1).to.toLocaleString()}; the table has the numbers`}>
    <line class="grid" x1="0" y1=${HEIGHT} x2=${WIDTH} y2=${HEIGHT} />
    ${found.map((part, at) => {
      let top = HEIGHT;
      return ['ok', 'failed', 'denied'].map((kind) => {
        const height = scale(part[kind]);
        top -= height;
        return (
          height > 0 &&
          html`<rect key=${`${at}-${kind}`} class=${kind} x=${at * wide + 1} y=${top}
            width=${wide - 2} height=${height} />`
        );
      });
    })}
  </svg>`;
}

function Numbers({ found }) {
  return html`<div class="table-box" tabindex="0" role="region" aria-label="Calls over time, as a table">
    <table class="table">
      <thead>
        <tr><th>From</th><th class="right">Succeeded</th><th class="right">Failed</th><th class="right">Denied</th><th class="right">p50</th><th class="right">p95</th></tr>
      </thead>
      <tbody>
        ${found
          .filter((it) => it.ok + it.failed + it.denied > 0)
          .map(
            (it) => html`<tr key=${it.from.getTime()}>
              <td>${it.from.toLocaleString()}</td>
              <td class="right">${number(it.ok)}</td>
              <td class="right">${number(it.failed)}</td>
              <td class="right">${number(it.denied)}</td>
              <td class="right">${milliseconds(quantile(it.ms, 0.5))}</td>
              <td class="right">${milliseconds(quantile(it.ms, 0.95))}</td>
            </tr>`,
          )}
      </tbody>
    </table>
  </div>`;
}

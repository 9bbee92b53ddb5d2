// Times from a trace of Chromium, which says what the page's main thread did.

const CATEGORIES = ['devtools.timeline', 'blink.user_timing', 'toplevel'];

/** Returns the events of the trace during `work`. */
export async function traced(page, work) {
  const client = await page.context().newCDPSession(page);
  const events = [];
  client.on('Tracing.dataCollected', ({ value }) => events.push(...value));
  await client.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: { includedCategories: CATEGORIES },
  });
  await work();
  const complete = new Promise((resolve) => {
    client.once('Tracing.tracingComplete', resolve);
  });
  await client.send('Tracing.end');
  await complete;
  await client.detach();
  return events;
}

/** Returns the longest tasks of the main thread of the page in ms, the longest first. */
export function tasks(events) {
  const main = events.find((it) => it.name === 'FunctionCall' || it.name === 'EventDispatch');
  return events
    .filter((it) => it.pid === main?.pid && it.tid === main?.tid && it.name.endsWith('RunTask'))
    .map((it) => (it.dur ?? 0) / 1000)
    .sort((a, b) => b - a);
}

/** For each key press: the work on the main thread from its event until the next frame is painted. */
export function keystrokes(events) {
  const main = events.find(
    (it) => it.name === 'EventDispatch' && it.args?.data?.type === 'keydown',
  );
  const own = events.filter((it) => it.pid === main?.pid && it.tid === main?.tid);
  const starts = own
    .filter((it) => it.name === 'EventDispatch' && it.args?.data?.type === 'keydown')
    .map((it) => it.ts)
    .sort((a, b) => a - b);
  const paints = own
    .filter((it) => ['Commit', 'Paint', 'Layerize', 'PrePaint'].includes(it.name))
    .map((it) => it.ts + (it.dur ?? 0))
    .sort((a, b) => a - b);
  return starts.map((start, at) => {
    const until = starts[at + 1] ?? Infinity;
    // The frame that shows the key: the paints within 200 ms, before anything else happens.
    const frame = paints.filter((it) => it > start && it < Math.min(until, start + 200_000));
    const gap = frame.findIndex((it, index) => index > 0 && it - frame[index - 1] > 30_000);
    const end = gap > 0 ? frame[gap - 1] : frame.at(-1);
    return ((end ?? start) - start) / 1000;
  });
}

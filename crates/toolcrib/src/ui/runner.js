// Validate, execute, cancel: the buttons under the arguments and their results.
//
// Invariant: one request of this tool at a time. A result that arrives after a cancel or a newer
// request is dropped.
import { h, button, announce, formatMs } from './dom.js';
import { state, disableExecution } from './state.js';
import { call, validate } from './api.js';
import { focusToken } from './auth.js';
import { dangers } from './badges.js';
import { confirmRun } from './confirm.js';
import { executionDisabled, renderOutcome, verdict } from './result.js';
import { renderValidation, violations } from './validation.js';

/** `editor` provides the body; `record(entry)` is called for every finished call. */
export function createRunner({ tool, editor, record }) {
  const reasons = dangers(tool);
  let ask = reasons.length > 0;
  let running;

  const execute = button('Execute', () => run(), {
    class: `button primary${ask ? ' danger' : ''}`,
    data: { action: 'execute' },
  });
  const check = button('Validate', () => runValidate(), { data: { action: 'validate' } });
  const cancel = button('Cancel', () => running?.abort(), {
    data: { action: 'cancel' },
    hidden: true,
  });
  const clock = h('span', { class: 'muted clock', role: 'timer', 'aria-live': 'off' });
  const off = h('span', {
    class: 'muted',
    text: 'Execution is switched off on this server.',
    hidden: true,
  });
  const verdictHost = h('div', {});
  const outcomeHost = h('div', {});
  const actions = h('div', { class: 'actions' }, execute, cancel, check, off, clock);
  const output = h('div', { class: 'output' }, verdictHost, outcomeHost);

  function refresh() {
    execute.hidden = !state.executeEnabled;
    off.hidden = state.executeEnabled;
  }

  function busy(label, controller) {
    running = controller;
    execute.disabled = check.disabled = true;
    cancel.hidden = false;
    const started = performance.now();
    const tick = setInterval(() => {
      clock.textContent = formatMs(performance.now() - started);
    }, 100);
    if (label) execute.textContent = label;
    return () => {
      clearInterval(tick);
      clock.textContent = '';
      execute.textContent = 'Execute';
      execute.disabled = check.disabled = false;
      cancel.hidden = true;
      running = undefined;
      return performance.now() - started;
    };
  }

  async function runValidate() {
    const body = editor.body();
    if (running || body === undefined) return;
    const controller = new AbortController();
    const done = busy(undefined, controller);
    clear();
    try {
      const reply = await validate(tool.name, body, controller.signal);
      editor.showErrors(violations(reply) ?? []);
      verdictHost.replaceChildren(renderValidation(reply, editor));
    } catch (error) {
      if (!controller.signal.aborted)
        verdictHost.replaceChildren(
          h('p', {
            class: 'verdict bad',
            role: 'alert',
            text: `The server could not be reached (${error.message}).`,
          }),
        );
    } finally {
      done();
    }
  }

  async function run() {
    const body = editor.body();
    if (running || body === undefined || !state.executeEnabled) return;
    if (ask) {
      const answer = await confirmRun(tool, reasons, body);
      if (!answer.run) return;
      ask = !answer.remember;
    }
    const controller = new AbortController();
    const done = busy('Executing…', controller);
    clear();
    outcomeHost.replaceChildren();
    const outcome = {};
    try {
      outcome.reply = await call(tool.name, body, controller.signal);
    } catch (error) {
      if (controller.signal.aborted) outcome.cancelled = true;
      else outcome.failed = error.message;
    }
    outcome.ms = done();
    if (controller.signal.reason === 'dropped') return; // the key has changed
    if (outcome.reply && executionDisabled(outcome.reply)) disableExecution();
    record({ body, outcome, at: new Date() });
    show(outcome);
  }

  function show(outcome) {
    outcomeHost.replaceChildren(renderOutcome(outcome, { signIn: focusToken, retry: run }));
    announce(`Call finished: ${verdict(outcome)}`);
  }

  /** A verdict applies to the validated input only, so an edit or a call clears it. */
  function clear() {
    verdictHost.replaceChildren();
    editor.showErrors([]);
  }

  refresh();
  return {
    actions,
    output,
    run,
    show,
    clear,
    refresh,
    busy: () => running !== undefined,
    drop: () => running?.abort('dropped'),
  };
}

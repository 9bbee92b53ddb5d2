// Validate, execute, cancel, wait for an approval: the buttons under the arguments and their results.
//
// Invariant: one request of this tool at a time. A result that arrives after a cancel or a newer
// request is dropped.
import { h, button, announce, formatMs, plural, setText } from '../dom.js';
import { state, disableExecution } from '../state.js';
import { call, validate } from '../api.js';
import { isObject, own, parseJson } from '../json.js';
import { hasGateway } from '../shell/session.js';
import { focusToken } from '../auth.js';
import { isDestructive, reasonsToConfirm } from './badges.js';
import { confirmRun } from './confirm.js';
import { executionDisabled, pendingApproval, renderOutcome, verdict } from './result.js';
import { renderValidation, summary, violations } from './validation.js';
import { createWaiting } from './waiting.js';

/** `editor` provides the body; `record(entry)` is called for every finished call. */
export function createRunner({ tool, editor, record, extra }) {
  const reasons = reasonsToConfirm(tool);
  let ask = reasons.length > 0;
  let running;
  let waiting;

  const execute = button('Execute', () => run(), {
    class: `button ${isDestructive(tool) ? 'danger' : 'primary'}`,
    data: { action: 'execute' },
  });
  const check = button('Validate', () => runValidate(), { data: { action: 'validate' } });
  const cancel = button('Cancel', () => running?.abort(), {
    data: { action: 'cancel' },
    hidden: true,
  });
  const clock = h('span', { class: 'muted clock', role: 'timer', 'aria-live': 'off' });
  const progress = h('progress', { 'aria-label': 'The tool is running', hidden: true });
  const off = h('span', {
    class: 'muted',
    text: 'Execution is switched off on this server.',
    hidden: true,
  });
  const step = h('bdi', { class: 'step', 'aria-live': 'polite' });
  const questionHost = h('div', {});
  const verdictHost = h('div', {});
  const outcomeHost = h('div', {});
  const actions = h(
    'div',
    { class: 'actions' },
    execute,
    cancel,
    check,
    extra,
    off,
    h('span', { class: 'running' }, progress, clock, step),
  );
  const output = h('div', { class: 'output' }, verdictHost, questionHost, outcomeHost);

  function refresh() {
    execute.hidden = !state.executeEnabled;
    off.hidden = state.executeEnabled;
  }

  function busy(label, controller) {
    running = controller;
    execute.disabled = check.disabled = true;
    const focused = actions.contains(document.activeElement) ? document.activeElement : undefined;
    cancel.hidden = progress.hidden = false;
    progress.removeAttribute('value');
    if (focused) cancel.focus(); // a disabled button loses the focus
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
      if (focused && document.activeElement === cancel) focused.focus();
      cancel.hidden = progress.hidden = true;
      step.textContent = '';
      questionHost.replaceChildren();
      running = undefined;
      return performance.now() - started;
    };
  }

  /** Shows what is missing, and returns whether something is. Nothing is sent then. */
  function incomplete() {
    const problems = editor.problems();
    if (problems.length === 0) return false;
    editor.showErrors(problems);
    const title = `${plural(problems.length, 'field needs', 'fields need')} a value`;
    verdictHost.replaceChildren(summary(title, problems, editor));
    editor.focus(problems[0].path);
    return true;
  }

  async function runValidate() {
    if (running || incomplete()) return;
    const body = editor.body();
    if (body === undefined) return;
    const controller = new AbortController();
    const done = busy(undefined, controller);
    clear();
    try {
      const reply = await validate(tool.name, body, controller.signal);
      editor.showErrors(violations(reply, editor) ?? []);
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
    if (running || !state.executeEnabled || incomplete()) return;
    const body = editor.body();
    if (body === undefined) return;
    if (ask) {
      const answer = await confirmRun(tool, reasons, body);
      if (!answer.run) return;
      ask = !answer.remember;
    }
    await send(body);
  }

  async function send(body) {
    if (running) return;
    waiting?.stop();
    waiting = undefined;
    const controller = new AbortController();
    const done = busy('Executing…', controller);
    clear();
    outcomeHost.replaceChildren();
    const outcome = {};
    try {
      outcome.reply = await (canAsk(body) ? callWithQuestions : callPlainly)(body, controller.signal);
    } catch (error) {
      if (controller.signal.aborted) outcome.cancelled = true;
      else outcome.failed = error.message;
    }
    outcome.ms = done();
    if (controller.signal.reason === 'dropped') return; // the key has changed
    if (outcome.reply && executionDisabled(outcome.reply)) disableExecution();
    record({ body, outcome, at: new Date() });
    const id = outcome.reply && pendingApproval(outcome.reply);
    if (id === undefined) show(outcome);
    else wait(id, outcome.reply, body);
    if (outcome.reply && verdict(outcome) === 'error') await markFields(body);
  }

  /** Progress and questions of tools need `/mcp`, which only a gateway has, and only for callers with a
   * credential. Its arguments are an object. */
  function canAsk(body) {
    return hasGateway && state.token !== '' && isObject(parseJson(body));
  }

  const callPlainly = (body, signal) => call(tool.name, body, signal);

  async function callWithQuestions(body, signal) {
    const [{ callByMcp }, { askAll }] = await Promise.all([import('./mcp.js'), import('./question.js')]);
    signal.throwIfAborted();
    const answer = async (requests) => {
      progress.hidden = true;
      const answers = await askAll(requests, questionHost, { toolName: tool.name, signal });
      progress.hidden = false;
      progress.removeAttribute('value');
      (cancel.hidden ? execute : cancel).focus();
      return answers;
    };
    return callByMcp(tool, body, { signal, progress: showProgress, answer });
  }

  /** A bar with a total, or one without an end; and the words of the tool. */
  function showProgress(report) {
    const [done, total] = [Number(own(report, 'progress')), Number(own(report, 'total'))];
    if (total > 0 && done >= 0) {
      progress.max = total;
      progress.value = Math.min(done, total);
    } else {
      progress.removeAttribute('value');
    }
    const message = own(report, 'message');
    const share = total > 0 && done >= 0 ? `${Math.min(Math.round((done / total) * 100), 100)} %` : '';
    const words = typeof message === 'string' ? message.slice(0, 300) : '';
    setText(step, [share, words].filter(Boolean).join(' · '));
  }

  /** A failed call may be one whose arguments do not fit: then the fields say so. */
  async function markFields(body) {
    try {
      const reply = await validate(tool.name, body);
      const errors = violations(reply, editor) ?? [];
      if (running || errors.length === 0) return;
      editor.showErrors(errors);
      verdictHost.replaceChildren(renderValidation(reply, editor));
    } catch {
      // The result above says what the server said.
    }
  }

  /** Not a failure: the call runs when someone has agreed. */
  function wait(id, reply, body) {
    waiting = createWaiting({ id, reply, granted: () => send(body), again: () => send(body) });
    outcomeHost.replaceChildren(waiting.element);
    announce('The call waits for an approval');
  }

  function show(outcome) {
    const id = outcome.reply && pendingApproval(outcome.reply);
    outcomeHost.replaceChildren(
      renderOutcome(outcome, { signIn: focusToken, retry: id === undefined ? run : undefined }),
    );
    announce(`Call finished: ${verdict(outcome)}`);
  }

  /** A verdict applies to the validated input only, so a call clears it. */
  function clear() {
    verdictHost.replaceChildren();
    editor.showErrors([]);
  }

  refresh();
  return {
    actions,
    output,
    run,
    focus: () => (execute.hidden ? check : execute).focus(),
    show,
    refresh,
    /** After an edit: the verdict does not apply any more; the form keeps what it knows. */
    edited: () => {
      verdictHost.replaceChildren();
      execute.disabled = running !== undefined;
    },
    busy: () => running !== undefined || waiting !== undefined,
    drop: () => {
      running?.abort('dropped');
      waiting?.stop();
    },
  };
}

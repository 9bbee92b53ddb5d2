// Validate, execute, cancel, wait for an approval: the buttons under the arguments and their results.
//
// Invariant: one request of this tool at a time. A result that arrives after a cancel or a newer
// request is dropped.
import { html, announce, part, plural, useTick } from '../lib/ui.js';
import { isDestructive, reasonsToConfirm } from '../lib/danger.js';
import { formatMs } from '../lib/format.js';
import { state, disableExecution } from '../state.js';
import { call, validate } from '../api.js';
import { isObject, own, parseJson } from '../json.js';
import { hasGateway, isSignedIn } from '../shell/session.js';
import { focusToken } from '../auth.js';
import { confirmRun } from './confirm.js';
import { callByMcp } from './mcp.js';
import { createLog } from './message-log.js';
import { askAll } from './question.js';
import { Outcome, executionDisabled, pendingApproval, verdict } from './result.js';
import { Summary, Validation, violations } from './validation.js';
import { Waiting } from './waiting.js';

/** `editor` provides the body; `record(entry)` is called for every finished call. */
export function createRunner({ tool, editor, record, extra }) {
  const reasons = reasonsToConfirm(tool);
  let ask = reasons.length > 0;
  let running;
  let isWaiting = false;

  /** The progress of the running call: {label, started, bar, words}. */
  let report = {};
  let said;
  let question;
  let outcomeView;
  let serial = 0;
  const [execute, cancel, check] = [{}, {}, {}];

  const actions = part(() => {
    const isRunning = running !== undefined;
    const look = isDestructive(tool) ? 'danger' : 'primary';
    return html`
      <button type="button" class=${`button ${look}`} data-action="execute" ref=${execute} disabled=${isRunning}
        hidden=${!state.executeEnabled} onClick=${run}>${report.label ?? 'Execute'}</button>
      <button type="button" class="button" data-action="cancel" ref=${cancel} hidden=${!isRunning}
        onClick=${() => running?.abort()}>Cancel</button>
      <button type="button" class="button" data-action="validate" ref=${check} disabled=${isRunning}
        onClick=${runValidate}>Validate</button>
      ${extra}
      <span class="muted" hidden=${state.executeEnabled}>Execution is switched off on this server.</span>
      <span class="running">
        <${Progress} hidden=${!isRunning || question !== undefined} bar=${report.bar} />
        <span class="muted clock" role="timer" aria-live="off">${
          isRunning && html`<${Elapsed} since=${report.started} />`
        }</span>
        <bdi class="step" aria-live="polite">${report.words}</bdi>
      </span>`;
  });
  // In separate elements, so that each text is announced once.
  const output = part(
    () => html`<div>${said}</div><div>${question}</div><div>${outcomeView}</div>`,
  );

  function say(node) {
    said = node;
    output.draw();
  }

  function busy(label, controller) {
    running = controller;
    report = { label, started: performance.now() };
    const { activeElement } = document;
    const focused = actions.element().contains(activeElement) ? activeElement : undefined;
    actions.draw();
    if (focused) cancel.current.focus(); // a disabled button loses the focus
    return () => {
      const ms = performance.now() - report.started;
      const hadFocus = focused && document.activeElement === cancel.current;
      report = {};
      running = undefined;
      actions.draw();
      if (hadFocus) focused.focus();
      showQuestion(undefined);
      return ms;
    };
  }

  function showQuestion(node) {
    question = node;
    output.draw();
    actions.draw();
  }

  /** Shows the missing values. Returns whether there are any: the call is not sent then. */
  function incomplete() {
    const problems = editor.problems();
    if (problems.length === 0) return false;
    editor.showErrors(problems);
    const title = `${plural(problems.length, 'field needs', 'fields need')} a value`;
    say(html`<${Summary} title=${title} errors=${problems} editor=${editor} />`);
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
      say(html`<${Validation} reply=${reply} editor=${editor} />`);
    } catch (error) {
      if (!controller.signal.aborted)
        say(html`<p class="verdict bad" role="alert">The server could not be reached (${error.message}).</p>`);
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
    isWaiting = false;
    outcomeView = undefined;
    const controller = new AbortController();
    const done = busy('Executing…', controller);
    clear();
    const outcome = {};
    try {
      outcome.reply = await (canAsk(body) ? callWithQuestions : callPlainly)(body, controller.signal, outcome);
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

  /** Progress and questions of tools require `/mcp`: a gateway, a credential, and an object of arguments. */
  function canAsk(body) {
    return hasGateway && isSignedIn() && isObject(parseJson(body));
  }

  const callPlainly = (body, signal) => call(tool.name, body, signal);

  async function callWithQuestions(body, signal, outcome) {
    const answer = async (requests) => {
      const answers = await askAll(requests, showQuestion, { toolName: tool.name, signal });
      report = { ...report, bar: undefined };
      actions.draw();
      (running === undefined ? execute : cancel).current.focus();
      return answers;
    };
    outcome.log = createLog([state.token, state.session]);
    return callByMcp(tool, body, { signal, progress: showProgress, answer, log: outcome.log.add });
  }

  /** Shows a bar, indeterminate without a total, and the message of the tool. */
  function showProgress(progress) {
    const [done, total] = [Number(own(progress, 'progress')), Number(own(progress, 'total'))];
    const bar = total > 0 && done >= 0 ? { max: total, value: Math.min(done, total) } : undefined;
    const message = own(progress, 'message');
    const percent = bar && `${Math.round((bar.value / total) * 100)} %`;
    const words = typeof message === 'string' ? message.slice(0, 300) : '';
    report = { ...report, bar, words: [percent, words].filter(Boolean).join(' · ') };
    actions.draw();
  }

  /** Shows errors at the fields if the arguments of a failed call are invalid. */
  async function markFields(body) {
    try {
      const reply = await validate(tool.name, body);
      const errors = violations(reply, editor) ?? [];
      if (running || errors.length === 0) return;
      editor.showErrors(errors);
      say(html`<${Validation} reply=${reply} editor=${editor} />`);
    } catch {
      // The result above shows the message of the server.
    }
  }

  /** Not a failure: the call runs after someone has approved it. */
  function wait(id, reply, body) {
    isWaiting = true;
    const again = () => send(body);
    showResult(html`<${Waiting} key=${(serial += 1)} id=${id} reply=${reply} granted=${again} again=${again} />`);
    announce('The call waits for an approval');
  }

  function show(outcome) {
    const id = outcome.reply && pendingApproval(outcome.reply);
    const retry = id === undefined ? run : undefined;
    showResult(html`<${Outcome} key=${(serial += 1)} outcome=${outcome} signIn=${focusToken} retry=${retry} />`);
    announce(`Call finished: ${verdict(outcome)}`);
  }

  function showResult(node) {
    outcomeView = node;
    output.draw();
  }

  /** A verdict applies to the validated input only, so a call clears it. */
  function clear() {
    say(undefined);
    editor.showErrors([]);
  }

  return {
    actions: actions.ref,
    output: output.ref,
    run,
    focus: () => (state.executeEnabled ? execute : check).current.focus(),
    show,
    refresh: actions.draw,
    /** After an edit the verdict is outdated. The form keeps the errors of other fields. */
    edited: () => said !== undefined && say(undefined),
    busy: () => running !== undefined || isWaiting,
    drop: () => running?.abort('dropped'),
  };
}

/** A bar, indeterminate without a total. Each of the two is a separate element. */
function Progress({ hidden, bar }) {
  return html`<progress key=${bar ? 'total' : 'open'} aria-label="The tool is running" hidden=${hidden} ...${bar}></progress>`;
}

/** How long the call has taken so far. */
function Elapsed({ since }) {
  useTick(100);
  return formatMs(performance.now() - since);
}

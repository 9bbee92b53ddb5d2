// The arguments, edited as a form or as JSON text. Only the active mode counts. In JSON mode the
// text is sent byte for byte; in form mode the object that the fields edit.
import { html, part } from '../lib/ui.js';
import { Switch } from '../lib/tabs.js';
import { isObject, locate, parseJson, parseProblem, pretty } from '../json.js';
import { formStart, prefill, simplify } from './schema.js';
import { createForm } from './form.js';

const MODES = [
  ['form', 'Form'],
  ['json', 'JSON'],
];

/** The element of an editor. */
export function Editor({ of }) {
  return html`<section class="editor" aria-label=${of.title} ref=${of.ref}></section>`;
}

export function createEditor({ schema, onChange, title = 'Arguments' }) {
  const root = isObject(schema) ? schema : {};
  const simple = simplify(root, root);
  // As text the arguments start with exactly the required keys; a form starts with its groups open.
  const startText = pretty(prefill(simple, root));
  const startForm = () => {
    const start = formStart(simple, root);
    return isObject(start) ? start : prefill(simple, root);
  };
  let mode = 'form';
  let args = startForm();
  let touched = false;
  let form;
  /** The arguments as text, whether the validator found an error in it, and why it does not parse. */
  let text = startText;
  let invalid = false;
  let problem;
  const area = { current: undefined };

  const { ref, draw } = part(
    () => html`
      <div class="sub-head">
        <h3>${title}</h3>
        <${Switch} name="mode" label="Edit as" views=${MODES} chosen=${mode} onChoose=${setMode} />
        <button type="button" class="quiet" title="Back to the required fields" onClick=${reset}>Reset</button>
      </div>
      <div class="editor-body">
        ${
          mode === 'form'
            ? html`<div class="form" key=${form.key} ref=${form.ref}></div>`
            : html`<textarea class="input mono json" key="json" ref=${area} spellcheck=${false} autocomplete="off" rows="6"
                aria-label=${`${title} as JSON`} aria-invalid=${String(invalid)} value=${text}
                onInput=${(event) => {
                  text = event.target.value;
                  problem = undefined;
                  draw();
                  onChange();
                }}></textarea>`
        }
      </div>
      <p class="field-error" role="alert" hidden=${problem === undefined}>${problem}</p>`,
  );

  /** Draws the arguments anew in the current mode. */
  function start() {
    problem = undefined;
    if (mode === 'form')
      form = createForm({
        schema: root,
        args,
        onChange: (path) => {
          touched = true;
          onChange(path);
        },
      });
    else text = touched ? pretty(form.value()) : startText;
    draw();
  }

  /** Switches to the form only when the text is an object that fields can show. */
  function setMode(next) {
    if (next === mode) return;
    if (next === 'form') {
      const bad = parseProblem(text);
      const value = bad ? undefined : parseJson(text);
      if (!isObject(value))
        return say(bad ?? { message: 'Only a JSON object can be shown as a form.' });
      touched = text !== startText;
      args = touched ? value : startForm();
    } else {
      const bad = form.localProblems().find(({ path }) => form.isBroken(path));
      if (bad) return form.focus(bad.path);
    }
    mode = next;
    start();
    return onChange();
  }

  function say(bad) {
    problem = bad.message;
    draw();
    area.current.focus();
    if (bad.offset !== undefined)
      area.current.setSelectionRange(bad.offset, Math.min(bad.offset + 1, text.length));
  }

  function load(value) {
    args = isObject(value) ? value : {};
    touched = true;
    mode = 'form';
    start();
    onChange();
  }

  function reset() {
    args = startForm();
    touched = false;
    start();
    onChange();
  }

  /** The problems that are known before sending: fields that are empty or do not parse. */
  function problems() {
    return mode === 'form' ? form.localProblems() : [];
  }

  /** The typed arguments, for `restore`; undefined without input. */
  function draft() {
    if (mode === 'json') return text === startText ? undefined : { text };
    return touched ? { args: JSON.stringify(form.value()) } : undefined;
  }

  function restore(typed) {
    if (typed.args !== undefined) return load(parseJson(typed.args));
    mode = 'json';
    start();
    text = typed.text;
    touched = true;
    draw();
    return onChange();
  }

  /** Returns the request body, or undefined after showing the error in the text. */
  function body() {
    if (mode === 'json') {
      const bad = parseProblem(text);
      if (bad) say(bad);
      return bad ? undefined : text;
    }
    return JSON.stringify(form.sendable());
  }

  /** The arguments given so far, for a snippet; undefined if the text does not parse. */
  function compact() {
    if (mode === 'form') return JSON.stringify(form.sendable({ given: true }));
    return parseProblem(text) ? undefined : JSON.stringify(parseJson(text));
  }

  function showErrors(errors) {
    if (mode === 'form') return form.showErrors(errors);
    invalid = errors.length > 0;
    return draw();
  }

  /** The line of an error's path, when the arguments are edited as JSON. */
  function lineOf(path) {
    const range = mode === 'json' ? locate(text, path) : undefined;
    return range ? text.slice(0, range.start).split('\n').length : undefined;
  }

  function focus(path) {
    if (mode === 'form') return form.focus(path);
    const range = locate(text, path);
    area.current.focus();
    return range ? area.current.setSelectionRange(range.start, range.end) : undefined;
  }

  start();
  return {
    ref,
    title,
    problems,
    body,
    draft,
    restore,
    compact,
    focusFirst: () => {
      if (mode === 'form') return form.focusFirst();
      area.current.focus();
      return true;
    },
    label: (path) => (mode === 'form' ? form.label(path) : path),
    schemaAt: (path) => (mode === 'form' ? form.schemaAt(path) : undefined),
    load,
    showErrors,
    lineOf,
    focus,
    loadText: (value) => {
      try {
        load(parseJson(value));
      } catch {
        mode = 'json';
        problem = undefined;
        text = value;
        draw();
        onChange();
      }
    },
  };
}

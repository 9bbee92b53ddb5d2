// The arguments, edited as a form or as JSON text. Only the active mode counts. In JSON mode the
// text is sent byte for byte; in form mode the object that the fields edit.
import { h, button, setText } from '../dom.js';
import { isObject, locate, parseJson, parseProblem, pretty } from '../json.js';
import { formStart, prefill, simplify } from './schema.js';
import { createForm } from './form.js';

export function createEditor({ schema, onChange, title = 'Arguments' }) {
  const root = isObject(schema) ? schema : {};
  const simple = simplify(root, root);
  // As text the arguments start from exactly the required keys; a form begins with its groups open.
  const startText = pretty(prefill(simple, root));
  const startForm = () => {
    const start = formStart(simple, root);
    return isObject(start) ? start : prefill(simple, root);
  };
  let mode = 'form';
  let args = startForm();
  let touched = false;
  let form;

  const text = h('textarea', {
    class: 'input mono json',
    spellcheck: 'false',
    autocomplete: 'off',
    'aria-label': `${title} as JSON`,
    rows: '6',
    on: {
      input: () => {
        problem.hidden = true;
        onChange();
      },
    },
  });
  const problem = h('p', { class: 'field-error', role: 'alert', hidden: true });
  const host = h('div', { class: 'editor-body' });
  const toggles = ['form', 'json'].map((id) =>
    h('button', {
      type: 'button',
      class: 'toggle',
      'aria-pressed': 'false',
      data: { mode: id },
      text: id === 'form' ? 'Form' : 'JSON',
      on: { click: () => setMode(id) },
    }),
  );
  const element = h(
    'section',
    { class: 'editor', 'aria-label': title },
    h(
      'div',
      { class: 'sub-head' },
      h('h3', { text: title }),
      h('div', { class: 'segmented', role: 'group', 'aria-label': 'Edit as' }, toggles),
      button('Reset', reset, {
        class: 'quiet',
        title: 'Back to the required fields',
      }),
    ),
    host,
    problem,
  );
  function draw() {
    for (const toggle of toggles)
      toggle.setAttribute('aria-pressed', String(toggle.dataset.mode === mode));
    problem.hidden = true;
    if (mode === 'form') {
      form = createForm({
        schema: root,
        args,
        onChange: (path) => {
          touched = true;
          onChange(path);
        },
      });
      host.replaceChildren(form.element);
    } else {
      text.value = touched ? pretty(form.value()) : startText;
      host.replaceChildren(text);
    }
  }

  /** Switches to the form only when the text is an object that fields can show. */
  function setMode(next) {
    if (next === mode) return;
    if (next === 'form') {
      const bad = parseProblem(text.value);
      const value = bad ? undefined : parseJson(text.value);
      if (!isObject(value))
        return say(bad ?? { message: 'Only a JSON object can be shown as a form.' });
      touched = text.value !== startText;
      args = touched ? value : startForm();
    } else {
      const bad = form.localProblems().find(({ path }) => form.isBroken(path));
      if (bad) return form.focus(bad.path);
    }
    mode = next;
    draw();
    return onChange();
  }

  function say(bad) {
    setText(problem, bad.message);
    problem.hidden = false;
    text.focus();
    if (bad.offset !== undefined)
      text.setSelectionRange(bad.offset, Math.min(bad.offset + 1, text.value.length));
  }

  function load(value) {
    args = isObject(value) ? value : {};
    touched = true;
    mode = 'form';
    draw();
    onChange();
  }

  function reset() {
    args = startForm();
    touched = false;
    draw();
    onChange();
  }

  /** What is wrong before anything is sent: fields that are empty or do not parse. */
  function problems() {
    return mode === 'form' ? form.localProblems() : [];
  }

  /** Returns the request body, or undefined after showing the error in the text. */
  function body() {
    if (mode === 'json') {
      const bad = parseProblem(text.value);
      if (bad) say(bad);
      return bad ? undefined : text.value;
    }
    return JSON.stringify(form.sendable());
  }

  /** The arguments for a snippet: those that were given so far, or undefined. */
  function compact() {
    if (mode === 'form') return JSON.stringify(form.sendable({ given: true }));
    return parseProblem(text.value) ? undefined : JSON.stringify(parseJson(text.value));
  }

  function showErrors(errors) {
    if (mode === 'form') form.showErrors(errors);
    else text.setAttribute('aria-invalid', String(errors.length > 0));
  }

  /** The line of an error's path, when the arguments are edited as JSON. */
  function lineOf(path) {
    const range = mode === 'json' ? locate(text.value, path) : undefined;
    return range ? text.value.slice(0, range.start).split('\n').length : undefined;
  }

  function focus(path) {
    if (mode === 'form') return form.focus(path);
    const range = locate(text.value, path);
    text.focus();
    return range ? text.setSelectionRange(range.start, range.end) : undefined;
  }

  draw();
  return {
    element,
    problems,
    body,
    compact,
    focusFirst: () => {
      if (mode === 'form') return form.focusFirst();
      text.focus();
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
        draw();
        text.value = value;
        onChange();
      }
    },
  };
}

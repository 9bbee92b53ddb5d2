// A question that a running tool asks: its text, a form of the schema that it names, and the answers
// "send", "decline" and "cancel". The text and the schema are the tool's and never markup.
import { h, button, announce } from '../dom.js';
import { isObject, own, parseJson, setKey } from '../json.js';
import { createEditor } from './editor.js';
import { formStart, propertiesOf, structuredCloneJson } from './schema.js';
import { summary } from './validation.js';

const MAX_QUESTIONS = 8;
const MAX_TEXT = 4000;

/**
 * Asks each question of a round in turn, in `host`. Returns the responses by name; `cancel` ends the
 * call.
 */
export async function askAll(requests, host, { toolName, signal }) {
  const entries = Object.entries(requests);
  if (entries.length > MAX_QUESTIONS) throw new Error(`the tool asks more than ${MAX_QUESTIONS} questions at once`);
  const responses = {};
  for (const [at, [name, request]] of entries.entries()) {
    const count = entries.length > 1 ? ` ${at + 1} of ${entries.length}` : '';
    Object.defineProperty(responses, name, {
      value: await ask(request, host, { toolName, signal, count }),
      enumerable: true,
    });
  }
  return responses;
}

/** Required fields, and optional ones that have a default: protocol clients show those filled in. */
function startOf(schema) {
  const root = isObject(schema) ? schema : {};
  const start = formStart(root, root);
  const values = isObject(start) ? start : {};
  for (const [key, property] of Object.entries(propertiesOf(root)))
    if (!Object.hasOwn(values, key) && isObject(property) && Object.hasOwn(property, 'default'))
      setKey(values, key, structuredCloneJson(property.default));
  return values;
}

function ask(request, host, { toolName, signal, count }) {
  const params = own(request, 'params');
  const mode = own(params, 'mode') ?? 'form';
  // The server sends only questions that this page has declared; others are declined.
  if (own(request, 'method') !== 'elicitation/create' || mode !== 'form')
    return Promise.resolve({ action: 'decline' });
  const schema = own(params, 'requestedSchema');
  const editor = createEditor({
    schema: isObject(schema) ? schema : { type: 'object' },
    title: 'Your answer',
    onChange: () => problems.replaceChildren(),
  });
  const problems = h('div', {});
  editor.load(startOf(schema));
  const text = String(own(params, 'message') ?? '').slice(0, MAX_TEXT);
  return new Promise((resolve, reject) => {
    const done = (response) => {
      signal.removeEventListener('abort', stop);
      host.replaceChildren();
      resolve(response);
    };
    const stop = () => {
      host.replaceChildren();
      reject(signal.reason);
    };
    const answer = () => {
      const missing = editor.problems();
      if (missing.length > 0) {
        editor.showErrors(missing);
        problems.replaceChildren(summary('Some fields need a value', missing, editor));
        editor.focus(missing[0].path);
        return;
      }
      const body = editor.body();
      if (body !== undefined) done({ action: 'accept', content: parseJson(body) });
    };
    const element = h(
      'section',
      { class: 'outcome waiting question', 'aria-label': 'Question of the tool', data: { tone: 'waiting' } },
      h(
        'div',
        { class: 'outcome-head' },
        h('span', { class: 'outcome-title', text: `The tool has a question${count}` }),
      ),
      h(
        'div',
        { class: 'outcome-body' },
        text === '' ? undefined : h('p', { class: 'question-text' }, h('bdi', { text })),
        h('p', { class: 'muted' }, 'Your answer goes to ', h('bdi', { class: 'mono', text: toolName }),
          '. Do not enter a password or key unless you trust this tool.'),
        editor.element,
        problems,
        h(
          'div',
          { class: 'actions' },
          button('Send the answer', answer, { class: 'button primary', data: { action: 'answer' } }),
          button('Decline', () => done({ action: 'decline' }), {
            data: { action: 'decline' },
            title: 'The tool goes on without an answer',
          }),
          button('Cancel the question', () => done({ action: 'cancel' }), {
            class: 'quiet',
            data: { action: 'dismiss' },
            title: 'The tool learns that you closed the question',
          }),
        ),
      ),
    );
    // Ctrl Enter answers the question and does not run the tool again.
    element.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.repeat) return;
      event.preventDefault();
      event.stopPropagation();
      answer();
    });
    signal.addEventListener('abort', stop);
    host.replaceChildren(element);
    announce(`The tool has a question. ${text}`);
    if (!editor.focusFirst()) element.querySelector('[data-action="answer"]').focus();
  });
}

// A question of a running tool: its text, a form for its schema, and the answers "send", "decline" and
// "cancel". The text and the schema come from the tool and are never markup.
import { html, announce, part } from '../lib/ui.js';
import { isObject, own, parseJson, setKey } from '../json.js';
import { Editor, createEditor } from './editor.js';
import { formStart, propertiesOf, structuredCloneJson } from './schema.js';
import { Summary } from './validation.js';

const MAX_QUESTIONS = 8;
const MAX_TEXT = 4000;

/**
 * Shows the questions of a round one after another. `show` draws a question in the page at once, or
 * removes it for undefined. Returns the responses by name; rejects if `signal` aborts.
 */
export async function askAll(requests, show, { toolName, signal }) {
  const entries = Object.entries(requests);
  if (entries.length > MAX_QUESTIONS) throw new Error(`the tool sent more than ${MAX_QUESTIONS} questions at once`);
  const responses = {};
  for (const [at, [name, request]] of entries.entries()) {
    const count = entries.length > 1 ? ` ${at + 1} of ${entries.length}` : '';
    Object.defineProperty(responses, name, {
      value: await ask(request, show, { toolName, signal, count }),
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

function ask(request, show, { toolName, signal, count }) {
  const params = own(request, 'params');
  const mode = own(params, 'mode') ?? 'form';
  // The server sends only questions that this page has declared; others are declined.
  if (own(request, 'method') !== 'elicitation/create' || mode !== 'form')
    return Promise.resolve({ action: 'decline' });
  const schema = own(params, 'requestedSchema');
  let missing = [];
  const problems = part(
    () =>
      missing.length > 0 &&
      html`<${Summary} title="Some fields need a value" errors=${missing} editor=${editor} />`,
  );
  const editor = createEditor({
    schema: isObject(schema) ? schema : { type: 'object' },
    title: 'Your answer',
    onChange: () => {
      missing = [];
      problems.draw();
    },
  });
  editor.load(startOf(schema));
  const text = String(own(params, 'message') ?? '').slice(0, MAX_TEXT);
  return new Promise((resolve, reject) => {
    const done = (response) => {
      signal.removeEventListener('abort', stop);
      show(undefined);
      resolve(response);
    };
    const stop = () => {
      show(undefined);
      reject(signal.reason);
    };
    const answer = () => {
      missing = editor.problems();
      if (missing.length > 0) {
        editor.showErrors(missing);
        problems.draw();
        editor.focus(missing[0].path);
        return;
      }
      const body = editor.body();
      if (body !== undefined) done({ action: 'accept', content: parseJson(body) });
    };
    const send = { current: undefined };
    signal.addEventListener('abort', stop);
    show(html`<${Question} ...${{ text, count, toolName, editor, problems, answer, done, send }} />`);
    announce(`The tool has a question. ${text}`);
    if (!editor.focusFirst()) send.current.focus();
  });
}

function Question({ text, count, toolName, editor, problems, answer, done, send }) {
  // Ctrl Enter answers the question and does not run the tool again.
  const onKeyDown = (event) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.repeat) return;
    event.preventDefault();
    event.stopPropagation();
    answer();
  };
  return html`<section class="outcome waiting question" aria-label="Question of the tool" data-tone="waiting"
    onKeyDown=${onKeyDown}>
    <div class="outcome-head"><span class="outcome-title">The tool has a question${count}</span></div>
    <div class="outcome-body">
      ${text !== '' && html`<p class="question-text"><bdi>${text}</bdi></p>`}
      <p class="muted">Your answer goes to <bdi class="mono">${toolName}</bdi>. Do not enter a password or key unless you trust this tool.</p>
      <${Editor} of=${editor} />
      <div ref=${problems.ref}></div>
      <div class="actions">
        <button type="button" class="button primary" data-action="answer" ref=${send} onClick=${answer}>Send the answer</button>
        <button type="button" class="button" data-action="decline" title="The tool continues without an answer"
          onClick=${() => done({ action: 'decline' })}>Decline</button>
        <button type="button" class="quiet" data-action="dismiss" title="The tool learns that you closed the question"
          onClick=${() => done({ action: 'cancel' })}>Cancel the question</button>
      </div>
    </div>
  </section>`;
}

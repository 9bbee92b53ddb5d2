// The problems of the arguments: one line each, with a link to the field.
import { html, plural } from '../lib/ui.js';
import { JsonBlock } from '../lib/json-block.js';
import { isObject } from '../json.js';
import { problemText } from '../api.js';
import { plainMessage } from './words.js';

/** The violations in a validation reply, or undefined for any other reply. */
export function violations(reply, editor) {
  if (!isObject(reply.data) || typeof reply.data.valid !== 'boolean') return undefined;
  const errors = Array.isArray(reply.data.errors) ? reply.data.errors : [];
  const text = (value) => (typeof value === 'string' ? value : '');
  return errors.filter(isObject).map((error) => {
    const path = text(error.path);
    const plain = { keyword: text(error.keyword), message: text(error.message) };
    return { path, message: plainMessage(plain, editor.schemaAt(path)) };
  });
}

export function Validation({ reply, editor }) {
  const errors = violations(reply, editor);
  if (errors === undefined)
    return html`<div class="verdict bad" role="alert">
      <p class="strong">The input could not be checked</p>
      <p>${problemText(reply)}</p>
    </div>`;
  if (reply.data.valid)
    return html`<div class="verdict good" role="status"><p>Input is valid.</p></div>`;
  return html`<${Summary} title=${`Input is not valid: ${plural(errors.length, 'problem')}`} errors=${errors} editor=${editor}>
    <details>
      <summary>Validator’s response as JSON</summary>
      <${JsonBlock} value=${reply.data} />
    </details>
  <//>`;
}

/** A summary of problems that jumps to them. */
export function Summary({ title, errors, editor, children }) {
  return html`<div class="verdict bad" role="alert">
    <p class="strong">${title}</p>
    <ul class="violations">
      ${errors.map(({ path, message }) => {
        const line = editor.lineOf(path);
        const where =
          path === ''
            ? html`<span class="path">The arguments as a whole</span>`
            : html`<button type="button" class="path link" title="Go to this value"
                onClick=${() => editor.focus(path)}><bdi>${editor.label(path)}</bdi></button>`;
        return html`<li>${where}: <bdi>${message}</bdi>${line !== undefined && html`<span class="muted"> (line ${line})</span>`}</li>`;
      })}
    </ul>
    ${children}
  </div>`;
}

// A file as a base64 value: chosen from this machine, or pasted.
import { html, announce, useState } from '../lib/ui.js';
import { formatBytes } from '../lib/format.js';
import { own } from '../json.js';

/** The assumed limit for a request body, if the page does not know the server's limit. */
const DEFAULT_BODY = 1 << 20;
/** The bytes reserved for the other members of a body. */
const REST = 4_096;
const TEXTUAL = /^(text\/|application\/(json|xml|x-www-form-urlencoded|yaml)\b)|\+(json|xml|yaml)\b/i;
/** How OpenAPI connectors describe files with an optional name and type. */
const NAMED = 'data:TYPE;name=NAME;base64,';
const TYPED = 'data:TYPE;base64,';

/** How a value is written if it is a file: `base64`, or `data` for `data:TYPE;…;base64,`. */
export function fileForm(simple, root) {
  const text = (key) => String(own(simple, key) ?? '').toLowerCase();
  const encoding = text('contentEncoding');
  const format = text('format');
  if (encoding === 'base64' || format === 'byte' || format === 'base64') return 'base64';
  if (encoding !== '') return undefined;
  const type = text('contentMediaType');
  if (format === 'binary' || (type !== '' && !TEXTUAL.test(type))) return takesNames(root) ? 'data' : 'base64';
  return String(own(simple, 'description') ?? '').includes(TYPED) ? 'data' : undefined;
}

const known = new WeakMap();

function takesNames(root) {
  if (!known.has(root)) known.set(root, JSON.stringify(root).includes(NAMED));
  return known.get(root);
}

/** The largest file that fits into a request. */
export function maxFile() {
  const given = Number(document.body.dataset.maxBody);
  const body = Number.isFinite(given) && given > 0 ? given : DEFAULT_BODY;
  return Math.max(0, Math.floor(((body - REST) * 3) / 4));
}

export function FileControl({ id, value, set, form, ...marks }) {
  const [chosen, setChosen] = useState();
  const [problem, setProblem] = useState();
  const choose = async (event) => {
    const [file] = event.target.files;
    event.target.value = ''; // so that the same file can be chosen again
    if (file === undefined) return;
    const most = maxFile();
    if (file.size > most) {
      setProblem(`${file.name} has ${formatBytes(file.size)}. A file can have at most ${formatBytes(most)} here, the limit of the server for a request.`);
      return;
    }
    try {
      const data = await base64Of(file);
      const text = form === 'data' ? `data:${file.type};name=${encodeURIComponent(file.name)};base64,${data}` : data;
      setProblem(undefined);
      setChosen({ name: file.name, size: file.size, text });
      set(text);
      announce(`${file.name} is chosen`);
    } catch (error) {
      setProblem(`${file.name} could not be read (${error.message}).`);
    }
  };
  const remove = () => {
    setChosen(undefined);
    set(null);
  };
  const isChosen = chosen !== undefined && chosen.text === value;
  return html`<div class="file-control">
    <div class="row">
      <label class="button">${isChosen ? 'Choose another file' : 'Choose a file'}
        <input id=${id} class="sr" type="file" onChange=${choose} ...${marks} /></label>
      ${
        isChosen
          ? html`<span><bdi class="strong">${chosen.name}</bdi> <span class="muted">${formatBytes(chosen.size)}</span></span>
              <button type="button" class="quiet" aria-label=${`Remove the file ${chosen.name}`} onClick=${remove}>Remove</button>`
          : html`<span class="muted">at most ${formatBytes(maxFile())}, or paste base64:</span>`
      }
    </div>
    ${problem && html`<p class="field-error" role="alert">${problem}</p>`}
    ${
      !isChosen &&
      html`<textarea class="input mono" rows="1" aria-label="The file in base64" autocomplete="off" spellcheck=${false}
        value=${value ?? ''} onInput=${(event) => set(event.target.value)}></textarea>`
    }
  </div>`;
}

/** Encodes with `FileReader`, because a file can have a million bytes. */
function base64Of(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(',') + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

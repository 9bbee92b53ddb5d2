// One saved call in a list: buttons to open, run and remove it, and a form for its variables.
import { html, useLayoutEffect, useRef, useState } from '../lib/ui.js';
import { pretty } from '../json.js';
import { mixedWords } from '../lib/visible.js';
import { filled, variableProblem, variablesOf } from './variables.js';

let serial = 0;

/** `note` is shown after the name. `remove` is undefined for a call that the user may not remove. */
export function SavedRow({ tool, name, args, note, open, rerun, remove }) {
  const [wanted, setWanted] = useState();
  const variables = variablesOf(args, tool.inputSchema);
  const start = (what) => (variables.length === 0 ? act(what, args) : setWanted(what));
  const act = (what, complete) => {
    setWanted(undefined);
    return (what === 'run' ? rerun : open)(pretty(complete));
  };
  return html`<li data-saved=${name}>
    <bdi class="strong">${name}</bdi>
    ${mixedWords(name).map(([word, form]) => html`<span class="warn" key=${word} data-mixed>letters of different alphabets: <code>${form}</code></span>`)}
    ${note && html`<span class="muted">${note}</span>`}
    <code class="args">${JSON.stringify(args).slice(0, 300)}</code>
    <span class="row">
      <button type="button" class="quiet" data-action="open-saved" onClick=${() => start('open')}>Open</button>
      <button type="button" class="quiet" data-action="run-saved" onClick=${() => start('run')}>Run</button>
      ${remove && html`<button type="button" class="quiet" aria-label=${`Remove ${name}`} onClick=${remove}>Remove</button>`}
    </span>
    ${
      wanted &&
      html`<${Variables} key=${wanted} variables=${variables} wanted=${wanted} close=${() => setWanted(undefined)}
        submit=${(values) => act(wanted, filled(args, tool.inputSchema, values))} />`
    }
  </li>`;
}

function Variables({ variables, wanted, submit, close }) {
  const [values, setValues] = useState({});
  const [problems, setProblems] = useState({});
  const form = useRef();
  const prefix = useRef();
  prefix.current ??= `variables${(serial += 1)}`;
  useLayoutEffect(() => form.current.querySelector('input, select').focus(), []);
  const onSubmit = (event) => {
    event.preventDefault();
    // Fields left empty here can be filled in the opened form.
    const given = variables.filter(({ name }) => wanted === 'run' || (values[name] ?? '').trim() !== '');
    const found = given.map((it) => [it.name, variableProblem(it, values[it.name] ?? '')]);
    const wrong = found.filter(([, problem]) => problem !== undefined);
    setProblems(Object.fromEntries(wrong));
    if (wrong.length > 0) {
      const at = variables.findIndex(({ name }) => name === wrong[0][0]);
      return form.current.querySelectorAll('input, select')[at].focus();
    }
    return submit(Object.fromEntries(given.map(({ name }) => [name, values[name]])));
  };
  const onKeyDown = (event) => {
    if (event.key === 'Escape') close();
    event.stopPropagation();
  };
  return html`<form class="variables" ref=${form} onSubmit=${onSubmit} onKeyDown=${onKeyDown}>
    ${variables.map(({ name, kind }, at) => {
      const id = `${prefix.current}-${at}`;
      const marks = {
        id,
        class: 'input',
        'data-variable': name,
        'aria-invalid': problems[name] ? 'true' : undefined,
        'aria-describedby': problems[name] ? `${id}-error` : undefined,
        onInput: (event) => setValues((all) => ({ ...all, [name]: event.target.value })),
      };
      return html`<div class="field" key=${name}>
        <div class="field-head">
          <label class="field-name" for=${id}><bdi>${name}</bdi></label>
          <span class="field-type">${KINDS[kind]}</span>
        </div>
        ${
          kind === 'boolean'
            ? html`<select ...${marks} value=${values[name] ?? ''}>
                <option value="">Choose…</option><option value="true">Yes</option><option value="false">No</option>
              </select>`
            : html`<input ...${marks} type="text" autocomplete="off" inputmode=${MODES[kind]} value=${values[name] ?? ''} />`
        }
        <p class="field-error" id=${`${id}-error`} hidden=${problems[name] === undefined}>${problems[name]}</p>
      </div>`;
    })}
    <div class="row">
      <button type="submit" class="button primary">${wanted === 'run' ? 'Run with these values' : 'Open with these values'}</button>
      <button type="button" class="quiet" onClick=${close}>Cancel</button>
    </div>
  </form>`;
}

const KINDS = { text: 'text', number: 'number', integer: 'whole number', boolean: 'yes or no' };
const MODES = { number: 'decimal', integer: 'numeric' };

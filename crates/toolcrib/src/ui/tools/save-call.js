// "Save call" under the arguments: a name, and what is left out of what is stored.
import { html, announce, useLayoutEffect, useRef, useState } from '../lib/ui.js';
import { parseJson } from '../json.js';
import { saveCall, savedCalls, withoutSecrets } from './saved.js';

export function SaveCall({ tool, editor, onSaved }) {
  const [draft, setDraft] = useState();
  const open = useRef();
  const wasOpen = useRef(false);
  useLayoutEffect(() => {
    if (draft === undefined && wasOpen.current) open.current.focus();
    wasOpen.current = draft !== undefined;
  }, [draft]);
  const ask = () => {
    const text = editor.compact();
    if (text === undefined) editor.focusFirst();
    else setDraft(withoutSecrets(parseJson(text), tool.inputSchema));
  };
  return html`<span class="save">
    ${
      draft === undefined
        ? html`<button type="button" class="quiet" data-action="save" ref=${open} onClick=${ask}>Save call</button>`
        : html`<${SaveForm} tool=${tool} draft=${draft} onSaved=${onSaved} close=${() => setDraft(undefined)} />`
    }
  </span>`;
}

function SaveForm({ tool, draft, onSaved, close }) {
  const name = useRef();
  useLayoutEffect(() => {
    name.current.value = `Call ${savedCalls(tool.name).length + 1}`;
    name.current.select();
  }, []);
  const submit = (event) => {
    event.preventDefault();
    const chosen = name.current.value.trim();
    if (chosen === '') return name.current.focus();
    const done = saveCall(tool.name, chosen, draft.args);
    announce(done ? 'Saved in this browser' : 'The browser did not store it');
    close();
    return onSaved();
  };
  const onKeyDown = (event) => {
    if (event.key === 'Escape') close();
    event.stopPropagation(); // Enter here saves, and does not run the tool
  };
  return html`<form class="save-form" onSubmit=${submit} onKeyDown=${onKeyDown}>
    <input class="input" type="text" maxlength="80" aria-label="Name of the call" autocomplete="off" ref=${name} />
    <button type="submit" class="button">Save</button>
    <button type="button" class="quiet" onClick=${close}>Cancel</button>
    <span class="muted">${
      draft.left.length === 0
        ? 'Stored in this browser only.'
        : `Stored in this browser only, without ${draft.left.join(', ')}.`
    }</span>
  </form>`;
}

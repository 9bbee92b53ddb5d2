// "Save call" under the arguments: a name, and the values to leave out.
import { html, announce, send, useLayoutEffect, useRef, useState, ServerText } from '../lib/ui.js';
import { parseJson } from '../json.js';
import { hasGateway, isSignedIn } from '../shell/session.js';
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

const PLACES = [
  ['browser', 'only in this browser'],
  ['tenant', 'for everyone who may use this tool'],
];

function SaveForm({ tool, draft, onSaved, close }) {
  const name = useRef();
  const [place, setPlace] = useState('browser');
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => {
    name.current.value = `Call ${savedCalls(tool.name).length + 1}`;
    name.current.select();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    const chosen = name.current.value.trim();
    if (chosen === '') return name.current.focus();
    if (place === 'browser') {
      const done = saveCall(tool.name, chosen, draft.args);
      announce(done ? 'Saved in this browser' : 'The browser could not store it');
    } else {
      setBusy(true);
      const call = { kind: 'call', name: chosen, tool: tool.name, arguments: draft.args };
      const reply = await send('POST', '/v1/saved', call);
      setBusy(false);
      if (reply.problem !== undefined) return setProblem(reply.problem);
      announce('Saved for everyone who may use this tool');
    }
    close();
    return onSaved();
  };
  const onKeyDown = (event) => {
    if (event.key === 'Escape') close();
    event.stopPropagation(); // Enter here saves, and does not run the tool
  };
  const where = place === 'browser' ? 'Stored in this browser only' : 'Stored on the server, and seen by everyone of your tenant who may use this tool';
  const without = draft.left.length === 0 ? '' : `, without ${draft.left.join(', ')}`;
  return html`<form class="save-form" onSubmit=${submit} onKeyDown=${onKeyDown}>
    <input class="input" type="text" maxlength="80" aria-label="Name of the call" autocomplete="off" ref=${name} />
    ${
      hasGateway &&
      isSignedIn() &&
      html`<select class="input" aria-label="Where to save" data-place value=${place} onChange=${(event) => setPlace(event.target.value)}>
        ${PLACES.map(([value, words]) => html`<option key=${value} value=${value}>${words}</option>`)}
      </select>`
    }
    <button type="submit" class="button" disabled=${busy}>Save</button>
    <button type="button" class="quiet" onClick=${close}>Cancel</button>
    <span class="muted">${where}${without}.</span>
    <span class="muted">Write <code>${'{{name}}'}</code> in a text for a value that you enter before each run.</span>
    ${problem && html`<p class="bad" role="alert"><${ServerText} text=${problem} /></p>`}
  </form>`;
}

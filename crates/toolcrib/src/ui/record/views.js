// Saved views of the record, for everyone in the tenant who may read it. A view is an address query, so it
// opens as a link.
import {
  html,
  announce,
  send,
  useData,
  useLayoutEffect,
  useRef,
  useState,
  Button,
  Loaded,
  Problem,
  Time,
} from '../lib/ui.js';
import { RemoveShared } from '../lib/shared-item.js';

/** `query` is the query of the current address. */
export function Views({ query }) {
  const found = useData('/v1/saved?kind=view');
  const [open, setOpen] = useState(false);
  const [naming, setNaming] = useState(false);
  const [removing, setRemoving] = useState();
  const button = useRef();
  const wasNaming = useRef(false);
  useLayoutEffect(() => {
    if (!naming && wasNaming.current) button.current?.querySelector('button')?.focus();
    wasNaming.current = naming;
  }, [naming]);
  const count = found.data?.saved.length;
  const onToggle = (event) => {
    // Others may have saved some meanwhile.
    if (event.target.open && !open && found.data !== undefined) found.reload();
    setOpen(event.target.open);
  };
  const saved = () => {
    setNaming(false);
    setOpen(true);
    found.reload();
  };
  return html`<div class="views">
    ${removing && html`<${RemoveShared} item=${removing} words="view" onClose=${() => setRemoving()} onRemoved=${found.reload} />`}
    <details id="saved-views" open=${open} onToggle=${onToggle}>
      <summary>Saved views${count !== undefined && ` (${count})`}</summary>
      <${Loaded} of=${found} rows=${1}>
        ${({ saved }) =>
          saved.length === 0
            ? html`<p class="muted">No saved views yet. “Save view” keeps the current filter under a name, for everyone who may read the record.</p>`
            : html`<ul class="plain-list">${saved.map((it) => html`<${View} key=${it.id} it=${it} query=${query} onRemove=${() => setRemoving(it)} />`)}</ul>`}
      <//>
    </details>
    ${
      naming
        ? html`<${Naming} query=${query} onSaved=${saved} onClose=${() => setNaming(false)} />`
        : html`<span ref=${button}><${Button} id="save-view" onClick=${() => setNaming(true)}>Save view<//></span>`
    }
  </div>`;
}

function View({ it, query, onRemove }) {
  const { name, savedBy, savedAt, canRemove } = it;
  return html`<li data-view=${name}>
    ${
      it.query === undefined
        ? html`<bdi class="strong">${name}</bdi> <span class="bad">cannot be read: the server does not have the key that sealed it</span>`
        : html`<a href=${`#/record?${it.query}`} aria-current=${it.query === query ? 'page' : undefined}><bdi>${name}</bdi></a>`
    }
    <span class="muted">by <bdi>${savedBy}</bdi>, <${Time} at=${savedAt} /></span>
    ${canRemove && html`<button type="button" class="quiet" aria-label=${`Remove the view ${name}`} onClick=${onRemove}>Remove</button>`}
  </li>`;
}

function Naming({ query, onSaved, onClose }) {
  const input = useRef();
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => input.current.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    const name = input.current.value.trim();
    if (name === '') return input.current.focus();
    setBusy(true);
    const reply = await send('POST', '/v1/saved', { kind: 'view', name, query });
    setBusy(false);
    if (reply.problem !== undefined) return setProblem(reply.problem);
    announce(reply.status === 200 ? 'The view is replaced' : 'The view is saved');
    return onSaved();
  };
  const onKeyDown = (event) => event.key === 'Escape' && onClose();
  return html`<form class="row" id="view-form" onSubmit=${submit} onKeyDown=${onKeyDown}>
    <input class="input" type="text" maxlength="80" aria-label="Name of the view" placeholder="Name of the view" autocomplete="off" ref=${input} />
    <button type="submit" class="button primary" disabled=${busy}>Save for everyone</button>
    <button type="button" class="quiet" onClick=${onClose}>Cancel</button>
    <span class="muted">Everyone of your tenant who may read the record sees it.</span>
    ${problem && html`<${Problem} text=${problem} />`}
  </form>`;
}

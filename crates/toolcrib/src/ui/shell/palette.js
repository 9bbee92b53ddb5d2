// The command palette: tools, screens, sources, roles, people, runs and actions by a few letters.
import { html, useData, useMemo, useModal, useState } from '../lib/ui.js';
import { toolTitle } from '../lib/tool-name.js';
import { byId } from '../dom.js';
import { state, on, emit } from '../state.js';
import { href } from './routes.js';
import { may, signOut } from './session.js';
import { visibleSections } from './sections.js';

const MOST = 12;

/** The actions, each a function or the address of a screen that runs it. */
const ACTIONS = [
  { name: 'Sign out', run: signOut },
  { name: 'Switch the theme', run: () => byId('theme').click() },
  { name: 'Show the keys', run: () => emit('keys') },
  { name: 'Verify the record', address: href('record', [], { verify: 'now' }), scope: 'audit:read' },
  { name: 'Create a key', address: href('access', ['keys'], { new: 'key' }), scope: 'keys:manage' },
];
let open = false;

export function startPalette() {
  on('palette', (wanted) => {
    open = wanted;
  });
  document.addEventListener('keydown', (event) => {
    if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey) return;
    if (!state.who) return;
    event.preventDefault();
    emit('palette', !open);
  });
}

export function Palette() {
  return open && state.who ? html`<${Search} />` : null;
}

function Search() {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const { close, props } = useModal(() => emit('palette', false));
  const sources = useData('/v1/sources', { enabled: may('sources:read') }).data?.sources;
  const roles = useData('/v1/roles', { enabled: may('roles:read') }).data?.roles;
  const keys = useData('/v1/keys', { enabled: may('keys:manage') }).data?.keys;
  const views = useData('/v1/saved?kind=view', { enabled: may('audit:read') }).data?.saved;
  const found = useMemo(
    () => matches(text, { sources: sources ?? [], roles: roles ?? [], keys: keys ?? [], views: views ?? [] }),
    [text, sources, roles, keys, views],
  );
  const choose = (item) => {
    if (item === undefined) return;
    close();
    if (item.run) item.run();
    else location.hash = item.address;
  };
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt((at + step + found.length) % Math.max(found.length, 1));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      choose(found[at]);
    }
  };
  return html`<dialog class="dialog palette" aria-label="Go to" ...${props}>
    <input class="input" type="search" role="combobox" aria-expanded="true" autocomplete="off"
      aria-controls="palette-list" aria-label="Go to a tool, screen, source, role, person or run, or do something" spellcheck="false"
      aria-activedescendant=${found.length > 0 ? `palette-${at}` : undefined}
      placeholder="A tool, a screen, a person, “sign out”, the id of a run" value=${text} onKeyDown=${onKeyDown}
      onInput=${(event) => {
        setText(event.target.value);
        setAt(0);
      }} />
    <ul id="palette-list" role="listbox" aria-label="Matches">
      ${found.map(
        (item, index) => html`<li key=${`${item.kind} ${item.name}`} id=${`palette-${index}`} role="option"
          aria-selected=${index === at} onClick=${() => choose(item)}>
          <bdi>${item.name}</bdi>${item.title && html` <bdi class="muted">${item.title}</bdi>`}<span class="muted">${item.kind}</span>
        </li>`,
      )}
    </ul>
    ${found.length === 0 && html`<p class="muted">Nothing matches.</p>`}
  </dialog>`;
}

function matches(text, { sources, roles, keys, views }) {
  const wanted = text.trim().toLowerCase();
  const fits = (name) => name.toLowerCase().includes(wanted);
  const sections = visibleSections();
  const items = sections
    .filter(({ name }) => fits(name))
    .map(({ id, name }) => ({ name, kind: 'screen', address: href(id) }));
  for (const { id } of sources.filter(({ id }) => fits(id)).slice(0, MOST))
    items.push({ name: id, kind: 'source', address: href('sources', [id]) });
  for (const { name } of roles.filter(({ name }) => fits(name)).slice(0, MOST))
    items.push({ name, kind: 'role', address: href('access', ['roles', name]) });
  for (const { name, query } of views.filter(({ name, query }) => query !== undefined && fits(name)).slice(0, MOST))
    items.push({ name, kind: 'saved view', address: `#/record?${query}` });
  const people = new Set(keys.map(({ principal }) => principal).filter(fits));
  for (const name of [...people].slice(0, MOST))
    items.push({
      name,
      kind: 'person',
      address: may('audit:read') ? href('record', [], { q: `actor:${name}` }) : href('access', ['keys']),
    });
  // An id of a run, as the record and errors print it.
  if (/^[\w:-]{16,}$/.test(text.trim()) && sections.some(({ id }) => id === 'record'))
    items.push({ name: text.trim(), kind: 'run', address: href('record', ['run', text.trim()]) });
  const tools = state.tools.filter((tool) => fits(tool.name) || fits(toolTitle(tool) ?? ''));
  // Names that begin with the text come first.
  tools.sort((a, b) => Number(!starts(a.name, wanted)) - Number(!starts(b.name, wanted)));
  for (const tool of tools.slice(0, MOST))
    items.push({ name: tool.name, title: toolTitle(tool), kind: 'tool', address: href('tools', [tool.name]) });
  for (const { scope, ...action } of ACTIONS.filter(({ name }) => wanted !== '' && fits(name)))
    if (scope === undefined || may(scope)) items.push({ ...action, kind: 'action' });
  return items.slice(0, MOST + 6);
}

function starts(name, wanted) {
  return name.toLowerCase().startsWith(wanted) || name.toLowerCase().includes(`__${wanted}`);
}

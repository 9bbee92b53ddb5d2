// The command palette: tools, screens, sources, roles, people, runs and actions by a few letters.
import { html, useData, useEffect, useMemo, useModal, useState } from '../lib/ui.js';
import { addressOfPerson } from '../lib/links.js';
import { toolTitle } from '../lib/tool-name.js';
import { byId } from '../dom.js';
import { state, on, emit, may } from '../state.js';
import { href } from '../lib/address.js';
import { signOut } from './session.js';
import { visibleSections } from './sections.js';

/** The most matches of each kind. */
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
  const managesKeys = may('keys:manage');
  const keys = useData('/v1/keys', { enabled: managesKeys }).data?.keys;
  const views = useData('/v1/saved?kind=view', { enabled: may('audit:read') }).data?.saved;
  // Without the keys, the people are the recently active principals.
  const recent = useData('/v1/events/summary?from=24h&buckets=1', { enabled: !managesKeys && may('audit:read') }).data;
  const found = useMemo(() => {
    const named = views?.filter(({ query }) => query !== undefined);
    const people = keys?.map(({ principal }) => principal) ?? recent?.principals.map(({ name }) => name);
    return matches(text, { sources: sources ?? [], roles: roles ?? [], views: named ?? [], people: people ?? [] });
  }, [text, sources, roles, views, keys, recent]);
  useEffect(() => document.getElementById(`palette-${at}`)?.scrollIntoView({ block: 'nearest' }), [at, found]);
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
      aria-controls="palette-list" aria-label="Go to a tool, screen, source, role, person or run, or start an action" spellcheck="false"
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
    ${found.length === 0 && html`<p class="muted">No matches.</p>`}
  </dialog>`;
}

/** The kinds of matches: each function returns its items. */
const KINDS = [
  () => visibleSections().map(({ id, name }) => ({ name, kind: 'screen', address: href(id) })),
  ({ wanted }) =>
    ACTIONS.filter(({ scope }) => wanted !== '' && (scope === undefined || may(scope))).map(
      ({ scope, ...action }) => ({ ...action, kind: 'action' }),
    ),
  ({ sources }) => sources.map(({ id }) => ({ name: id, kind: 'source', address: href('sources', [id]) })),
  ({ roles }) => roles.map(({ name }) => ({ name, kind: 'role', address: href('access', ['roles', name]) })),
  ({ views }) => views.map(({ name, query }) => ({ name, kind: 'saved view', address: `#/record?${query}` })),
  ({ people }) =>
    [...new Set(people)].map((name) => ({
      name,
      kind: 'person',
      address: addressOfPerson(name) ?? href('access', ['keys']),
    })),
  ({ wanted, fits }) => {
    const tools = state.tools.filter((tool) => fits({ name: tool.name, title: toolTitle(tool) }));
    // Names that start with the text come first.
    tools.sort((a, b) => Number(!starts(a.name, wanted)) - Number(!starts(b.name, wanted)));
    return tools.slice(0, MOST).map((tool) => ({
      name: tool.name,
      title: toolTitle(tool),
      kind: 'tool',
      address: href('tools', [tool.name]),
    }));
  },
];

function matches(text, things) {
  const wanted = text.trim().toLowerCase();
  const fits = ({ name, title = '' }) => `${name}\n${title}`.toLowerCase().includes(wanted);
  const items = KINDS.flatMap((kind) => kind({ ...things, wanted, fits }).filter(fits).slice(0, MOST));
  // An id of a run, as the record and errors print it.
  if (/^[\w:-]{16,}$/.test(text.trim()) && may('audit:read'))
    items.push({ name: text.trim(), kind: 'run', address: href('record', ['run', text.trim()]) });
  return items;
}

function starts(name, wanted) {
  return name.toLowerCase().startsWith(wanted) || name.toLowerCase().includes(`__${wanted}`);
}

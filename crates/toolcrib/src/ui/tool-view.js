// One tool's view: heading, classification, and the tabs Try it, Schema, Snippets, History, Why.
import { h, button, copyButton, plural } from './dom.js';
import { state } from './state.js';
import { badges, classification } from './badges.js';
import { createEditor } from './editor.js';
import { createRunner } from './runner.js';
import { createHistory } from './history.js';
import { schemaView } from './schema-view.js';
import { snippetView } from './snippets.js';
import { tabs } from './tabs.js';
import { whyPanel } from './why.js';

const LONG = 600; // characters of description shown before "Show all"

export function createToolView(tool) {
  const born = state.tools; // the list this view was created for
  const editor = createEditor({
    schema: tool.inputSchema,
    onChange: () => {
      runner.clear();
      snippets.refresh();
    },
  });
  const setCount = (count) =>
    view.setLabel('history', count === 0 ? 'History' : `History (${count})`);
  const history = createHistory({
    changed: setCount,
    open: (entry) => {
      editor.loadText(entry.body);
      view.show('try');
      runner.show(entry.outcome);
    },
    rerun: (entry) => {
      editor.loadText(entry.body);
      view.show('try');
      runner.run();
    },
  });
  const runner = createRunner({ tool, editor, record: history.add });
  const snippets = snippetView(tool, editor.compact);
  const why = whyPanel(tool.name);
  const view = tabs(
    [
      {
        id: 'try',
        label: 'Try it',
        panel: h(
          'div',
          { class: 'try' },
          h('div', { class: 'stack' }, editor.element, runner.actions),
          runner.output,
        ),
      },
      { id: 'schema', label: 'Schema', panel: schemaView(tool) },
      { id: 'snippets', label: 'Snippets', panel: snippets.element },
      { id: 'history', label: 'History', panel: history.element },
      { id: 'why', label: 'Why', panel: why.element },
    ],
    {
      label: 'Tool views',
      onShow: (id) => {
        if (id === 'snippets') snippets.refresh();
        if (id === 'why') why.reload();
      },
    },
  );

  const stale = h('div', { class: 'verdict warn', role: 'status', hidden: true });
  const element = h('article', { class: 'tool' }, heading(tool), stale, view.element);
  return {
    element,
    tool,
    refresh: runner.refresh,
    /** Same as the Execute button, whichever tab is open. */
    execute: () => {
      if (!state.executeEnabled) return;
      view.show('try');
      runner.run();
    },
    drop: runner.drop,
    busy: runner.busy,
    fresh: () => born === state.tools,
    changed: (load) => {
      stale.hidden = false;
      stale.replaceChildren(
        h('p', { text: 'This tool has changed on the server since you opened it.' }),
        button('Load the new version', load),
      );
    },
  };
}

function heading(tool) {
  const title =
    typeof tool.annotations?.title === 'string' && tool.annotations.title !== tool.name
      ? tool.annotations.title
      : undefined;
  return h(
    'header',
    { class: 'tool-head' },
    h(
      'div',
      { class: 'tool-title' },
      h('h2', {}, h('bdi', { text: tool.name })),
      h(
        'span',
        { class: 'row' },
        copyButton(() => tool.name, 'Copy name'),
        copyButton(() => location.href, 'Copy link'),
      ),
    ),
    title ? h('p', { class: 'subtitle' }, h('bdi', { text: title })) : undefined,
    h('div', { class: 'badges' }, badges(tool)),
    description(tool.description),
    facts(tool),
  );
}

function description(text) {
  if (text === '') return h('p', { class: 'muted', text: 'The tool has no description.' });
  const body = h('bdi', { text: text.length > LONG ? `${text.slice(0, LONG).trimEnd()}…` : text });
  if (text.length <= LONG) return h('p', { class: 'description' }, body);
  const more = button(
    `Show all ${plural(text.length, 'character')}`,
    () => {
      body.textContent = text;
      more.remove();
    },
    { class: 'quiet' },
  );
  return h('div', {}, h('p', { class: 'description' }, body), more);
}

function facts(tool) {
  const { toolId, otcId, source, kind, scopes, approval } = classification(tool);
  const rows = [
    ['Tool id', toolId],
    ['OTC id', otcId],
    ['Source', kind === undefined ? source : `${source} (${kind})`],
    [scopes.length > 1 ? 'Scopes' : 'Scope', scopes.length === 0 ? undefined : scopes.join(', ')],
    ['Approval', approval],
  ].filter(([, value]) => value !== undefined);
  if (rows.length === 0) return undefined;
  return h(
    'dl',
    { class: 'tool-facts' },
    rows.map(([name, value]) =>
      h('div', {}, h('dt', { text: name }), h('dd', {}, h('bdi', { class: 'mono', text: value }))),
    ),
  );
}

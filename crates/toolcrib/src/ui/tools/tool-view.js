// One tool's view: heading and the tabs Try it, About, Schema, Calls, Code, Why. It is loaded when
// the first tool is opened, and each tab is filled when it is shown.
import { h, button, copyButton } from '../dom.js';
import { state } from '../state.js';
import { hasGateway } from '../shell/session.js';
import { badges, classification, dangersOf, DANGERS } from './badges.js';
import { createEditor } from './editor.js';
import { createRunner } from './runner.js';
import { createHistory } from './history.js';
import { saveButton } from './save-call.js';
import { tabs } from './tabs.js';
import { whyPanel } from './why.js';

const LONG = 280; // characters of the description above the form; the rest is under About

export function createToolView(tool) {
  let born = state.tools; // the list this view was created for
  const editor = createEditor({
    schema: tool.inputSchema,
    onChange: () => {
      runner?.edited();
      snippets?.refresh();
    },
  });
  const history = createHistory(tool, {
    changed: (count) => view.setLabel('history', count === 0 ? 'Calls' : `Calls (${count})`),
    open: (body, outcome) => {
      editor.loadText(body);
      view.show('try');
      if (outcome) runner.show(outcome);
      else editor.focusFirst();
    },
    rerun: (body) => {
      editor.loadText(body);
      view.show('try');
      runner.run();
    },
  });
  const save = saveButton(tool, editor, () => history.refresh());
  const runner = createRunner({ tool, editor, record: history.add, extra: save });
  let snippets;
  const why = hasGateway ? whyPanel(tool.name) : undefined;
  const panels = {
    about: h('div', {}),
    schema: h('div', {}),
    snippets: h('div', {}),
  };
  const fill = {
    about: async () => {
      const { drawAbout } = await import('./about.js');
      drawAbout(panels.about, tool);
    },
    schema: async () => {
      if (panels.schema.childElementCount > 0) return;
      const { schemaView } = await import('./schema-view.js');
      panels.schema.replaceChildren(schemaView(tool));
    },
    snippets: async () => {
      const { snippetView } = await import('./snippets.js');
      if (snippets === undefined) {
        snippets = snippetView(tool, editor.compact);
        panels.snippets.append(snippets.element);
      }
      snippets.refresh();
    },
    history: () => history.refresh(),
    why: () => why.reload(),
  };
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
      { id: 'about', label: 'About', panel: panels.about },
      { id: 'schema', label: 'Schema', panel: panels.schema },
      { id: 'history', label: 'Calls', panel: history.element },
      { id: 'snippets', label: 'Code', panel: panels.snippets },
      ...(why ? [{ id: 'why', label: 'Why', panel: why.element }] : []),
    ],
    { label: 'Tool views', onShow: (id) => open(id) },
  );

  async function open(id) {
    try {
      await fill[id]?.();
    } catch (error) {
      panels[id]?.replaceChildren(
        h('p', {
          class: 'verdict bad',
          role: 'alert',
          text: `This part could not be loaded (${error.message}).`,
        }),
        button('Try again', () => open(id)),
      );
    }
  }

  const stale = h('div', { class: 'verdict warn', role: 'status', hidden: true });
  const element = h(
    'article',
    { class: 'tool' },
    heading(tool, () => view.show('about')),
    stale,
    view.element,
  );
  return {
    element,
    tool,
    refresh: runner.refresh,
    focusFirst: () => {
      if (!editor.focusFirst()) runner.focus();
    },
    /** Same as the Execute button, whichever tab is open. */
    execute: () => {
      if (!state.executeEnabled) return;
      view.show('try');
      runner.run();
    },
    drop: runner.drop,
    busy: runner.busy,
    fresh: () => born === state.tools,
    confirm: () => {
      born = state.tools;
    },
    changed: (load) => {
      stale.hidden = false;
      stale.replaceChildren(
        h('p', { text: 'This tool has changed on the server since you opened it.' }),
        button('Load the new version', load),
      );
    },
  };
}

function heading(tool, more) {
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
    description(tool.description, more),
    h('div', { class: 'badges' }, badges(tool)),
    summary(tool),
  );
}

/** What happens when it runs, in one line. */
function summary(tool) {
  const { approval } = classification(tool);
  const sentences = dangersOf(tool).map((level) => DANGERS[level].text);
  if (approval === 'always') sentences.push('Each call waits until another person agrees.');
  if (approval === 'conditional') sentences.push('Some calls wait until another person agrees.');
  return sentences.length === 0 ? undefined : h('p', { class: 'muted', text: sentences.join(' ') });
}

function description(text, more) {
  if (text === '') return h('p', { class: 'muted', text: 'The tool has no description.' });
  const short = text.length > LONG;
  const shown = short ? `${text.slice(0, LONG).trimEnd()}…` : text;
  return h(
    'p',
    { class: 'description' },
    h('bdi', { text: shown }),
    short ? [' ', button('Read all', more, { class: 'link' })] : undefined,
  );
}

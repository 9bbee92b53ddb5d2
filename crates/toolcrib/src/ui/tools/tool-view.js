// One tool's view: heading and the tabs Try it, About, Schema, Calls, Code, Why. This module is loaded
// when the first tool is opened.
import { html, render, Copy } from '../lib/ui.js';
import { DANGERS, classification, dangersOf } from '../lib/danger.js';
import { draftOf, keepDraft } from '../lib/drafts.js';
import { Tabs } from '../lib/tabs.js';
import { toolTitle } from '../lib/tool-name.js';
import { root } from '../dom.js';
import { state } from '../state.js';
import { hasGateway } from '../shell/session.js';
import { About } from './about.js';
import { Badges } from './badges.js';
import { Editor, createEditor } from './editor.js';
import { Calls } from './history.js';
import { createRunner } from './runner.js';
import { SaveCall } from './save-call.js';
import { SchemaView } from './schema-view.js';
import { Snippets } from './snippets.js';
import { Why } from './why.js';

const LONG = 280; // characters of the description above the form; the rest is under About
const KEEP = 20; // calls under Calls

/** A view keeps its input while another tool is open and its `element` is off the page. */
export function createToolView(tool) {
  const element = root('article', 'tool');
  let born = state.tools; // the list this view was created for
  let open = 'try';
  /** By tab: how often it was opened. */
  const visits = {};
  let calls = [];
  let loadChanged;
  const draft = `arguments of ${tool.name}`;
  const editor = createEditor({
    schema: tool.inputSchema,
    onChange: () => {
      keepDraft(draft, editor.draft); // called when the draft is needed
      runner?.edited();
    },
  });
  const record = (entry) => {
    calls = [entry, ...calls].slice(0, KEEP);
    draw();
  };
  const extra = html`<${SaveCall} tool=${tool} editor=${editor} onSaved=${() => draw()} />`;
  const runner = createRunner({ tool, editor, record, extra });

  function show(id) {
    open = id;
    visits[id] = (visits[id] ?? 0) + 1;
    draw();
  }
  function reopen(body, outcome) {
    editor.loadText(body);
    show('try');
    if (outcome) runner.show(outcome);
    else editor.focusFirst();
  }
  function rerun(body) {
    editor.loadText(body);
    show('try');
    runner.run();
  }

  const tabs = () => [
    {
      id: 'try',
      label: 'Try it',
      style: 'try',
      view: () => html`
        <div class="stack"><${Editor} of=${editor} /><div class="actions" ref=${runner.actions}></div></div>
        <div class="output" ref=${runner.output}></div>`,
    },
    { id: 'about', label: 'About', view: () => html`<${About} key=${state.token} tool=${tool} />` },
    { id: 'schema', label: 'Schema', view: () => html`<${SchemaView} tool=${tool} />` },
    {
      id: 'history',
      label: calls.length === 0 ? 'Calls' : `Calls (${calls.length})`,
      style: 'stack',
      view: () => html`<${Calls} ...${{ tool, calls, rerun }} open=${reopen} visit=${visits.history} />`,
    },
    {
      id: 'snippets',
      label: 'Code',
      view: () => html`<${Snippets} tool=${tool} args=${editor.compact()} />`,
    },
    hasGateway && { id: 'why', label: 'Why', view: () => html`<${Why} name=${tool.name} visit=${visits.why} />` },
  ].filter(Boolean);

  function draw() {
    render(
      html`<${Heading} tool=${tool} more=${() => show('about')} />
        <div class="verdict warn" role="status" hidden=${loadChanged === undefined}>
          ${
            loadChanged &&
            html`<p>This tool has changed on the server since you opened it.</p>
              <button type="button" class="button" onClick=${loadChanged}>Load the new version</button>`
          }
        </div>
        <${Tabs} label="Tool views" tabs=${tabs()} open=${open} onOpen=${show} />`,
      element,
    );
  }

  /** Restores the draft of the same person after a sign-in has expired. */
  function restore() {
    const typed = editor.draft() === undefined ? draftOf(draft)?.() : undefined;
    if (typed !== undefined) editor.restore(typed);
  }

  draw();
  restore();
  return {
    element,
    restore,
    tool,
    refresh: runner.refresh,
    focusFirst: () => {
      if (!editor.focusFirst()) runner.focus();
    },
    /** Same as the Execute button, whichever tab is open. */
    execute: () => {
      if (!state.executeEnabled) return;
      show('try');
      runner.run();
    },
    drop: () => {
      runner.drop();
      render(null, element);
    },
    busy: runner.busy,
    fresh: () => born === state.tools,
    confirm: () => {
      born = state.tools;
    },
    changed: (load) => {
      loadChanged = load;
      draw();
    },
  };
}

function Heading({ tool, more }) {
  const title = toolTitle(tool);
  return html`<header class="tool-head">
    <div class="tool-title">
      <h2><bdi>${tool.name}</bdi></h2>
      <span class="row">
        <${Copy} text=${tool.name} label="Copy name" />
        <${Copy} text=${() => location.href} label="Copy link" />
      </span>
    </div>
    ${title !== undefined && html`<p class="subtitle"><bdi>${title}</bdi></p>`}
    <${Description} text=${tool.description} more=${more} />
    <${Badges} tool=${tool} />
    <${Summary} tool=${tool} />
  </header>`;
}

/** The effect of a run, in one line. */
function Summary({ tool }) {
  const { approval } = classification(tool);
  const sentences = dangersOf(tool).map((level) => DANGERS[level].text);
  if (approval === 'always') sentences.push('Each call waits until another person agrees.');
  if (approval === 'conditional') sentences.push('Some calls wait until another person agrees.');
  return sentences.length > 0 && html`<p class="muted">${sentences.join(' ')}</p>`;
}

function Description({ text, more }) {
  if (text === '') return html`<p class="muted">The tool has no description.</p>`;
  if (text.length <= LONG) return html`<p class="description"><bdi>${text}</bdi></p>`;
  return html`<p class="description"><bdi>${`${text.slice(0, LONG).trimEnd()}…`}</bdi> <button type="button" class="link" onClick=${more}>Read all</button></p>`;
}

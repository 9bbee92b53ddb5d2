// The confirmation before a dangerous tool runs.
import { html, render, useLayoutEffect, useModal, useRef } from '../lib/ui.js';
import { JsonBlock } from '../lib/json-block.js';
import { isDestructive } from '../lib/danger.js';
import { root } from '../dom.js';
import { parseJson } from '../json.js';
import { Badges } from './badges.js';

/** Resolves to {run, remember}. Escape and a click on the backdrop cancel. */
export function confirmRun(tool, reasons, body) {
  // Over the page and not in the tool, which can leave the page while the question is open.
  const host = root('div');
  document.body.append(host);
  return new Promise((resolve) => {
    const finish = (answer) => {
      host.firstElementChild.close(); // gives the focus back
      render(null, host);
      host.remove();
      resolve(answer);
    };
    render(html`<${Confirm} tool=${tool} reasons=${reasons} body=${body} finish=${finish} />`, host);
  });
}

function Confirm({ tool, reasons, body, finish }) {
  const { close, props } = useModal(() => finish({ run: false, remember: false }));
  const [no, remember] = [useRef(), useRef()];
  useLayoutEffect(() => no.current.focus(), []);
  return html`<dialog class="confirm" aria-labelledby="confirm-title" ...${props}>
    <h2 id="confirm-title">Run <bdi class="mono">${tool.name}</bdi>?</h2>
    <${Badges} tool=${tool} />
    <ul>${reasons.map((reason) => html`<li>${reason}</li>`)}</ul>
    <p class="muted">It will run with these arguments:</p>
    <${Preview} body=${body} />
    <label class="check">
      <input type="checkbox" ref=${remember} />Do not ask again for this tool until the page is reloaded
    </label>
    <div class="row end">
      <button type="button" class="button" ref=${no} onClick=${close}>Cancel</button>
      <button type="button" class=${`button ${isDestructive(tool) ? 'danger' : 'primary'}`} data-confirm="run"
        onClick=${() => finish({ run: true, remember: remember.current.checked })}>Run tool</button>
    </div>
  </dialog>`;
}

function Preview({ body }) {
  try {
    return html`<${JsonBlock} value=${parseJson(body)} />`;
  } catch {
    return html`<pre class="code">${body}</pre>`;
  }
}

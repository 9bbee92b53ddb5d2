// Draws Markdown of tools: only the elements of this file, with texts as text nodes.
import { html, plural, useMemo, useState } from '../lib/ui.js';
import { Switch } from '../lib/tabs.js';
import { MAX_MARKDOWN, markdown } from './markdown.js';

const MAX_ROWS = 200;
const VIEWS = [
  ['formatted', 'Formatted'],
  ['text', 'Text'],
];

/** A text as Markdown, with a switch to the unformatted text, which `raw` draws. */
export function Markdown({ text, raw }) {
  const [chosen, setChosen] = useState('formatted');
  if (text.length > MAX_MARKDOWN)
    return html`<p class="muted">This Markdown is too long to be formatted.</p>${raw}`;
  return html`
    <${Switch} name="markdown" label="Show as" views=${VIEWS} chosen=${chosen} onChoose=${setChosen} />
    ${chosen === 'text' ? raw : html`<${Formatted} text=${text} />`}`;
}

function Formatted({ text }) {
  const blocks = useMemo(() => markdown(text), [text]);
  return html`<div class="markdown" dir="auto">${blocks.map((block, at) => html`<${Block} key=${at} block=${block} />`)}</div>`;
}

function Block({ block }) {
  const inner = (blocks) => blocks.map((it, at) => html`<${Block} key=${at} block=${it} />`);
  switch (block.type) {
    case 'heading':
      // The page uses the first three levels of headings, so those of a text start at the fourth.
      return html`<p role="heading" aria-level=${Math.min(block.level + 3, 6)} class=${`md-heading md-h${block.level}`}><${Inline} of=${block.inline} /></p>`;
    case 'code':
      return html`<pre class="code" tabindex="0"><code>${block.text}</code></pre>`;
    case 'rule':
      return html`<hr />`;
    case 'quote':
      return html`<blockquote>${inner(block.blocks)}</blockquote>`;
    case 'list':
      return block.start === undefined
        ? html`<ul>${block.items.map((item, at) => html`<li key=${at}>${inner(item)}</li>`)}</ul>`
        : html`<ol start=${block.start}>${block.items.map((item, at) => html`<li key=${at}>${inner(item)}</li>`)}</ol>`;
    case 'table':
      return html`<${Table} of=${block} />`;
    default:
      return html`<p><${Inline} of=${block.inline} /></p>`;
  }
}

function Table({ of }) {
  const [most, setMost] = useState(MAX_ROWS);
  const tone = (at) => (of.aligned[at] ? 'right' : '');
  return html`<div class="table-scroll" tabindex="0" role="group" aria-label="Table of the text">
      <table>
        <thead><tr>${of.head.map((cell, at) => html`<th key=${at} scope="col" class=${tone(at)}><${Inline} of=${cell} /></th>`)}</tr></thead>
        <tbody>
          ${of.rows.slice(0, most).map((row, index) => html`<tr key=${index}>${of.head.map((_, at) => html`<td key=${at} class=${tone(at)}><${Inline} of=${row[at] ?? []} /></td>`)}</tr>`)}
        </tbody>
      </table>
    </div>
    ${of.rows.length > most && html`<button type="button" class="quiet" onClick=${() => setMost(of.rows.length)}>Show all ${plural(of.rows.length, 'row')}</button>`}`;
}

function Inline({ of }) {
  return of.map((part, at) => {
    if (typeof part === 'string') return html`<bdi key=${at}>${part}</bdi>`;
    if (part.newline) return html`<br key=${at} />`;
    if (part.code !== undefined) return html`<code key=${at}>${part.code}</code>`;
    if (part.note !== undefined) return html`<span key=${at} class="muted"> ${part.note}</span>`;
    if (part.href !== undefined) return html`<${Link} key=${at} ...${part} />`;
    const inner = html`<${Inline} of=${part.inline} />`;
    if (part.mark === '~~') return html`<del key=${at}>${inner}</del>`;
    if (part.mark.length === 2) return html`<strong key=${at}>${inner}</strong>`;
    if (part.mark.length === 3) return html`<strong key=${at}><em>${inner}</em></strong>`;
    return html`<em key=${at}>${inner}</em>`;
  });
}

/** A link with its target, because its words may name another one. A picture is not loaded. */
function Link({ href, inline, isImage }) {
  const url = URL.canParse(href) ? new URL(href) : undefined;
  if (url === undefined || !['http:', 'https:', 'mailto:'].includes(url.protocol))
    return html`<${Inline} of=${inline} /> <span class="muted">${href}</span>`;
  const words = inline.length === 0 ? [isImage ? 'picture' : href] : inline;
  const place = url.protocol === 'mailto:' ? url.pathname : url.host;
  return html`<a href=${url.href} target="_blank" rel="noopener noreferrer"><${Inline} of=${words} /></a
    > <span class="muted">(${isImage ? 'picture at ' : ''}<bdi>${place}</bdi>)</span>`;
}

// Content blocks of a tool result. Upstream content is treated as hostile. Text stays text, an
// image needs a listed type and base64 data, only http(s) addresses become links, and downloads are
// always plain bytes.
import { html, Copy, useState } from '../lib/ui.js';
import { formatBytes } from '../lib/format.js';
import { JsonBlock } from '../lib/json-block.js';
import { saveFile } from '../dom.js';
import { isObject, parseJson, pretty } from '../json.js';
import { Player } from './audio.js';
import { JsonViews } from './json-views.js';
import { looksLikeMarkdown } from './markdown.js';
import { Markdown } from './markdown-view.js';

const IMAGE_TYPES = new Set([
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'image/avif',
  'image/bmp',
]);
const AUDIO_TYPES = /^audio\/[a-z0-9.+-]{1,40}$/;
const MAX_TEXT = 100_000; // characters drawn at once

/** A list of blocks, or a note when it is empty. */
export function Content({ content }) {
  const blocks = Array.isArray(content) ? content : [];
  return html`<div class="blocks">
    ${blocks.map((block, at) => html`<${Block} key=${at} block=${block} at=${at} count=${blocks.length} />`)}
    ${blocks.length === 0 && html`<p class="muted">The tool returned no content.</p>`}
  </div>`;
}

export function Structured({ value }) {
  return html`<${Frame} label="structured content" copy=${() => pretty(value)}><${JsonViews} value=${value} /><//>`;
}

function Block({ block, at, count }) {
  const known = isObject(block) && typeof block.type === 'string';
  const name = known ? block.type.slice(0, 40) : 'unknown';
  const label = count > 1 ? `${at + 1} · ${name}` : name;
  const shown = (known ? KINDS.get(block.type) : undefined)?.(block) ?? {
    note: 'shown as JSON',
    view: html`<${JsonBlock} value=${block} />`,
    copy: () => pretty(block),
  };
  return html`<${Frame} label=${label} note=${shown.note} copy=${shown.copy}>${shown.view}<//>`;
}

function Frame({ label, note, copy, children }) {
  return html`<section class="block">
    <div class="block-head">
      <span class="kind">${label}</span>
      ${note && html`<bdi class="muted">${note}</bdi>`}
      ${copy && html`<${Copy} text=${copy} />`}
    </div>
    ${children}
  </section>`;
}

/** By kind: {note, view, copy} of a block, or undefined if the block does not match its kind. */
const KINDS = new Map([
  ['text', (block) => (typeof block.text === 'string' ? textBlock(block.text) : undefined)],
  ['image', (block) => imageBlock(block.mimeType, block.data)],
  ['audio', (block) => audioBlock(block.mimeType, block.data)],
  ['resource', (block) => resourceBlock(block.resource)],
  ['resource_link', linkBlock],
]);

/** `type` is the media type, if one is known. */
function textBlock(text, type = '') {
  const copy = () => text;
  const json = jsonIn(text);
  if (json !== undefined) return { note: 'JSON', view: html`<${JsonViews} value=${json} asSent=${text} />`, copy };
  const raw = html`<${LongText} text=${text} />`;
  if (/^text\/(x-)?markdown\b/i.test(type) || looksLikeMarkdown(text))
    return { note: 'Markdown', view: html`<${Markdown} text=${text} raw=${raw} />`, copy };
  return { view: raw, copy };
}

function LongText({ text }) {
  const [most, setMost] = useState(MAX_TEXT);
  return html`
    <pre class="code text" tabindex="0">${text.slice(0, most)}</pre>
    ${
      text.length > most &&
      html`<button type="button" class="quiet" onClick=${() => setMost(text.length)}>
        Show all ${formatBytes(text.length)}
      </button>`
    }`;
}

/** Returns the value of a text if it is a JSON object or array. */
function jsonIn(text) {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

function imageBlock(type, data) {
  const mime = typeof type === 'string' ? type.toLowerCase() : '';
  const bytes = base64(data);
  if (!bytes) return undefined;
  const size = `${mime.slice(0, 60)} · ${formatBytes(bytes.length)}`;
  const download = html`<${Download} bytes=${bytes} name="image" />`;
  if (!IMAGE_TYPES.has(mime)) return { note: `${size} · not shown inline`, view: download };
  // Built from a listed constant and checked base64, so it cannot contain markup.
  const address = `data:${mime};base64,${clean(data)}`;
  return { note: size, view: html`<img src=${address} alt="Image returned by the tool" />${download}` };
}

function audioBlock(type, data) {
  const mime = typeof type === 'string' ? type.toLowerCase() : '';
  const bytes = base64(data);
  if (!bytes) return undefined;
  return {
    note: `${mime.slice(0, 60)} · ${formatBytes(bytes.length)}`,
    view: html`<div class="row">
      ${AUDIO_TYPES.test(mime) && html`<${Player} bytes=${bytes} />`}
      <${Download} bytes=${bytes} name="audio" />
    </div>`,
  };
}

function resourceBlock(resource) {
  if (!isObject(resource)) return undefined;
  const head = html`<p class="uri"><${Address} uri=${resource.uri} /></p>`;
  const note = typeof resource.mimeType === 'string' ? resource.mimeType.slice(0, 80) : undefined;
  if (typeof resource.text === 'string') {
    const inner = textBlock(resource.text, note);
    return { note, view: html`${head}${inner.view}`, copy: inner.copy };
  }
  if (resource.blob === undefined) return undefined;
  const inner = /^image\//i.test(note ?? '') ? imageBlock(note, resource.blob) : undefined;
  if (inner) return { note: inner.note, view: html`${head}${inner.view}` };
  const bytes = base64(resource.blob);
  if (!bytes) return undefined;
  return {
    note: `${note ?? 'bytes'} · ${formatBytes(bytes.length)}`,
    view: html`${head}<${Download} bytes=${bytes} name="resource" />`,
  };
}

function linkBlock(block) {
  const text = (key) =>
    typeof block[key] === 'string' && block[key] !== '' ? block[key] : undefined;
  const name = text('title') ?? text('name');
  const size = Number.isFinite(block.size) ? formatBytes(block.size) : undefined;
  return {
    note: [text('mimeType')?.slice(0, 80), size].filter(Boolean).join(' · ') || undefined,
    view: html`
      <p class="uri">${name && html`<bdi class="strong">${name}</bdi>`} <${Address} uri=${block.uri} /></p>
      ${text('description') && html`<p><bdi>${text('description')}</bdi></p>`}`,
    copy: text('uri') ? () => block.uri : undefined,
  };
}

/** A link for http and https, plain text for every other scheme. */
function Address({ uri }) {
  if (typeof uri !== 'string') return html`<span class="muted">no address</span>`;
  if (/^https?:\/\//i.test(uri) && URL.canParse(uri))
    return html`<a href=${uri} target="_blank" rel="noopener noreferrer"><bdi>${uri}</bdi></a>`;
  return html`<bdi class="mono">${uri}</bdi>`;
}

function Download({ bytes, name }) {
  const onClick = () => saveFile(new Blob([bytes], { type: 'application/octet-stream' }), `${name}.bin`);
  return html`<button type="button" class="quiet" onClick=${onClick}>Download</button>`;
}

function clean(data) {
  return data.replace(/\s+/g, '');
}

function base64(data) {
  if (typeof data !== 'string' || !/^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(data)) return undefined;
  try {
    return Uint8Array.from(atob(clean(data)), (char) => char.charCodeAt(0));
  } catch {
    return undefined;
  }
}

// Content blocks of a tool result. Upstream content is treated as hostile. Text stays text, an
// image needs a listed type and base64 data, only http(s) addresses become links, and downloads are
// always plain bytes.
import { h, button, copyButton, formatBytes, setText } from '../dom.js';
import { player } from './audio.js';
import { isObject, jsonBlock, parseJson, pretty } from '../json.js';
import { jsonViews } from './json-views.js';

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
export function renderContent(content) {
  const blocks = Array.isArray(content) ? content : [];
  const parts = blocks.map((block, index) => renderBlock(block, index, blocks.length));
  return h(
    'div',
    { class: 'blocks' },
    parts.length > 0 ? parts : h('p', { class: 'muted', text: 'The tool returned no content.' }),
  );
}

export function renderStructured(value) {
  return frame('structured content', undefined, jsonViews(value), () => pretty(value));
}

function renderBlock(block, index, count) {
  const draw =
    isObject(block) && typeof block.type === 'string' ? KINDS.get(block.type) : undefined;
  const shown = draw?.(block);
  const name =
    isObject(block) && typeof block.type === 'string' ? block.type.slice(0, 40) : 'unknown';
  const label = count > 1 ? `${index + 1} · ${name}` : name;
  if (!shown) return frame(label, 'shown as JSON', [jsonBlock(block)], () => pretty(block));
  return frame(label, shown.note, shown.parts, shown.copy);
}

function frame(label, note, parts, copy) {
  return h(
    'section',
    { class: 'block' },
    h(
      'div',
      { class: 'block-head' },
      h('span', { class: 'kind', text: label }),
      note ? h('bdi', { class: 'muted', text: note }) : undefined,
      copy ? copyButton(copy) : undefined,
    ),
    parts,
  );
}

const KINDS = new Map([
  ['text', (block) => (typeof block.text === 'string' ? textBlock(block.text) : undefined)],
  ['image', (block) => imageBlock(block.mimeType, block.data)],
  ['audio', (block) => audioBlock(block.mimeType, block.data)],
  ['resource', (block) => resourceBlock(block.resource)],
  ['resource_link', linkBlock],
]);

function textBlock(text) {
  const json = jsonIn(text);
  if (json !== undefined) {
    return { note: 'JSON', parts: jsonViews(json, text), copy: () => text };
  }
  return { parts: longText(text), copy: () => text };
}

function longText(text) {
  const body = h('pre', { class: 'code text', tabindex: '0', text: text.slice(0, MAX_TEXT) });
  if (text.length <= MAX_TEXT) return [body];
  const more = button(
    `Show all ${formatBytes(text.length)}`,
    () => {
      setText(body, text);
      more.remove();
    },
    { class: 'quiet' },
  );
  return [body, more];
}

/** Returns the parsed value when a text is a JSON object or array. */
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
  // Built from a listed constant and checked base64, so it cannot contain markup.
  if (!IMAGE_TYPES.has(mime))
    return { note: `${size} · not shown inline`, parts: [download(bytes, 'image')] };
  return {
    note: size,
    parts: [
      h('img', { src: `data:${mime};base64,${clean(data)}`, alt: 'Image returned by the tool' }),
      download(bytes, 'image'),
    ],
  };
}

function audioBlock(type, data) {
  const mime = typeof type === 'string' ? type.toLowerCase() : '';
  const bytes = base64(data);
  if (!bytes) return undefined;
  const parts = [download(bytes, 'audio')];
  if (AUDIO_TYPES.test(mime)) parts.unshift(player(bytes));
  return {
    note: `${mime.slice(0, 60)} · ${formatBytes(bytes.length)}`,
    parts: [h('div', { class: 'row' }, parts)],
  };
}

function resourceBlock(resource) {
  if (!isObject(resource)) return undefined;
  const head = h('p', { class: 'uri' }, address(resource.uri));
  const note = typeof resource.mimeType === 'string' ? resource.mimeType.slice(0, 80) : undefined;
  if (typeof resource.text === 'string') {
    const inner = textBlock(resource.text);
    return { note, parts: [head, ...inner.parts], copy: inner.copy };
  }
  if (resource.blob !== undefined) {
    const inner = /^image\//i.test(note ?? '') ? imageBlock(note, resource.blob) : undefined;
    const bytes = base64(resource.blob);
    if (inner) return { note: inner.note, parts: [head, ...inner.parts] };
    if (bytes)
      return {
        note: `${note ?? 'bytes'} · ${formatBytes(bytes.length)}`,
        parts: [head, download(bytes, 'resource')],
      };
  }
  return undefined;
}

function linkBlock(block) {
  const text = (key) =>
    typeof block[key] === 'string' && block[key] !== '' ? block[key] : undefined;
  const name = text('title') ?? text('name');
  const size = Number.isFinite(block.size) ? formatBytes(block.size) : undefined;
  return {
    note: [text('mimeType')?.slice(0, 80), size].filter(Boolean).join(' · ') || undefined,
    parts: [
      h(
        'p',
        { class: 'uri' },
        name ? h('bdi', { class: 'strong', text: name }) : undefined,
        ' ',
        address(block.uri),
      ),
      text('description') ? h('p', {}, h('bdi', { text: text('description') })) : undefined,
    ],
    copy: text('uri') ? () => block.uri : undefined,
  };
}

/** A link for http and https, plain text for every other scheme. */
function address(uri) {
  if (typeof uri !== 'string') return h('span', { class: 'muted', text: 'no address' });
  if (/^https?:\/\//i.test(uri) && URL.canParse(uri)) {
    return h(
      'a',
      { href: uri, target: '_blank', rel: 'noopener noreferrer' },
      h('bdi', { text: uri }),
    );
  }
  return h('bdi', { class: 'mono', text: uri });
}

function download(bytes, name) {
  return button(
    'Download',
    () => {
      const url = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
      h('a', { href: url, download: `${name}.bin` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    },
    { class: 'quiet' },
  );
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

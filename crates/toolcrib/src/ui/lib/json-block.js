// A read-only block of JSON with highlighted tokens.
import { html, useMemo } from './ui.js';
import { tokens, visible } from '../json.js';

const HIGHLIGHT_LIMIT = 150_000; // one span per token: above this the page becomes slow

export function JsonBlock({ value }) {
  // Memoized, so that redrawing the surroundings is cheap.
  const code = useMemo(() => {
    const text = visible(value) ?? 'undefined';
    if (text.length > HIGHLIGHT_LIMIT) return html`<code>${text}</code>`;
    return html`<code>${tokens(text).map(([part, kind]) => (kind ? html`<span class=${kind}>${part}</span>` : part))}</code>`;
  }, [value]);
  return html`<pre class="code" tabindex="0">${code}</pre>`;
}

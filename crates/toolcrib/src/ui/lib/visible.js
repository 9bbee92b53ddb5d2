// Makes hidden characters visible. The characters and escapes are those of `crates/core/src/text.rs`;
// `tests/browser/hidden.json` has the test table of both.

/** Characters that are invisible or change how others are drawn. Line breaks and tabs are visible. */
const HIDDEN =
  /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{13430}-\u{13440}\u{13447}-\u{13455}\u{16fe4}\u{1bca0}-\u{1bca3}\u{1d159}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|(?![\n\r\t])\p{Cc}/gu;

/** A word with Latin letters and letters of another alphabet with similar shapes. */
const MIXED =
  /(?=[\p{L}\p{M}\p{N}_-]*\p{Script=Latin})(?=[\p{L}\p{M}\p{N}_-]*[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}])[\p{L}\p{M}\p{N}_-]+/gu;
const OTHER_LETTERS = /(?!\p{Script=Latin})\p{L}/gu;

/** The escapes of JSON for `text`. */
function escapes(text) {
  return Array.from({ length: text.length }, (_, at) =>
    `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`,
  ).join('');
}

/** Returns `text` with escapes in place of hidden characters. JSON text stays the same JSON. */
export function visibleText(text) {
  return text.replace(HIDDEN, escapes);
}

/**
 * The words of `text` that mix alphabets, at most `max`, as [word, form]: `form` has escapes for the
 * non-Latin letters.
 */
export function mixedWords(text, max = 5) {
  const found = new Set(text.match(MIXED) ?? []);
  return [...found].slice(0, max).map((word) => [word, word.replace(OTHER_LETTERS, escapes)]);
}

/** The attributes that people read. Others, such as values and addresses, are used as they are. */
const READ = new Set(['title', 'aria-label', 'placeholder', 'alt', 'label']);

/** The value of the attribute `name`, with hidden characters as escapes if people read it. */
export function readable(name, value) {
  return READ.has(name) && typeof value === 'string' ? visibleText(value) : value;
}

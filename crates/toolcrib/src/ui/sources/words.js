// A command line as its words, and back.

/** Splits at spaces; quotes keep a word together, and a backslash keeps the next character. */
export function wordsOf(text) {
  const words = [];
  let word;
  let quote = '';
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at];
    if (c === '\\' && quote !== "'" && at + 1 < text.length) {
      at += 1;
      word = (word ?? '') + text[at];
    } else if (quote !== '') {
      if (c === quote) quote = '';
      else word += c;
    } else if (c === '"' || c === "'") {
      quote = c;
      word ??= '';
    } else if (/\s/.test(c)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? '') + c;
  }
  if (word !== undefined) words.push(word);
  return words;
}

/** Joins words into one line. */
export function lineOf(words) {
  const plain = (word) => /^[\w@%+=:,./*-]+$/.test(word);
  const quoted = (word) => `"${word.replace(/(["\\])/g, '\\$1')}"`;
  return words.map((word) => (plain(word) ? word : quoted(word))).join(' ');
}

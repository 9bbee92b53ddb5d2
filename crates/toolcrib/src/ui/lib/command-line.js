// Quotes words for commands that people copy into a shell.

/** A text as one word, in quotes. */
export function quote(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A text as one word, in quotes only if it needs them. */
export const word = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : quote(text));

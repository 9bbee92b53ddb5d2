// Words of commands for a shell, as people copy them.

/** Returns a text as one word, in quotes. */
export function quote(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Returns a text as one word, in quotes only if it needs them. */
export const word = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : quote(text));

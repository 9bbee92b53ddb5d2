// Markdown of tools as blocks of plain data, which `markdown-view.js` draws. Texts of tools are treated as
// hostile: HTML and images are not drawn, and only http, https and mailto addresses become links.
//
// Invariant: the time is linear in the text. Nested blocks read their lines again, at most MAX_DEPTH times;
// emphasis and links look at each character a fixed number of times.

/** Longer texts are shown as they are. */
export const MAX_MARKDOWN = 100_000;
const MAX_DEPTH = 6;
const MAX_INLINE_DEPTH = 12;
const MAX_COLUMNS = 32;
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'", apos: "'", nbsp: '\u00a0' };

const SIGNS = [
  /^#{1,6} \S/m,
  /^(```|~~~)/m,
  /^[ \t]*[-*+] \S[^\n]*\n[ \t]*[-*+] \S/m,
  /^[ \t]*1[.)] \S[^\n]*\n[ \t]*2[.)] \S/m,
  /^\|?[^\n|]{0,200}\|[^\n]{0,400}\n[ \t]*\|?[ \t]*:?-{2,}/m,
  /\*\*[^*\s][^*\n]{0,200}\*\*/,
  /\[[^\][\n]{1,200}\]\((https?:|mailto:)/,
];

/** Whether a text is probably Markdown, judged by its start. */
export function looksLikeMarkdown(text) {
  const start = text.slice(0, 20_000);
  return SIGNS.some((sign) => sign.test(start));
}

/** Returns the blocks of a text: {type, …}, where `inline` is a list of texts and {mark, inline}. */
export function markdown(text) {
  return blocksOf(text.replace(/\r\n?/g, '\n').split('\n'), 0);
}

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;

function blocksOf(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (line.trim() === '') {
      at += 1;
      continue;
    }
    const take = [fence, heading, rule, table, quote, list].find((it) => it.starts(lines, at, depth)) ?? paragraph;
    const [block, next] = take.read(lines, at, depth);
    blocks.push(block);
    at = next;
  }
  return blocks;
}

/** The mark of a line that starts a block of code. After backticks, the line has no other backtick. */
function fenceMark(line) {
  const found = FENCE.exec(line);
  if (found === null) return undefined;
  const [whole, mark] = found;
  return mark[0] === '`' && line.includes('`', whole.length) ? undefined : mark;
}

const fence = {
  starts: (lines, at) => fenceMark(lines[at]) !== undefined,
  read(lines, at) {
    const mark = fenceMark(lines[at]);
    const isEnd = (line) => {
      const text = line.trim();
      return text.length >= mark.length && text === mark[0].repeat(text.length);
    };
    let end = at + 1;
    while (end < lines.length && !isEnd(lines[end])) end += 1;
    return [{ type: 'code', text: lines.slice(at + 1, end).join('\n') }, end + 1];
  },
};

const heading = {
  starts: (lines, at) => HEADING.test(lines[at]),
  read(lines, at) {
    const [, marks, text] = HEADING.exec(lines[at]);
    return [{ type: 'heading', level: marks.length, inline: inlineOf(text.replace(/[ \t]#+[ \t]*$/, '').trim()) }, at + 1];
  },
};

const rule = {
  starts: (lines, at) => RULE.test(lines[at]),
  read: (_lines, at) => [{ type: 'rule' }, at + 1],
};

const table = {
  starts: (lines, at) =>
    lines[at].includes('|') &&
    at + 1 < lines.length &&
    lines[at + 1].includes('-') &&
    isDelimiter(lines[at + 1], lines[at]),
  read(lines, at) {
    const aligned = cells(lines[at + 1]).map((cell) => cell.endsWith(':'));
    const row = (line) => cells(line).slice(0, MAX_COLUMNS).map(inlineOf);
    let end = at + 2;
    while (end < lines.length && lines[end].includes('|')) end += 1;
    return [{ type: 'table', aligned, head: row(lines[at]), rows: lines.slice(at + 2, end).map(row) }, end];
  },
};

/** Whether a line is the delimiter under the head of a table. */
function isDelimiter(line, head) {
  const marks = cells(line);
  return marks.length > 0 && marks.every((cell) => /^:?-+:?$/.test(cell)) && marks.length === cells(head).length;
}

/** The cells of a row; `\|` is a bar in a cell. */
function cells(line) {
  const text = line.trim().replace(/^\|/, '');
  const found = [];
  let cell = '';
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === '\\' && text[at + 1] === '|') {
      cell += '|';
      at += 1;
    } else if (text[at] === '|') {
      found.push(cell.trim());
      cell = '';
    } else {
      cell += text[at];
    }
  }
  if (cell.trim() !== '') found.push(cell.trim());
  return found;
}

const quote = {
  starts: (lines, at, depth) => depth < MAX_DEPTH && QUOTE.test(lines[at]),
  read(lines, at, depth) {
    let end = at;
    while (end < lines.length && QUOTE.test(lines[end])) end += 1;
    const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ''));
    return [{ type: 'quote', blocks: blocksOf(inner, depth + 1) }, end];
  },
};

const list = {
  starts: (lines, at, depth) => depth < MAX_DEPTH && ITEM.test(lines[at]),
  read(lines, at, depth) {
    const [, , first] = ITEM.exec(lines[at]);
    const isOrdered = /\d/.test(first);
    const isSame = (line) => {
      const found = ITEM.exec(line);
      return found !== null && /\d/.test(found[2]) === isOrdered && !RULE.test(line);
    };
    const items = [];
    let end = at;
    while (end < lines.length && isSame(lines[end])) {
      const [whole] = ITEM.exec(lines[end]);
      const width = whole.length;
      const inner = [lines[end].slice(width)];
      end += 1;
      while (end < lines.length) {
        const line = lines[end];
        const isEmpty = line.trim() === '';
        const indent = /^ */.exec(line)[0].length;
        if (isEmpty && !(end + 1 < lines.length && /^ */.exec(lines[end + 1])[0].length >= Math.min(width, 2) && lines[end + 1].trim() !== '')) break;
        if (!isEmpty && indent < Math.min(width, 2) && (isBlockStart(line) || inner.at(-1).trim() === '')) break;
        inner.push(line.slice(Math.min(indent, width)));
        end += 1;
      }
      items.push(blocksOf(inner, depth + 1));
      // A blank line between two items of one list.
      if (end + 1 < lines.length && lines[end].trim() === '' && isSame(lines[end + 1])) end += 1;
    }
    return [{ type: 'list', start: isOrdered ? Number.parseInt(first, 10) : undefined, items }, end];
  },
};

const isBlockStart = (line) =>
  fenceMark(line) !== undefined || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);

const paragraph = {
  read(lines, at) {
    let end = at + 1;
    while (end < lines.length && lines[end].trim() !== '' && !isBlockStart(lines[end]) && !table.starts(lines, end)) end += 1;
    const text = lines.slice(at, end).map((line) => line.trimStart()).join('\n');
    return [{ type: 'paragraph', inline: inlineOf(text.trimEnd()) }, end];
  },
};

const ADDRESS = /\(\s*<?((?:https?:\/\/|mailto:)[^\s()<>]{1,2000})>?(?:\s+"[^"\n]*")?\s*\)/iy;
const OTHER_ADDRESS = /\([^\s()<>]{0,2000}(?:\s+"[^"\n]*")?\s*\)/y;
const BARE = /(?:https?:\/\/)[^\s<>"'`()[\]]{1,2000}/iy;
const RUN = /([*_~])\1*/y;

/** Returns the parts of a line of text: texts, {mark, inline}, {code}, {href, inline} and {newline}. */
function inlineOf(text) {
  /** The open parts, the outermost first: {mark, inline}. */
  const open = [{ mark: '', inline: [] }];
  const ticks = backticks(text);
  let plain = '';
  const flush = () => {
    if (plain !== '') open.at(-1).inline.push(plain);
    plain = '';
  };
  const add = (part) => {
    flush();
    open.at(-1).inline.push(part);
  };
  /** Closes the innermost part with `mark`. Marks left open within it become text. */
  const close = (mark) => {
    flush();
    while (open.at(-1).mark !== mark) undo();
    return open.pop().inline;
  };
  const undo = () => {
    const { mark, inline } = open.pop();
    append(open.at(-1).inline, [mark], inline);
  };
  const isOpen = (mark) => open.some((part) => part.mark === mark);
  let at = 0;
  while (at < text.length) {
    const char = text[at];
    if (char === '\\' && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? '')) {
      plain += text[at + 1];
      at += 2;
    } else if (char === '\n') {
      add({ newline: true });
      at += 1;
    } else if (char === '`') {
      const end = ticks.end(at);
      const size = ticks.size(at);
      if (end === undefined) plain += text.slice(at, at + size);
      else add({ code: text.slice(at + size, end).replace(/\n/g, ' ') });
      at = end === undefined ? at + size : end + size;
    } else if (char === '&') {
      const found = /&(amp|lt|gt|quot|apos|nbsp|#39);/y;
      found.lastIndex = at;
      const name = found.exec(text)?.[1];
      plain += name === undefined ? '&' : ENTITIES[name];
      at += name === undefined ? 1 : name.length + 2;
    } else if (char === '[' && !isOpen('[') && open.length < MAX_INLINE_DEPTH) {
      // A picture is a link to it.
      const isImage = plain.endsWith('!');
      if (isImage) plain = plain.slice(0, -1);
      flush();
      open.push({ mark: '[', inline: [], isImage });
      at += 1;
    } else if (char === ']' && isOpen('[')) {
      const part = open.find(({ mark }) => mark === '[');
      const found = matchAt(ADDRESS, text, at + 1);
      const other = found === undefined ? matchAt(OTHER_ADDRESS, text, at + 1) : undefined;
      if (found !== undefined) {
        const inline = close('[');
        add({ href: found[1], inline, isImage: part.isImage });
        at += 1 + found[0].length;
      } else {
        const inline = close('[');
        const shown = other === undefined ? [...(part.isImage ? ['!'] : []), '[', ...inline, ']'] : inline;
        append(open.at(-1).inline, shown);
        // Another scheme or a relative address: the words, and the address as text.
        if (other !== undefined) add({ note: other[0] });
        at += 1 + (other?.[0].length ?? 0);
      }
    } else if ((char === 'h' || char === 'H') && !isOpen('[') && !/\w/.test(text[at - 1] ?? '')) {
      const found = matchAt(BARE, text, at)?.[0].replace(/[.,;:!?*_~]+$/, '');
      if (found === undefined) plain += char;
      else add({ href: found, inline: [found] });
      at += found?.length ?? 1;
    } else if (char === '*' || char === '_' || char === '~') {
      const [run] = matchAt(RUN, text, at);
      const before = text[at - 1] ?? ' ';
      const after = text[at + run.length] ?? ' ';
      const isMark = char === '~' ? run.length === 2 : run.length <= 3;
      const closes = isMark && !/\s/.test(before) && (char !== '_' || !/\w/.test(after));
      const opens = isMark && !/\s/.test(after) && (char !== '_' || !/\w/.test(before));
      if (closes && isOpen(run)) {
        const inline = close(run);
        open.at(-1).inline.push({ mark: run, inline });
      } else if (opens && open.length < MAX_INLINE_DEPTH && !isOpen(run)) {
        flush();
        open.push({ mark: run, inline: [] });
      } else {
        plain += run;
      }
      at += run.length;
    } else {
      plain += char;
      at += 1;
    }
  }
  flush();
  while (open.length > 1) undo();
  return open[0].inline;
}

/** Appends lists that may be too long for the arguments of one call. */
function append(to, ...lists) {
  for (const list of lists) for (const part of list) to.push(part);
}

function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text) ?? undefined;
}

/** The runs of backticks: the size of the one at a place, and the next one of the same size. */
function backticks(text) {
  const sizes = new Map();
  const next = new Map();
  const last = new Map();
  for (const { index, 0: run } of text.matchAll(/`+/g)) {
    sizes.set(index, run.length);
    if (last.has(run.length)) next.set(last.get(run.length), index);
    last.set(run.length, index);
  }
  // A backslash before a run makes its first tick a character: the rest counts as a shorter run.
  const size = (at) => sizes.get(at) ?? 1;
  return { size, end: (at) => (sizes.has(at) ? next.get(at) : undefined) };
}

// JSON as text and as values. Numbers keep their text where the browser supports it (JSON.rawJSON), so
// that a 64-bit id or 0.10 is shown and sent unchanged.
import { visibleText } from './lib/visible.js';

const TOKEN =
  /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[{}[\],:]/g;

/** Parses JSON written by people and tools: each number keeps its text. */
export function parseJson(text) {
  return JSON.parse(text, (_key, value, context) =>
    typeof value === 'number' ? exactNumber(context?.source, value) : value,
  );
}

/** Parses a response of the server: a number becomes a double unless that would lose digits. */
export function parseAnswer(text) {
  return JSON.parse(text, (_key, value, context) => {
    const source = typeof value === 'number' ? (context?.source ?? '') : '';
    const lossy =
      source.replace(/\D/g, '').length > 15 ||
      !Number.isFinite(value) ||
      (value === 0 && /^-?[0.]*[1-9]/.test(source));
    return source !== '' && lossy ? exactNumber(source, value) : value;
  });
}

/** The number in a source text, as raw JSON when its text would change. */
export function exactNumber(source, value = Number(source)) {
  const differs = source !== undefined && String(value) !== source;
  return differs && JSON.rawJSON ? JSON.rawJSON(source) : value;
}

export function isNumber(value) {
  return typeof value === 'number' || JSON.isRawJSON?.(value) === true;
}

export function isObject(value) {
  return (
    value !== null && typeof value === 'object' && !Array.isArray(value) && !JSON.isRawJSON?.(value)
  );
}

export function pretty(value) {
  return JSON.stringify(value, null, 2);
}

/**
 * Formats JSON for reading. Invisible characters, and those that change the text direction, become
 * escapes: it is still the same JSON.
 */
export function visible(value) {
  const text = pretty(value);
  return text && visibleText(text);
}

/** Sets an own property, also for names such as `__proto__`. */
export function setKey(object, key, value) {
  Object.defineProperty(object, key, {
    value,
    writable: true,
    enumerable: true,
    configurable: true,
  });
}

export function own(object, key) {
  return isObject(object) && Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Describes a JSON syntax error with line and column; undefined for valid JSON. */
export function parseProblem(text) {
  try {
    JSON.parse(text);
    return undefined;
  } catch {
    const offset = errorOffset(text);
    const before = text.slice(0, offset).split('\n');
    const rest = text.slice(offset).trim();
    const what =
      text.trim() === ''
        ? 'the text is empty'
        : rest === ''
          ? 'the text is incomplete'
          : `unexpected ${rest.split(/\s/)[0].slice(0, 20)}`;
    return {
      message: `Invalid JSON, line ${before.length}, column ${before.at(-1).length + 1}: ${what}`,
      offset,
    };
  }
}

/** The offset of a JSON syntax error. Browser messages differ, and not all contain it. */
function errorOffset(text) {
  const token =
    /\s*("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[{}[\],:])/y;
  const space = /\s*/y;
  let at = 0;
  const peek = () => {
    token.lastIndex = at;
    return token.exec(text);
  };
  const take = (accepts) => {
    const found = peek();
    space.lastIndex = at;
    if (!found || !accepts(found[1])) throw space.exec(text)[0].length + at;
    at = token.lastIndex;
    return found[1];
  };
  const is =
    (...marks) =>
    (mark) =>
      marks.includes(mark);
  const next = (mark) => peek()?.[1] === mark;
  const members = (close, member) => {
    if (next(close)) return take(is(close));
    do member();
    while (take(is(',', close)) === ',');
    return close;
  };
  const value = () => {
    const first = take((mark) => !/^[}\],:]$/.test(mark));
    if (first === '{')
      members('}', () => {
        take((mark) => mark.startsWith('"'));
        take(is(':'));
        value();
      });
    if (first === '[') members(']', value);
  };
  try {
    value();
    space.lastIndex = at;
    return at + space.exec(text)[0].length;
  } catch (offset) {
    return typeof offset === 'number' ? offset : 0; // too deep for the stack: report the start
  }
}

/** The tokens of a JSON text as [text, kind]: the kind is `j-key`, `j-string`, …, or undefined. */
export function tokens(text) {
  const list = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > end) list.push([text.slice(end, match.index)]);
    end = match.index + match[0].length;
    list.push([match[0], tokenKind(match[0], text[end] === ':')]);
  }
  list.push([text.slice(end)]);
  return list;
}

function tokenKind(token, isKey) {
  if (token.startsWith('"')) return isKey ? 'j-key' : 'j-string';
  if (/^[-\d]/.test(token)) return 'j-number';
  return /^[tfn]/.test(token) ? 'j-word' : undefined;
}

export function pointerParts(pointer) {
  return pointer === ''
    ? []
    : pointer
        .slice(1)
        .split('/')
        .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

export function pointerJoin(parent, key) {
  return `${parent}/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/** The position of a JSON pointer's value (or its nearest ancestor) in a valid JSON text. */
export function locate(text, pointer) {
  const tokens = [...text.matchAll(TOKEN)];
  let next = 0;
  let found;
  const read = (path) => {
    const first = tokens[next];
    next += 1;
    const opener = first[0];
    if (opener === '{' || opener === '[') {
      for (let index = 0; tokens[next][0] !== '}' && tokens[next][0] !== ']'; index += 1) {
        if (tokens[next][0] === ',') next += 1;
        let key = String(index);
        if (opener === '{') {
          key = JSON.parse(tokens[next][0]);
          next += 2;
        }
        read(path && path.length > 0 && path[0] === key ? path.slice(1) : undefined);
      }
      next += 1;
    }
    const last = tokens[next - 1];
    // An inner match is set first and kept: the deepest existing value on the path wins.
    if (path && !found) found = { start: first.index, end: last.index + last[0].length };
  };
  try {
    read(pointerParts(pointer));
  } catch {
    return undefined; // invalid JSON
  }
  return found;
}

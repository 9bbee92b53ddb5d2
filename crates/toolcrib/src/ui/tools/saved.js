// Calls that the user saved for a tool in this browser. They are the only arguments that this page ever
// stores, only when the user presses Save, and without anything that looks like a secret.
import { state } from '../state.js';
import { isObject, own, parseJson, setKey } from '../json.js';
import { memberSchema, schemaOf, simplify } from './schema.js';

/** Parts of names that suggest a secret. The server has the same lists (`core/src/redact/names.rs`). */
const SECRET_WORDS = ['token', 'secret', 'passw', 'passphrase', 'credential', 'authorization', 'apikey', 'privatekey', 'accesskey', 'cookie', 'sessionid'];
/** Last words of names that suggest one. */
const SECRET_LAST_WORDS = ['pin', 'otp', 'pass', 'pw', 'jwt', 'pat', 'cvv', 'cvc'];
/** The endings of other names that the server keeps out of the record. */
const SECRET_ENDS = /(pwd|signingkey)$/;
const MOST = 50;

/** Saved calls belong to a principal: another one that uses this browser does not see them. */
function place() {
  const who = state.who;
  // As JSON, because both ids can contain any separator.
  const owner = who === undefined ? '' : `:${JSON.stringify([who.tenant, who.principal])}`;
  return `toolcrib-calls${owner}`;
}

function read() {
  try {
    const all = parseJson(localStorage.getItem(place()) ?? '{}');
    return isObject(all) ? all : {};
  } catch {
    return {};
  }
}

function write(all) {
  try {
    if (Object.keys(all).length === 0) localStorage.removeItem(place());
    else localStorage.setItem(place(), JSON.stringify(all));
    return true;
  } catch {
    return false; // storage is full or blocked
  }
}

/** Returns [{name, args, at}] of a tool. */
export function savedCalls(tool) {
  const list = own(read(), tool);
  return Array.isArray(list)
    ? list.filter((it) => isObject(it) && typeof it.name === 'string')
    : [];
}

/** Saves a call under a name, in place of one of the same name. Returns whether that worked. */
export function saveCall(tool, name, args) {
  const all = read();
  const others = savedCalls(tool).filter((it) => it.name !== name);
  setKey(all, tool, [{ name, args, at: new Date().toISOString() }, ...others].slice(0, MOST));
  return write(all);
}

export function removeCall(tool, name) {
  const all = read();
  const rest = savedCalls(tool).filter((it) => it.name !== name);
  if (rest.length > 0) setKey(all, tool, rest);
  else delete all[tool];
  return write(all);
}

/** Returns {args, left}: a copy of the arguments without secrets, and the paths of the secrets. */
export function withoutSecrets(args, schema) {
  const left = [];
  const root = isObject(schema) ? schema : {};
  return { args: strip(args, root, '', left, root, 0), left };
}

function strip(value, schema, path, left, root, depth) {
  if (depth > 64) return undefined;
  const simple = schemaOf(value, schema, root);
  if (Array.isArray(value))
    return value
      .map((item, at) =>
        strip(item, own(simple, 'items'), `${path} › ${at + 1}`, left, root, depth + 1),
      )
      .filter((item) => item !== undefined);
  if (!isObject(value)) return value;
  const copy = {};
  for (const [key, inner] of Object.entries(value)) {
    const property = memberSchema(simple, key);
    const name = path === '' ? key : `${path} › ${key}`;
    if (isSecret(key, simplify(property, root))) left.push(name);
    else setKey(copy, key, strip(inner, property, name, left, root, depth + 1));
  }
  return copy;
}

/** The last word of a name in `snake_case`, `camelCase` or any other form, in lower case. */
function lastWord(key) {
  const words = key.match(/\p{Lu}?[\p{Ll}\p{N}]+|[\p{Lu}\p{N}]+/gu) ?? [];
  return (words.at(-1) ?? '').toLowerCase();
}

function isSecret(key, schema) {
  const letters = key.toLowerCase().replace(/[-_. ]/g, '');
  return (
    SECRET_LAST_WORDS.includes(lastWord(key)) ||
    SECRET_WORDS.some((word) => letters.includes(word)) ||
    SECRET_ENDS.test(letters) ||
    own(schema, 'format') === 'password' ||
    own(schema, 'writeOnly') === true
  );
}

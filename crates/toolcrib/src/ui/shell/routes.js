// The address of the page: which screen is open.
import { href } from '../lib/address.js';

/** Returns {section, path, query} of the current address. */
export function current() {
  const hash = location.hash;
  const approval = /^#approval=([\w-]+)$/.exec(hash);
  if (approval) return { section: 'approvals', path: [approval[1]], query: new URLSearchParams() };
  // Names of clients are shorter than the secret of a link.
  const link = /^#\/connect\/([\w-]{32,})$/.exec(hash);
  if (link) return { section: 'connections', path: ['link', link[1]], query: new URLSearchParams() };
  if (/^#\/connected\b/.test(hash)) return { section: 'connections', path: ['returned'], query: new URLSearchParams() };
  if (!hash.startsWith('#/')) return { section: 'tools', path: [], query: new URLSearchParams() };
  const [path, query = ''] = hash.slice(2).split('?', 2);
  const [section, ...rest] = path.split('/').map(decoded);
  return { section, path: rest, query: new URLSearchParams(query) };
}

/** Opens a screen; `replace` leaves no entry in the history, for filters that change while typing. */
export function go(section, path = [], query = {}, { replace = false } = {}) {
  const address = href(section, path, query);
  if (!replace) {
    location.hash = address;
    return;
  }
  history.replaceState(null, '', address);
  dispatchEvent(new HashChangeEvent('hashchange'));
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

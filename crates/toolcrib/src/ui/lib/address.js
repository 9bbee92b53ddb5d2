// The addresses of screens, relative to the page: `#/SECTION/PART/…?filter=…`, and
// `#tool=NAME` for an open tool.

export function href(section, path = [], query = {}) {
  if (section === 'tools' && path.length > 0) return `#tool=${encodeURIComponent(path[0])}`;
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') parameters.set(name, value);
  }
  const search = parameters.toString();
  if (section === 'tools' && search === '') return '#';
  const parts = [section, ...path].map(encodeURIComponent).join('/');
  return `#/${parts}${search === '' ? '' : `?${search}`}`;
}

/** A condition of the record's query, such as `actor:ada`. */
export function condition(field, value) {
  const plain = String(value).replaceAll('"', '');
  return /\s/.test(plain) ? `${field}:"${plain}"` : `${field}:${plain}`;
}

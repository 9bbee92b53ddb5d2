// The sections of the page, and which of them the caller may use.
import { state, may } from '../state.js';

/** The server requires `scope` or `or`, and the section is hidden from callers without them. */
export const SECTIONS = [
  { id: 'tools', name: 'Tools', keys: 't' },
  { id: 'approvals', name: 'Approvals', keys: 'a' },
  { id: 'record', name: 'Record', keys: 'r', scope: 'audit:read' },
  { id: 'sources', name: 'Sources', keys: 's', scope: 'sources:read' },
  { id: 'access', name: 'Access', keys: 'k', scope: 'keys:manage', or: 'roles:read' },
  { id: 'connections', name: 'Connections', keys: 'o' },
  { id: 'connect', name: 'Connect', keys: 'c' },
];

export function visibleSections() {
  return state.who ? SECTIONS.filter(({ scope, or }) => scope === undefined || may(scope) || may(or)) : [];
}

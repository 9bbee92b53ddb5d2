// The roles of a new key, chosen from those that the caller may give.
import { html, listed, plural, useData, useEffect, useState } from './ui.js';
import { may } from '../state.js';

/** How often to poll for a newly written role, in ms, and how many times. */
const EVERY_MS = 700;
const LOOKS = 20;

/**
 * `chosen` are the names of the chosen roles. `wanted` is a role to choose once the server lists it.
 */
export function RoleChoice({ who, chosen, onChange, wanted }) {
  const [turn, setTurn] = useState(0);
  const reads = may('roles:read');
  const found = useData('/v1/roles', { enabled: reads, key: String(turn) });
  const known = found.data?.roles ?? [];
  // The caller's own role is not listed if it has no effect in the tenant.
  const own = who.roles.filter((name) => !known.some((it) => it.name === name));
  const roles = [...known, ...own.map((name) => ({ name, mayGive: true }))];
  const given = roles.filter((it) => it.mayGive);
  const others = roles.filter((it) => !it.mayGive);
  const isLoaded = !reads || found.data !== undefined || found.problem !== undefined;
  const isThere = wanted === undefined || roles.some(({ name }) => name === wanted);
  const isGiven = wanted !== undefined && given.some(({ name }) => name === wanted);
  useEffect(() => {
    if (isGiven && !chosen.includes(wanted)) onChange([...chosen, wanted]);
  }, [isGiven]);
  useEffect(() => {
    if (!isLoaded || isThere || turn >= LOOKS) return undefined;
    const timer = setTimeout(() => setTurn(turn + 1), EVERY_MS);
    return () => clearTimeout(timer);
  }, [isLoaded, isThere, turn]);
  const toggle = (name) =>
    onChange(chosen.includes(name) ? chosen.filter((it) => it !== name) : [...chosen, name]);
  return html`<fieldset data-roles>
    <legend>Roles</legend>
    ${given.length > 0 &&
    html`<div class="chips">
      ${given.map(
        ({ name, tools }) => html`<button type="button" class="chip" key=${name} data-role=${name}
          aria-pressed=${String(chosen.includes(name))} onClick=${() => toggle(name)}>
          <bdi>${name}</bdi>${tools !== undefined && html` <span class="n">${plural(tools, 'tool')}</span>`}
        </button>`,
      )}
    </div>`}
    ${found.problem !== undefined && html`<p class="bad" role="alert">The roles could not be loaded: ${found.problem}</p>`}
    ${isLoaded && !isThere &&
    html`<p class="hint" role="status" data-waiting>${
      turn < LOOKS
        ? html`The server is reading the role <bdi>${wanted}</bdi>…`
        : html`The server has no role <bdi>${wanted}</bdi> for this tenant.`
    }</p>`}
    <p class="hint" data-others>
      ${isLoaded && given.length === 0 && 'You cannot give any role. '}
      ${others.length === 0
        ? 'A key can have roles that its creator has.'
        : html`You cannot give ${listed(others.map(({ name }) => html`<bdi class="strong" key=${name}>${name}</bdi>`))}: a key can have only roles that its creator has, and the
            scope <code>*</code> includes every role.`}
    </p>
  </fieldset>`;
}

// A configuration change: its effect on the file and on each role, and the button that writes it. The
// server computes the effect. Every change is shown before it is written.
import {
  html,
  announce,
  useEffect,
  useRef,
  useState,
  plural,
  send,
  Badge,
  Button,
  Copy,
  Dialog,
  Problem,
  Skeleton,
  listed,
} from './ui.js';
import { href } from './address.js';
import { word } from './command-line.js';
import { asPrincipal } from './key-form.js';
import { state } from '../state.js';

/** Proposes `changes` again whenever they differ. */
function useProposal(changes, connect) {
  const [state, setState] = useState({});
  const [turn, setTurn] = useState(0);
  const key = JSON.stringify(changes);
  useEffect(() => {
    let ended = false;
    setState({});
    send('POST', '/v1/config/propose', { changes, connect }).then((reply) => {
      if (!ended) setState(reply);
    });
    return () => (ended = true);
  }, [key, connect, turn]);
  return { ...state, again: () => setTurn((it) => it + 1) };
}

/**
 * Shows the effect of `changes`, and writes them. `connect` starts new sources to see their tools.
 * `onWritten` is called once the file is in place.
 */
export function Proposal({ changes: wanted, connect = false, onWritten }) {
  const [suggested, setSuggested] = useState();
  const changes = suggested ?? wanted;
  const proposal = useProposal(changes, connect);
  const [busy, setBusy] = useState(false);
  const [written, setWritten] = useState();
  const [refused, setRefused] = useState();
  const done = useRef();
  // The focused button was removed.
  useEffect(() => written && done.current.focus(), [written]);
  const write = async () => {
    setBusy(true);
    const reply = await send('POST', '/v1/config/write', { changes, hash: proposal.data.before });
    setBusy(false);
    setRefused(reply);
    if (reply.problem !== undefined) return;
    setWritten(reply.data);
    announce('The configuration was written');
    onWritten?.();
  };
  if (written)
    return html`<div class="done" role="status" tabindex="-1" ref=${done} data-written>
      <strong>The configuration is written.</strong>${' '}
      <span>The server applies it within a second.
        ${written.backup && html` The previous text is in <code>${written.backup}</code>.`}</span>
    </div>
    ${newRoles(changes, proposal.data).map((it) => html`<${Next} key=${it.role} givers=${it} />`)}`;
  if (proposal.problem !== undefined)
    return html`<${Problem} text=${proposal.problem} retry=${proposal.again} />`;
  if (proposal.data === undefined) return html`<${Skeleton} rows=${4} />`;
  const { diff, problems, warnings, reach, preview, obstacle, writable } = proposal.data;
  const made = newRoles(changes, proposal.data);
  return html`<div class="form" data-proposal>
    ${problems.length > 0 &&
    html`<div class="problem-box" role="alert"><div>
      <p>The changed configuration would not work:</p>
      <ul>${problems.map((it) => html`<li key=${it.message}>
        ${it.key && html`<code>${it.key}</code> `}<bdi>${it.message}</bdi></li>`)}</ul>
    </div></div>`}
    ${obstacle && html`<p class="warn">${obstacle}</p>`}
    ${warnings.map((text) => html`<p class="warn" key=${text}>${text}</p>`)}
    ${reach.map((it) => it.others.length > 0 && html`<${Beyond} key=${it.role} reach=${it} onSuggested=${setSuggested} />`)}
    ${preview && html`<${Effect} preview=${preview} />`}
    ${made.map((it) => html`<${Givers} key=${it.role} givers=${it} />`)}
    <${Lines} diff=${diff} />
    ${diff.length === 0 && html`<p class="note">The file has this content already.</p>`}
    ${refused?.problem &&
    html`<${Problem} text=${refused.problem}
      retry=${refused.status === 409 ? proposal.again : undefined} />`}
    <div class="row end">
      <${Button} kind="primary" busy=${busy} disabled=${!writable} data-write onClick=${write}>
        Write the configuration
      <//>
    </div>
  </div>`;
}

/** Who can give the roles that `changes` add. */
function newRoles(changes, { givers = [] } = {}) {
  const isNew = (name) => changes.some((it) => it.kind === 'role' && it.action === 'add' && it.name === name);
  return givers.filter(({ role }) => isNew(role));
}

/** Shows, before the role is written, who can give it to keys. */
function Givers({ givers: { role, caller, others } }) {
  const people = others?.map((name) => html`<bdi class="strong" key=${name}>${name}</bdi>`) ?? [];
  return html`<section class="form" aria-label=${`Who can give ${role}`} data-givers=${role}>
    <h3>Who can give the role <bdi>${role}</bdi></h3>
    ${caller
      ? html`<p class="note">You can make keys with it, once it is written.</p>`
      : html`<p class="warn">
          You cannot make keys with it. A key can have only roles that its creator has, and the
          scope <code>*</code> includes every role.${' '}
          ${people.length > 0 ? html`${listed(people)} can, and so can the` : 'The'} operator of the
          server${people.length > 0 ? '' : ' can'}, on its machine.
        </p>`}
  </section>`;
}

/** The next step after a role is written: a key for its users. */
function Next({ givers: { role, caller } }) {
  if (caller)
    return html`<div class="row end">
      <a class="button primary" data-team-key=${role} href=${href('access', ['keys'], { new: 'key', role })}>
        Make a key for <bdi>${role}</bdi>
      </a>
    </div>`;
  const words = { name: role, principal: asPrincipal(role), tenant: state.who.tenant, role };
  const options = Object.entries(words).map(([name, value]) => `--${name} ${word(value)}`);
  const command = `toolcrib keys create ${options.join(' ')}`;
  return html`<div class="form" data-team-command=${role}>
    <p class="note">The operator of the server makes a key with this command:</p>
    <div class="secret"><code>${command}</code><${Copy} text=${command} /></div>
  </div>`;
}

/** A proposal in a dialog. */
export function ProposalDialog({ title, changes, connect, onClose, onWritten, children }) {
  return html`<${Dialog} title=${title} onClose=${onClose} wide>
    ${children}
    <${Proposal} changes=${changes} connect=${connect} onWritten=${onWritten} />
  <//>`;
}

/** Warns of tools that a role would reach but the user did not name. */
function Beyond({ reach, onSuggested }) {
  const { role, others, suggestion } = reach;
  return html`<div class="problem-box" role="alert" data-beyond=${role}><div>
    <p><bdi class="strong">${role}</bdi> would also reach ${plural(others.length, 'tool')} that you did not name,
      because they require the same scopes:</p>
    <p>${others.slice(0, SHOWN).map((name) => html`<bdi class="mono" key=${name}>${name}</bdi> `)}
      ${others.length > SHOWN && html`<span class="muted">and ${others.length - SHOWN} more</span>`}</p>
    ${suggestion.length > 0
      ? html`<p>Rules can give the named tools a separate scope. Roles that reach them get it too; keys that
          have the scope itself, without a role, lose these tools.</p>
        <${Button} data-own-scope onClick=${() => onSuggested(suggestion)}>Give them a separate scope<//>`
      : html`<p>No rule can give these tools a separate scope: name the scopes of the role instead.</p>`}
  </div></div>`;
}

/** What each role sees before and after. */
function Effect({ preview }) {
  const changed = preview.roles.filter(
    (it) => it.appears.length + it.disappears.length + it.changes.length > 0,
  );
  return html`<section class="form" aria-label="What each role sees">
    <h3>What each role sees</h3>
    ${preview.unknown.map(
      (it) => html`<p class="warn" key=${it.source} data-unknown=${it.source}>
        The tools of <bdi class="mono">${it.source}</bdi> are unknown: <bdi>${it.reason}</bdi>.</p>`,
    )}
    ${preview.sources.filter((it) => it.quarantined.length > 0).map(
      (it) => html`<p class="warn" key=${it.source} data-quarantined=${it.source}>
        The change alters ${plural(it.quarantined.length, 'tool')} of <bdi class="mono">${it.source}</bdi>:
        quarantined and blocked for all callers until the change is approved.</p>`,
    )}
    ${preview.idleRules.map(
      (it) => html`<p class="warn" key=${it.source + it.pattern} data-idle=${it.pattern}>
        The rule <bdi class="mono">${it.pattern}</bdi> matches no tool of <bdi class="mono">${it.source}</bdi>.</p>`,
    )}
    ${changed.length === 0
      ? html`<p class="note">No role sees other tools.</p>`
      : html`<div class="table-box" tabindex="0" role="region" aria-label="Roles before and after">
          <table class="table">
            <thead><tr><th>Role</th><th class="right">Before</th><th class="right">After</th><th>What changes</th></tr></thead>
            <tbody>
              ${changed.map(
                (it) => html`<tr key=${it.role} data-role=${it.role}>
                  <td><bdi class="strong">${it.role}</bdi></td>
                  <td class="right">${it.before}</td>
                  <td class="right">${it.after}</td>
                  <td class="wrap">
                    <${Names} tone="green" word="appears" names=${it.appears} />
                    <${Names} tone="red" word="disappears" names=${it.disappears} />
                    ${it.changes.slice(0, SHOWN).map(
                      (change) => html`<div key=${change.tool}><bdi class="mono">${change.tool}</bdi>
                        <span class="muted"> <bdi>${change.what.join(', ')}</bdi></span></div>`,
                    )}
                    ${it.changes.length > SHOWN &&
                    html`<div class="muted">and ${it.changes.length - SHOWN} more with other requirements</div>`}
                  </td>
                </tr>`,
              )}
            </tbody>
          </table>
        </div>`}
  </section>`;
}

const SHOWN = 8;

function Names({ tone, word, names }) {
  if (names.length === 0) return null;
  return html`<div>
    <${Badge} tone=${tone}>${plural(names.length, 'tool')} ${names.length === 1 ? word : word.slice(0, -1)}<//>
    ${names.slice(0, SHOWN).map((name) => html` <bdi class="mono" key=${name}>${name}</bdi>`)}
    ${names.length > SHOWN && html` <span class="muted">and ${names.length - SHOWN} more</span>`}
  </div>`;
}

/** The changed lines of the file. */
function Lines({ diff }) {
  if (diff.length === 0) return null;
  return html`<section class="form" aria-label="Changed lines">
    <h3>Changed lines of the file</h3>
    <pre class="lines patch" tabindex="0" data-diff>${diff.map(
      (hunk, at) => html`<span class="where" key=${at}>line ${hunk.line} ${hunk.table}${'\n'}</span>${hunk.lines.map(
        (line, index) => html`<span key=${index} class=${line.sign === '+' ? 'added' : 'removed'}>${line.sign} ${line.text}${'\n'}</span>`,
      )}`,
    )}</pre>
  </section>`;
}

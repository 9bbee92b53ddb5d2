// Approvals: pending requests, and decided ones.
import {
  html,
  useEffect,
  useRef,
  useState,
  announce,
  milliseconds,
  number,
  plural,
  send,
  useData,
  useEvents,
  useTick,
  Badge,
  Button,
  Danger,
  Empty,
  Loaded,
  ServerText,
  Time,
} from '../lib/ui.js';
import { DANGERS, levelsOf } from '../lib/danger.js';
import { TabBar } from '../lib/tabs.js';
import { toolName } from '../lib/tool-name.js';
import { pretty } from '../json.js';
import { mixedWords } from '../lib/visible.js';
import { draftOf, keepDraft } from '../lib/drafts.js';
import { KeyId, Person, RoleName, ToolName } from '../lib/links.js';
import { href } from '../lib/address.js';
import { go } from '../shell/routes.js';
import { isTyping } from '../shell/keys.js';
import { may } from '../state.js';
import { Reminders } from './reminders.js';

/** How many requests are listed at first, and at most. */
const FIRST = 100;
const MOST = 1_000;
/** With more requests than this, they can be filtered. */
const MANY = 5;

const STATES = {
  pending: ['amber', 'pending'],
  granted: ['green', 'granted'],
  used: ['green', 'granted and used'],
  rejected: ['red', 'rejected'],
  expired: ['grey', 'expired'],
  overridden: ['violet', 'overridden'],
  withdrawn: ['grey', 'withdrawn'],
};

/** The order of the states. */
const STAGES = { pending: 0, granted: 1, overridden: 1, used: 2, rejected: 2, expired: 2, withdrawn: 2 };
/** How often a card polls for the outcome of its call: for half an hour. */
const MOST_ASKED = 130;

const TABS = [
  { id: 'pending', label: 'Pending', panel: 'approvals-panel' },
  { id: 'history', label: 'Decided', panel: 'approvals-panel' },
];

export function Approvals({ route, who }) {
  const tab = route.path[0] === 'history' ? 'history' : 'pending';
  const show = (id) => go('approvals', id === 'history' ? ['history'] : []);
  const [change, setChange] = useState(0);
  useEvents(['live:approval', 'live:open'], () => setChange((it) => it + 1));
  useTick(15_000);
  useCardKeys();
  return html`<div class="approvals-screen">
    <div class="screen-head">
      <div>
        <h2>Approvals</h2>
        <p>Calls that run only after an approval.</p>
      </div>
      <${Reminders} />
    </div>
    <${TabBar} label="Approvals" prefix="tab" tabs=${TABS} open=${tab} onOpen=${show} />
    <div id="approvals-panel" role="tabpanel" aria-labelledby=${`tab-${tab}`} class="tab-panel">
      ${tab === 'history'
        ? html`<${Decided} change=${change} who=${who} />`
        : route.path[0] === undefined
          ? html`<${Pending} change=${change} who=${who} />`
          : html`<${Linked} key=${route.path[0]} id=${route.path[0]} change=${change} who=${who} />`}
    </div>
  </div>`;
}

/** Only the request that the link names. */
function Linked({ id, change, who }) {
  const found = useData(`/v1/approvals/${encodeURIComponent(id)}`, { key: String(change) });
  const all = html`<p><a href=${href('approvals')}>All pending requests</a></p>`;
  if (found.status === 404)
    return html`<${Empty} title="Request not found">
      <p class="muted">
        The link may be incomplete, the request may be older than 30 days, or it is for other approvers.
      </p>
      ${all}
    <//>`;
  return html`<${Loaded} of=${found} rows=${4}>
    ${(data) => html`${all}
      <div class="cards" onKeyDown=${onCardKey}><${Card} first=${data} complete opened who=${who} /></div>`}
  <//>`;
}

/**
 * Invariant: an answered card keeps its place until the screen is opened again, and newer cards are
 * added below it. Cards never move under the pointer.
 */
function Pending({ change, who }) {
  const [limit, setLimit] = useState(FIRST);
  // One request loads the content of all cards.
  const found = useData(`/v1/approvals?state=pending&include=arguments&limit=${limit}`, { key: String(change) });
  const [filter, setFilter] = useState('');
  const [by, setBy] = useState('');
  const [, redraw] = useState(0);
  const more = found.data?.more === true;
  const cards = useRef(new Map());
  // The earliest expiry comes first.
  const listed = [...(found.data?.approvals ?? [])].sort((a, b) => Date.parse(a.expiresAt) - Date.parse(b.expiresAt));
  for (const it of listed) {
    const known = cards.current.get(it.approvalId);
    cards.current.set(it.approvalId, { ...known, ...it });
  }
  const seen = useRef();
  if (found.data !== undefined) seen.current ??= new Set(cards.current.keys());
  const stillPending = new Set((found.data?.approvals ?? []).map((it) => it.approvalId));
  return html`<${Loaded} of=${found} rows=${4}>
    ${() => {
      const list = [...cards.current.values()];
      if (list.length === 0)
        return html`<${Empty} title="No pending requests">
          <p class="muted">
            When a call needs approval, its request appears here.
          </p>
        <//>`;
      const words = filter.trim().toLowerCase();
      const fits = (it) => [it.principal, it.toolId, nameOf(it)].some((text) => text.toLowerCase().includes(words));
      const shown = list.filter(fits);
      const isOpen = (it) => more || stillPending.has(it.approvalId);
      const fresh = shown.filter((it) => !seen.current?.has(it.approvalId) && isOpen(it));
      const card = (it) => html`<${Card} key=${it.approvalId} first=${it} complete who=${who} gone=${!isOpen(it)}
        equals=${isOpen(it) ? equals(it, list.filter(isOpen)) : []} />`;
      return html`${(list.length > MANY || filter !== '') && html`<div class="bar">
          <input class="input grow" type="search" id="approvals-filter" spellcheck="false" autocomplete="off"
            aria-label="Filter by tool or person" placeholder="Filter by tool or person" value=${filter}
            onInput=${(event) => setFilter(event.target.value)} />
          <select class="input" aria-label="Groups" id="approvals-groups" value=${by} onChange=${(event) => setBy(event.target.value)}>
            ${Object.entries(GROUPS).map(([value, { name }]) => html`<option key=${value} value=${value}>${name}</option>`)}
          </select>
          <span class="muted" role="status">${number(shown.length)} of ${plural(list.length, 'request')}</span>
        </div>`}
      ${fresh.length > 0 && html`<${Fresh} list=${fresh} isBelow=${fresh.length < shown.length} onSeen=${() => {
        seen.current = new Set(cards.current.keys());
        redraw((it) => it + 1);
      }} />`}
      ${more && html`<${Older} limit=${limit} onMore=${() => setLimit(MOST)} />`}
      <div class="cards" onKeyDown=${onCardKey}>
        ${by === ''
          ? shown.map(card)
          : [...Map.groupBy(shown, GROUPS[by].of)].map(
              ([name, group]) => html`<section key=${name} class="cards" aria-label=${name}>
                <h3><bdi>${name}</bdi> <span class="muted">${plural(group.length, 'request')}</span></h3>
                ${group.map(card)}
              </section>`,
            )}
      </div>`;
    }}
  <//>`;
}

/** The name of the requested tool, even if it is now hidden from the caller. */
const nameOf = (it) => it.tool?.name ?? toolName(it.toolId);

/** How requests can be grouped. */
const GROUPS = {
  '': { name: 'no groups' },
  tool: { name: 'grouped by tool', of: (it) => nameOf(it) },
  person: { name: 'grouped by person', of: (it) => it.principal },
};

/**
 * The other requests for the same tool with the same values. Empty unless all values are shown: an
 * approver must see every approved value.
 */
function equals(it, list) {
  const call = shownCall(it);
  if (call === undefined || !it.mayRespond) return [];
  return list.filter((other) => other !== it && other.mayRespond && shownCall(other) === call);
}

function shownCall({ toolId, redactedArguments: shown, moreArguments, inputTooLarge, inputResponses, requestStateBytes }) {
  const hides = moreArguments || inputTooLarge !== undefined || inputResponses !== undefined || requestStateBytes !== undefined;
  if (shown === undefined || hides) return undefined;
  const text = JSON.stringify([toolId, shown]);
  return text.includes('[REDACTED') ? undefined : text;
}

/** Announces the new requests since the screen was opened. The button shows the first one. */
function Fresh({ list, isBelow, onSeen }) {
  useEffect(() => announce(plural(list.length, 'new request')), [list.length]);
  if (!isBelow) return null;
  const show = () => {
    onSeen();
    const card = document.querySelector(`[data-approval="${CSS.escape(list[0].approvalId)}"]`);
    card?.focus({ preventScroll: true });
    card?.scrollIntoView({ block: 'nearest' });
  };
  return html`<button type="button" class="fresh" id="approvals-fresh" onClick=${show}>
    ${plural(list.length, 'new request')}, below: show
  </button>`;
}

/** `a` and `r` answer the focused card. */
function onCardKey(event) {
  const verdict = { a: 'grant', r: 'reject' }[event.key];
  // Only on the card itself, so that typing in a field answers no request.
  if (verdict === undefined || isTyping(event) || !event.target.matches('.approval')) return;
  const button = event.target.querySelector(`[data-verdict="${verdict}"]`);
  if (button === null) return;
  event.preventDefault();
  button.click();
}

/** `j` and `k` move the focus from card to card. */
function useCardKeys() {
  useEffect(() => {
    const listen = (event) => {
      const step = { j: 1, k: -1 }[event.key];
      if (step === undefined || isTyping(event)) return;
      const cards = [...document.querySelectorAll('.approval')];
      const at = cards.indexOf(document.activeElement?.closest('.approval'));
      const next = cards[at === -1 ? 0 : at + step];
      if (next === undefined) return;
      event.preventDefault();
      next.focus({ preventScroll: true });
      next.scrollIntoView({ block: 'nearest' });
    };
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, []);
}

/** Notes that older requests are pending but not listed. */
function Older({ limit, onMore }) {
  return html`<div class="problem-box">
    <p>These are the newest ${number(limit)} requests. Older ones are pending as well.</p>
    ${limit < MOST && html`<${Button} onClick=${onMore}>Show older requests<//>`}
  </div>`;
}

/** `complete` is whether `first` already has the arguments. `equals` are other requests for the same call. */
function Card({ first, complete = false, gone = false, opened = false, equals: same = [], who }) {
  const element = useRef();
  const [answered, setAnswered] = useState();
  const [problem, setProblem] = useState();
  const [busy, setBusy] = useState();
  const draft = `comment ${first.approvalId}`;
  const [comment, setComment] = useState(() => draftOf(draft) ?? '');
  const type = (text) => {
    setComment(text);
    keepDraft(draft, text === '' ? undefined : text);
  };
  // How often the outcome was polled: callers who may not read the record get no event for it.
  const [asked, setAsked] = useState(0);
  const detail = useData(`/v1/approvals/${encodeURIComponent(first.approvalId)}`, {
    // Votes of others arrive with the list; the votes that this caller may still cast are in the detail.
    key: `${gone} ${first.state} ${first.votes?.length} ${answered?.state} ${asked}`,
    enabled: !complete || gone || answered !== undefined || asked > 0,
  });
  const it = useShownValues({ ...first, ...detail.data });
  // The answer given on this card counts until a later state is known.
  const latest = answered !== undefined && STAGES[it.state] <= STAGES[answered.state] ? answered : it;
  const state = latest.state;
  const waits = ['granted', 'overridden', 'used'].includes(state) && it.outcome === undefined;
  useEffect(() => {
    if (!waits || !(opened || answered !== undefined) || asked >= MOST_ASKED) return undefined;
    const timer = setTimeout(() => setAsked(asked + 1), asked < 15 ? 2_000 : 15_000);
    return () => clearTimeout(timer);
  }, [waits, opened, answered, asked]);
  const own = it.principal === who.principal;
  useEffect(() => {
    if (!opened) return;
    element.current.scrollIntoView({ block: 'nearest' });
    element.current.focus({ preventScroll: true });
  }, [opened]);
  const [asksForAll, setAsksForAll] = useState(false);
  const grantAll = async () => {
    setAsksForAll(false);
    const problems = [];
    for (const other of same) {
      const reply = await send('POST', `/v1/approvals/${encodeURIComponent(other.approvalId)}`, voteOf('grant'));
      if (reply.problem !== undefined) problems.push(reply.problem);
    }
    await answer('grant');
    if (problems.length > 0)
      setProblem(`${plural(problems.length, 'equal request')} could not be approved: ${problems[0]}`);
  };
  const voteOf = (verdict) => {
    const words = comment.trim();
    return { verdict, ...(words === '' ? {} : { comment: words }) };
  };
  const answer = async (verdict) => {
    const words = comment.trim();
    if (verdict === 'override' && words === '') {
      setProblem('An override needs a comment: say why the other approvals are not needed.');
      element.current.querySelector('input').focus();
      return;
    }
    setBusy(verdict);
    const reply = await send('POST', `/v1/approvals/${encodeURIComponent(it.approvalId)}`, voteOf(verdict));
    setBusy(undefined);
    setProblem(reply.problem);
    if (reply.problem !== undefined) return;
    setAnswered({ ...reply.data, verdict });
    type('');
    element.current.focus({ preventScroll: true }); // the buttons are gone
    announce({ reject: 'Rejected', withdraw: 'Withdrawn' }[verdict] ?? 'Approved');
  };
  const decided = state !== 'pending';
  const canAnswer = !decided && !gone && answered === undefined && (it.mayRespond || it.mayOverride);
  const canWithdraw = decided && latest.mayWithdraw;
  const title = `approval-${it.approvalId}`;
  return html`<article ref=${element} tabindex="-1" aria-labelledby=${title}
    class=${`approval ${decided || gone ? 'decided' : ''} ${opened ? 'marked' : ''}`}
    data-approval=${it.approvalId}>
    <h3 id=${title}>
      <${Person} name=${it.principal} /> wants to run <${ToolName} name=${nameOf(it)} />
    </h3>
    ${it.tool?.title && it.tool.title !== it.tool.name &&
    html`<p class="muted">The tool calls itself “<bdi>${it.tool.title}</bdi>”.</p>`}
    <div class="row">
      ${it.tool && html`<${Danger} tier=${it.tool.safetyTier} destructive=${it.tool.destructive} />`}
      ${it.quorum > 1 &&
      html`<${Badge} tone="blue">${latest.granted} of ${it.quorum} approvals<//>`}
      ${decided && html`<${State} state=${state} />`}
      ${!decided &&
      html`<span class="muted">expires <${Time} at=${it.expiresAt} />, requested <${Time} at=${it.createdAt} /></span>`}
    </div>
    ${it.tool?.description && html`<p class="description">${it.tool.description}</p>`}
    <p class="muted" data-reason>${dangers(it)} ${reason(it)}</p>
    ${!complete && detail.data === undefined && detail.problem === undefined
      ? html`<p class="muted">Loading the arguments…</p>`
      : html`<${Arguments} approval=${it} />`}
    <${Round} approval=${it} />
    <${Mixed} approval=${it} />
    <${Votes} votes=${latest.votes} />
    <div class="answer">
      ${canAnswer
        ? html`<input class="input" type="text" maxlength="1000" autocomplete="off"
              aria-label="Comment" placeholder="Comment (optional)" value=${comment}
              onInput=${(event) => type(event.target.value)} />
            ${it.mayRespond &&
            html`<${Button} kind="primary" busy=${busy === 'grant'} data-verdict="grant"
                onClick=${() => answer('grant')}>Approve<//>
              <${Button} busy=${busy === 'reject'} data-verdict="reject"
                onClick=${() => answer('reject')}>Reject<//>`}
            ${same.length > 0 &&
            html`<${Button} data-verdict="grant-all" aria-expanded=${asksForAll} onClick=${() => setAsksForAll(!asksForAll)}>Approve all ${number(same.length + 1)}<//>`}
            ${overrides(it) &&
            html`<${Button} kind="danger" busy=${busy === 'override'} data-verdict="override"
              onClick=${() => answer('override')}>Override<//>
              <p class="muted" data-override>${overrides(it)}</p>`}`
        : html`<p data-outcome>${latest === answered ? afterAnswer(answered) : outcome({ it, own, gone })}</p>`}
      ${canWithdraw &&
      html`<${Button} busy=${busy === 'withdraw'} data-verdict="withdraw"
        onClick=${() => answer('withdraw')}>Withdraw<//>`}
    </div>
    ${asksForAll && canAnswer &&
    html`<div class="problem-box row" role="group" aria-label="Approve equal calls" data-all>
      <p>Approve ${plural(same.length + 1, 'equal call')} of <bdi class="mono">${nameOf(it)}</bdi>, by${' '}
        ${[...new Set([it, ...same].map(({ principal }) => principal))].map((name, at) => html`${at > 0 && ', '}<${Person} name=${name} style="strong" />`)}?</p>
      <${Button} kind="primary" data-verdict="grant-all-now" onClick=${grantAll}>Approve ${number(same.length + 1)}<//>
      <${Button} onClick=${() => setAsksForAll(false)}>Cancel<//>
    </div>`}
    ${problem && html`<p class="problem-box" role="alert">${problem}</p>`}
    <details>
      <summary>Details</summary>
      <dl class="facts">
        <dt>Tool</dt><dd><code>${it.toolId}</code></dd>
        <dt>Run</dt>
        <dd>
          ${may('audit:read')
            ? html`<a href=${href('record', ['run', it.runId])}><code>${it.runId}</code></a>`
            : html`<code>${it.runId}</code>`}
        </dd>
        <dt>Approval</dt><dd><code>${it.approvalId}</code></dd>
        <dt>Scope to answer</dt><dd><code>${it.requiredScope}</code></dd>
        ${it.requiredRole && html`<dt>Role to answer</dt><dd><${RoleName} name=${it.requiredRole} /></dd>`}
        ${it.keyId && html`<dt>Key of the caller</dt><dd><${KeyId} id=${it.keyId} /></dd>`}
      </dl>
    </details>
  </article>`;
}

/** Keeps the values of a call on its card: the server deletes them when the request is closed. */
function useShownValues(approval) {
  const shown = useRef({});
  for (const name of ['redactedArguments', 'redactedInputResponses', 'redactedRequestState'])
    if (approval[name] !== undefined) shown.current[name] = approval[name];
  return { ...approval, ...shown.current };
}

/** The dangers of the tool, in sentences. */
function dangers({ tool }) {
  return tool ? levelsOf(tool.safetyTier, tool.destructive).map((level) => DANGERS[level].text).join(' ') : '';
}

/** Describes the effect of an override; `undefined` if an approval has the same effect. */
function overrides({ mayOverride, mayRespond, quorum, granted }) {
  if (!mayOverride) return undefined;
  const missing = quorum - granted;
  if (mayRespond && missing <= 1) return undefined;
  const others = mayRespond
    ? plural(missing - 1, 'other approval')
    : `the ${plural(missing, 'approval')} that ${missing === 1 ? 'is' : 'are'} needed`;
  return `An override lets the call run now, without ${others}. It needs a comment, which is kept with your name.`;
}

function reason(it) {
  if (it.reasons?.length > 0) return html`It needs an approval because ${it.reasons.map((text, at) => html`${at > 0 && ', and '}<bdi><${ServerText} text=${text} /></bdi>`)}.`;
  const who = it.requiredRole ? html`someone with the role <${RoleName} name=${it.requiredRole} />` : 'someone else';
  return it.quorum > 1
    ? `The rules of this tool require ${it.quorum} approvals before it runs.`
    : html`The rules of this tool require that ${who} agrees before it runs.`;
}

function afterAnswer({ verdict, state, quorum, granted }) {
  if (verdict === 'withdraw') return 'You withdrew the approval. The call needs a new one.';
  if (verdict === 'reject') return 'You rejected it. The tool does not run.';
  if (state === 'pending')
    return `You approved it. ${plural(quorum - granted, 'more approval is', 'more approvals are')} needed.`;
  return 'You approved it. The call may run now.';
}

/** Says who answered a request and whether the call ran, or why this caller cannot answer it. */
function outcome({ it, own, gone }) {
  const { state, votes = [] } = it;
  const last = (...verdicts) => votes.findLast((vote) => verdicts.includes(vote.verdict));
  const by = (vote) =>
    html`${' '}by <${Voter} vote=${vote} />${' '}<${Time} at=${vote?.at ?? it.decidedAt} />`;
  const release = last('override', 'grant');
  const released = html`${release?.verdict === 'override' ? 'Overridden' : 'Approved'}${by(release)}`;
  switch (state) {
    case 'granted':
    case 'overridden':
      return html`${released}. The call has not run yet.`;
    case 'used':
      return html`${released}; <${Ran} outcome=${it.outcome} />.`;
    case 'rejected':
      return html`Rejected${by(last('reject'))}. The tool does not run.`;
    case 'withdrawn':
      return html`Withdrawn${by(last('withdraw'))}. The call needs a new approval.`;
    case 'expired':
      return release === undefined
        ? html`It expired <${Time} at=${it.expiresAt} /> without an answer. The tool does not run.`
        : html`${released}, but no call used it before it expired. The tool does not run.`;
    default:
      if (gone) return 'It was answered or has expired.';
      if (own) return 'It is your own request: someone else has to answer it.';
      return it.whyNot ? html`You cannot answer this request: <bdi>${it.whyNot}</bdi>.` : 'You cannot answer this request.';
  }
}

/** The outcome of the call. */
function Ran({ outcome: ended }) {
  if (ended === undefined) return 'it is running, or its result is not recorded';
  const { status, durationMs, runId } = ended;
  const how = status === 'ok' ? 'ok' : 'and failed';
  const ran = may('audit:read') ? html`<a href=${href('record', ['run', runId])}>it ran</a>` : 'it ran';
  return html`${ran}, ${how}${durationMs === undefined ? '' : `, in ${milliseconds(durationMs)}`}`;
}

function State({ state }) {
  const [tone, word] = STATES[state] ?? ['grey', state];
  return html`<${Badge} tone=${tone}>${word}<//>`;
}

function Arguments({ approval }) {
  const { redactedArguments: shown, arguments: shape, moreArguments: more, inputTooLarge: bytes } = approval;
  return html`${Fields({ label: 'Arguments', shown, shape }) ?? html`<p class="muted">Without arguments.</p>`}
    <${Hidden} count=${more} one="more argument" />
    ${bytes !== undefined &&
    html`<p class="problem-box">The values are not shown: they are ${bytes} bytes of JSON.</p>`}`;
}

/** Says how many entries the card leaves out: the approver consents to them too. */
function Hidden({ count, one }) {
  if (!count) return null;
  return html`<p class="problem-box">This call has ${plural(count, one)}, which this card does not show.</p>`;
}

/** The answers to the tool's questions, and its state: both belong to a later round of a call. */
function Round({ approval }) {
  const { redactedInputResponses: shown, inputResponses: shape, requestStateBytes: bytes } = approval;
  const state = approval.redactedRequestState;
  if (shape === undefined && bytes === undefined) return null;
  return html`<p>This call continues an earlier one. It also sends answers to questions of the tool:</p>
    ${Fields({ label: 'Answers', shown, shape }) ?? html`<p class="muted">Without answers.</p>`}
    <${Hidden} count=${approval.moreInputResponses} one="more answer" />
    ${bytes !== undefined &&
    html`<dl class="arguments" aria-label="State">
      <dt>state of the tool</dt>
      <dd class=${state === undefined ? 'muted' : ''}>${state ?? html`<bdi>${bytes}</bdi> bytes; the value is not shown here`}</dd>
    </dl>`}`;
}

/** Labelled values if the operator shows them; otherwise their types and sizes. */
function Fields({ label, shown, shape }) {
  if (shown !== undefined && shown !== null && typeof shown === 'object') {
    const entries = Object.entries(shown);
    if (entries.length === 0) return undefined;
    return html`<dl class="arguments" aria-label=${label}>
      ${entries.map(
        ([name, value]) => html`<dt key=${name}>${name}</dt>
          <dd>${typeof value === 'string' ? value : pretty(value)}</dd>`,
      )}
    </dl>`;
  }
  if (!Array.isArray(shape) || shape.length === 0) return undefined;
  return html`<dl class="arguments" aria-label=${`${label}, without their values`}>
    ${shape.map(
      (field) => html`<dt key=${field.name}>${field.name}</dt>
        <dd class="muted"><bdi>${field.type}</bdi>, <bdi>${field.bytes}</bdi> bytes; the value is not shown here</dd>`,
    )}
  </dl>`;
}

/** Warns of words that mix alphabets with similar letters. */
function Mixed({ approval }) {
  const { redactedArguments, redactedInputResponses, arguments: shape, inputResponses, tool } = approval;
  const texts = [redactedArguments, redactedInputResponses, shape, inputResponses, tool?.title];
  const words = mixedWords(JSON.stringify(texts));
  if (words.length === 0) return null;
  return html`<p class="problem-box">
    Letters of different alphabets look alike here:${' '}
    ${words.map(
      ([word, form], at) => html`${at > 0 && ', '}“<bdi>${word}</bdi>” is <code>${form}</code>`,
    )}.
  </p>`;
}

function Votes({ votes }) {
  if (!Array.isArray(votes) || votes.length === 0) return null;
  return html`<ul class="muted" aria-label="Answers">
    ${votes.map(
      (vote, at) => html`<li key=${at}>
        <${Voter} vote=${vote} /> <bdi>${words(vote.verdict)}</bdi>${' '}
        ${vote.at && html`<${Time} at=${vote.at} />`}
        ${vote.comment && html`: “<bdi>${vote.comment}</bdi>”`}
      </li>`,
    )}
  </ul>`;
}

/** Who answered, if the reader may see it. */
function Voter({ vote }) {
  if (vote?.principal === undefined) return html`<bdi class="strong">someone</bdi>`;
  return html`<${Person} name=${vote.principal} style="strong" />`;
}

function words(verdict) {
  return { grant: 'approved', reject: 'rejected', override: 'overrode', withdraw: 'withdrew' }[verdict] ?? verdict;
}

/** Withdraws a grant that no call has used. The `live:approval` event then reloads the list. */
function Withdraw({ approval }) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState();
  const onClick = async () => {
    setBusy(true);
    const address = `/v1/approvals/${encodeURIComponent(approval.approvalId)}`;
    const reply = await send('POST', address, { verdict: 'withdraw' });
    setBusy(false);
    setProblem(reply.problem);
    if (reply.problem === undefined) announce('Withdrawn');
  };
  return html`<${Button} busy=${busy} data-verdict="withdraw" onClick=${onClick}>Withdraw<//>
    ${problem && html`<p role="alert">${problem}</p>`}`;
}

function Decided({ change, who }) {
  const found = useData('/v1/approvals?limit=200', { key: String(change) });
  return html`<${Loaded} of=${found} rows=${8}>
    ${(data) => {
      const list = data.approvals.filter((it) => it.state !== 'pending');
      if (list.length === 0)
        return html`<${Empty} title="No decisions yet">
          <p class="muted">Requests of the last 30 days that you made or could answer are listed here.</p>
        <//>`;
      return html`<div class="table-box" tabindex="0" role="region" aria-label="Decided approvals">
        <table class="table">
          <thead>
            <tr>
              <th>Tool</th><th>Caller</th><th>Result</th><th>Decided</th><th>Answers</th>
              <th><span class="sr">Actions</span></th>
            </tr>
          </thead>
          <tbody>
            ${list.map(
              (it) => html`<tr key=${it.approvalId}>
                <td><${ToolName} name=${nameOf(it)} /></td>
                <td><${Person} name=${it.principal} />${it.principal === who.principal && ' (you)'}</td>
                <td><a href=${href('approvals', [it.approvalId])}><${State} state=${it.state} /></a></td>
                <td><${Time} at=${it.decidedAt ?? it.expiresAt} /></td>
                <td class="wrap"><${Votes} votes=${it.votes} /></td>
                <td>${it.mayWithdraw && html`<${Withdraw} approval=${it} />`}</td>
              </tr>`,
            )}
          </tbody>
        </table>
      </div>`;
    }}
  <//>`;
}


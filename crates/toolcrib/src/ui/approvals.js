// Pending approvals that the holder of this key may decide: a strip below the top bar with one card
// each. The details of a call come from its caller and are shown only as text.
import { h, byId, announce, button, plural } from './dom.js';
import { state, on } from './state.js';
import { approval, approvals, answerApproval, problemText } from './api.js';
import { isObject, jsonBlock } from './json.js';

/** Polling interval while the page is visible. */
const EVERY_MS = 4000;

const offered = document.body.dataset.approvals === 'true';
const cards = new Map();
/** Incremented for each new key: replies for a previous key are dropped. */
let round = 0;
let timer;

export function startApprovals() {
  if (!offered) return;
  on('token', () => restart());
  on('tools', () => {
    if (state.status === 'ready' && timer === undefined) look();
  });
  addEventListener('hashchange', () => follow());
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && timer !== undefined) look();
  });
}

function restart() {
  round += 1;
  clearTimeout(timer);
  timer = undefined;
  cards.clear();
  draw();
}

async function look() {
  clearTimeout(timer);
  if (state.token === '' || state.status !== 'ready') return;
  const mine = round;
  timer = setTimeout(look, EVERY_MS);
  if (document.hidden) return;
  let reply;
  try {
    reply = await approvals();
  } catch {
    return; // the next poll retries
  }
  if (mine !== round) return;
  if (reply.status === 200 && Array.isArray(reply.data?.approvals)) accept(reply.data.approvals);
}

function accept(found) {
  const waiting = found.filter(
    (it) => isObject(it) && typeof it.approvalId === 'string' && (it.mayRespond || it.mayOverride),
  );
  const ids = new Set(waiting.map((it) => it.approvalId));
  for (const [id, card] of cards) if (!ids.has(id) && !card.busy) cards.delete(id);
  const fresh = waiting.filter((it) => !cards.has(it.approvalId));
  for (const it of fresh) cards.set(it.approvalId, createCard(it));
  for (const it of waiting) cards.get(it.approvalId).update(it);
  if (fresh.length > 0) announce(`${plural(fresh.length, 'approval')} to answer`);
  draw();
}

function draw() {
  const host = byId('approvals');
  host.hidden = cards.size === 0;
  const heading = h('h2', { text: plural(cards.size, 'call waits', 'calls wait') + ' for approval' });
  // Replace only changed cards, so that a comment being typed is kept.
  const wanted = [...cards.values()].map((card) => card.element);
  if (host.firstElementChild) host.firstElementChild.replaceWith(heading);
  else host.append(heading);
  for (const element of [...host.children].slice(1)) if (!wanted.includes(element)) element.remove();
  for (const element of wanted) if (element.parentNode !== host) host.append(element);
  follow();
}

/** `#approval=ID` opens its card. */
function follow() {
  const match = /^#approval=([\w-]+)$/.exec(location.hash);
  const card = match ? cards.get(match[1]) : undefined;
  for (const other of cards.values()) other.element.classList.toggle('marked', other === card);
  if (card && !card.met) {
    card.met = true;
    card.element.scrollIntoView({ block: 'nearest' });
    card.element.focus({ preventScroll: true });
  }
}

function createCard(first) {
  const id = first.approvalId;
  const comment = h('input', {
    class: 'input',
    type: 'text',
    maxlength: '1000',
    autocomplete: 'off',
    placeholder: 'Comment',
    'aria-label': 'Comment',
  });
  const progress = h('span', { class: 'muted nowrap' });
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  const more = h('div', {});
  const answers = [
    button('Grant', () => answer('grant'), { class: 'button primary', data: { verdict: 'grant' } }),
    button('Reject', () => answer('reject'), { class: 'button', data: { verdict: 'reject' } }),
  ];
  const override = button('Override', () => answer('override'), {
    class: 'button danger',
    data: { verdict: 'override' },
  });
  const element = h(
    'article',
    { class: 'card approval', tabindex: '-1', data: { approval: id } },
    h(
      'p',
      {},
      h('bdi', { class: 'strong', text: first.principal }),
      ' wants to call ',
      h('bdi', { class: 'mono', text: first.toolId }),
      ' ',
      progress,
    ),
    h('p', { class: 'muted' }, shape(first.arguments)),
    more,
    h('div', { class: 'row' }, comment, answers, override),
    problem,
  );
  const card = { element, busy: false, met: false, update };

  function update(it) {
    const quorum = it.quorum > 1 ? `${it.granted} of ${it.quorum} have approved · ` : '';
    progress.textContent = `${quorum}until ${moment(it.expiresAt)}`;
    for (const one of answers) one.hidden = it.mayRespond !== true;
    override.hidden = it.mayOverride !== true;
  }

  async function answer(verdict) {
    if (card.busy) return;
    const mine = round;
    card.busy = true;
    for (const one of [...answers, override]) one.disabled = true;
    let text;
    try {
      const words = comment.value.trim();
      const reply = await answerApproval(id, { verdict, ...(words === '' ? {} : { comment: words }) });
      if (reply.status !== 200) text = problemText(reply);
    } catch (error) {
      text = `The server could not be reached (${error.message}).`;
    }
    if (mine !== round) return;
    card.busy = false;
    for (const one of [...answers, override]) one.disabled = false;
    problem.hidden = text === undefined;
    problem.textContent = text ?? '';
    if (text === undefined) {
      cards.delete(id);
      draw();
      announce(verdict === 'reject' ? 'Rejected' : 'Granted');
    }
    look();
  }

  // The list has no arguments; a single approval has them, where the operator allows it.
  approval(id).then(
    (reply) => {
      const shown = reply.status === 200 ? reply.data?.redactedArguments : undefined;
      if (shown !== undefined) more.replaceChildren(jsonBlock(shown));
    },
    () => {}, // the shape of the arguments is already shown
  );
  return card;
}

function shape(given) {
  if (!Array.isArray(given) || given.length === 0) return 'without arguments';
  return given.filter(isObject).flatMap((argument, at) => [
    at === 0 ? '' : ', ',
    h('bdi', { class: 'mono', text: argument.name }),
    ` (${argument.type}, ${argument.bytes} bytes)`,
  ]);
}

function moment(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? 'later' : at.toLocaleTimeString();
}

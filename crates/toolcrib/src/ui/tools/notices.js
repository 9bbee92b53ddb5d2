// The content of the right pane when no tool is open: sign in, an overview, a problem.
import { h, button, icon, plural } from '../dom.js';
import { state } from '../state.js';
import { focusToken } from '../auth.js';
import { signInWith } from '../shell/session.js';
import { classification } from './badges.js';

const isApple = /^(Mac|iP)/.test(navigator.platform);

export function notice(title, text, ...actions) {
  return h(
    'div',
    { class: 'card', role: 'alert' },
    h('h2', { text: title }),
    h('p', {}, text),
    h('div', { class: 'row' }, actions),
  );
}

export function signIn() {
  const retry = state.token !== '' && state.status === 'signin';
  return h(
    'div',
    { class: 'card signin', id: 'signin' },
    h('div', { class: 'card-icon' }, icon('key')),
    h('h2', { text: heading(retry) }),
    problem(),
    providers(),
    h('p', {
      text: retry
        ? 'Check that it is complete, and that it has neither expired nor been revoked.'
        : state.providers.length > 0
          ? 'This server shows each caller the tools that caller may use. Agents and scripts use a key:'
          : 'This server shows each caller the tools that caller may use, so it requires a key.',
    }),
    h(
      'ol',
      {},
      h(
        'li',
        {},
        'Get a key from the operator of this server, who creates one with ',
        h('code', { text: 'toolcrib keys create' }),
        '. The keys of ',
        h('code', { text: 'toolcrib serve --demo' }),
        ' are printed by ',
        h('code', { text: 'toolcrib demo keys' }),
        '.',
      ),
      h(
        'li',
        {},
        'Paste it into ',
        h('strong', { text: 'API key' }),
        ' at the top of this page and press ',
        h('strong', { text: 'Use key' }),
        '.',
      ),
    ),
    h('p', {
      class: 'muted',
      text: 'The key stays in this page’s memory. It is sent to this server only, and forgotten when you close or reload the page.',
    }),
    h(
      'div',
      { class: 'row' },
      button(retry ? 'Enter another key' : 'Enter a key', focusToken, {
        class: state.providers.length > 0 ? 'button' : 'button primary',
      }),
    ),
  );
}

function heading(retry) {
  if (retry) return 'This key was not accepted';
  return state.providers.length > 0 ? 'Sign in' : 'Sign in with an API key';
}

/** Why the last sign-in failed: in words, and below it in those of the identity provider. */
function problem() {
  if (state.signInProblem === undefined) return undefined;
  const { text, said } = state.signInProblem;
  return h(
    'div',
    { class: 'verdict bad', role: 'alert', id: 'sign-in-problem' },
    h('p', { text }),
    said ? h('p', { class: 'muted' }, 'The identity provider says: ', h('bdi', { text: said })) : undefined,
  );
}

function providers() {
  if (state.providers.length === 0) return undefined;
  return h(
    'div',
    { class: 'row' },
    state.providers.map(({ issuer, name }) =>
      button(['Sign in with ', h('bdi', { text: name })], () => signInWith(issuer), {
        class: 'button primary',
        data: { provider: issuer },
      }),
    ),
  );
}

export function overview() {
  if (state.status !== 'ready' || state.tools.length === 0) return h('div', { class: 'overview' });
  const sources = new Map();
  for (const tool of state.tools) {
    const { source } = classification(tool);
    if (source !== undefined) sources.set(source, (sources.get(source) ?? 0) + 1);
  }
  const rows = [...sources].sort(([a], [b]) => a.localeCompare(b));
  return h(
    'div',
    { class: 'overview' },
    h('h2', { text: plural(state.tools.length, 'tool') }),
    h('p', {
      class: 'muted',
      text: state.executeEnabled
        ? 'Pick a tool to read its schema, check an input, run it and copy the call.'
        : 'Pick a tool to read its schema and check an input. Execution is switched off on this server.',
    }),
    rows.length === 0
      ? undefined
      : h(
          'dl',
          { class: 'tiles' },
          rows.map(([source, count]) =>
            h('div', {}, h('dt', {}, h('bdi', { text: source })), h('dd', { text: count })),
          ),
        ),
    h(
      'dl',
      { class: 'keys' },
      key(['/'], 'search'),
      key(['↑', '↓'], 'move in the list', ' '),
      key(['Enter'], 'open a tool'),
      key([isApple ? '⌘' : 'Ctrl', 'Enter'], 'execute the open tool', '+'),
    ),
  );
}

/** `between` is a space for alternative keys, `+` for keys that are pressed together. */
function key(names, text, between) {
  const keys = names.flatMap((name, at) => [
    at > 0 ? between : undefined,
    h('kbd', { text: name }),
  ]);
  return h('div', {}, h('dt', {}, keys), h('dd', { text }));
}

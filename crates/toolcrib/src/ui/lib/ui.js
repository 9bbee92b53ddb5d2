// The building blocks of all screens. Text from the server becomes text nodes and attribute values:
// nothing here sets HTML. Invariant (I-53): hidden characters of a text that people read are drawn as
// escapes, because every template is made by `html` of this module.
import {
  Component,
  createContext,
  h,
  html as template,
  render,
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from '../vendor/preact.js';
import { announce, copyText } from '../dom.js';
import { request, problemText } from '../api.js';
import { on, emit } from '../state.js';
import { DANGERS, levelsOf } from './danger.js';
import { readable, visibleText } from './visible.js';

export {
  announce,
  createContext,
  render,
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
};

/** Makes the elements of a template. */
export function html(...parts) {
  return drawn(template(...parts));
}

/** The nodes that `drawn` has made, for inner templates. */
const known = new WeakSet();

/**
 * Copies each node. The template function caches its constant parts, and a cached node, once drawn, would
 * keep alive every element ever shown with it.
 */
function drawn(node) {
  if (typeof node === 'string') return visibleText(node);
  if (Array.isArray(node)) return node.map(drawn);
  if (typeof node !== 'object' || node === null || known.has(node)) return node;
  if (typeof node.props !== 'object' || node.props === null) return node;
  const made = h(node.type, null);
  made.key = node.key;
  made.ref = node.ref;
  // A component draws its texts with its own template.
  const isElement = typeof node.type === 'string';
  for (const [name, value] of Object.entries(node.props)) {
    if (name === 'children') made.props.children = drawn(value);
    else made.props[name] = isElement ? readable(name, value) : value;
  }
  known.add(made);
  return made;
}

/**
 * A part of the page that `draw` updates at once, so that the next line can move the focus in it. Its
 * element is the one with this `ref`; `view` returns the content.
 */
export function part(view) {
  let host;
  const draw = () => host !== undefined && render(view(), host);
  const ref = (element) => {
    if (element === null && host !== undefined) render(null, host);
    host = element ?? undefined;
    draw();
  };
  return { ref, draw, element: () => host };
}

/** A component that is redrawn unless `isSame(before, after)` is true for its properties. */
export function unlessSame(view, isSame) {
  return class extends Component {
    shouldComponentUpdate(after) {
      return !isSame(this.props, after);
    }

    render(props) {
      return view(props);
    }
  };
}

/** The pauses before a failed request is retried, in ms. */
const PAUSES = [2_000, 5_000, 10_000, 30_000];

/** Whether a retry may succeed: no response, a timeout, too many requests, or a server failure. */
const mayPass = (status) => status === 0 || status === 408 || status === 429 || status >= 500;

/**
 * Loads `path`, and reloads it when `key` changes or after a temporary failure. Returns {data, problem,
 * status, good, of, loading, reload}. The last data stays while newer data is loading or cannot be loaded,
 * so that the layout and typed texts stay. `good` is the time when the data was loaded, `of` its path. With
 * `keep` the data stays for another path, too.
 */
export function useData(path, { key = '', enabled = true, keep = false } = {}) {
  const [state, setState] = useState({ loading: true });
  const [turn, setTurn] = useState(0);
  const from = useRef();
  const failures = useRef(0);
  useEffect(() => {
    if (!enabled || path === undefined) return undefined;
    const controller = new AbortController();
    // Data of another address is not shown under this one.
    const same = keep || from.current === path;
    setState((old) => (same ? { ...old, loading: true } : { loading: true }));
    from.current = path;
    let timer;
    const again = () => setTurn((it) => it + 1);
    (async () => {
      let next;
      let wait;
      try {
        const reply = await request('GET', path, { signal: controller.signal });
        wait = reply.retryAfter;
        next =
          reply.status === 200
            ? { data: reply.data, status: 200, good: new Date(), of: path }
            : { problem: problemText(reply), status: reply.status };
      } catch (error) {
        if (controller.signal.aborted) return;
        next = { problem: `The server could not be reached (${error.message}).`, status: 0 };
      }
      if (controller.signal.aborted) return;
      if (mayPass(next.status)) {
        const pause = PAUSES[Math.min(failures.current, PAUSES.length - 1)];
        failures.current += 1;
        timer = setTimeout(again, Math.max(pause, (wait ?? 0) * 1000));
        addEventListener('online', again);
      } else {
        failures.current = 0;
      }
      setState(({ data, good, of }) => ({ data, good, of, ...next, loading: false }));
    })();
    return () => {
      controller.abort();
      clearTimeout(timer);
      removeEventListener('online', again);
    };
  }, [path, key, turn, enabled]);
  return { ...state, reload: () => setTurn((it) => it + 1) };
}

/** Sends a change. Returns {data} or {problem, status}. */
export async function send(method, path, body) {
  try {
    const reply = await request(method, path, {
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (reply.status >= 200 && reply.status < 300) return { data: reply.data, status: reply.status };
    return { problem: problemText(reply), status: reply.status, data: reply.data };
  } catch (error) {
    return { problem: `The server could not be reached (${error.message}).`, status: 0 };
  }
}

/** Calls `listener` at each of the events, while the component is shown. */
export function useEvents(names, listener) {
  const last = useRef();
  last.current = listener;
  useEffect(() => {
    const ends = names.map((name) => on(name, (value) => last.current(value)));
    return () => ends.forEach((end) => end());
  }, [names.join(' ')]);
}

/** Draws again every `ms`, for relative times. */
export function useTick(ms = 30_000) {
  const [, setTurn] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTurn((it) => it + 1), ms);
    return () => clearInterval(timer);
  }, [ms]);
}

const UNITS = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
];
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });

/** "3 minutes ago", "in 2 days". */
export function ago(date, now = Date.now()) {
  const seconds = (date.getTime() - now) / 1000;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 1];
  return relative.format(Math.trunc(seconds / size), unit);
}

let areAbsolute = false;

/** Whether times are shown as dates with the zone. */
export function useAbsoluteTimes() {
  const [, setTurn] = useState(0);
  useEffect(() => on('times', () => setTurn((it) => it + 1)), []);
  return areAbsolute;
}

export function setAbsoluteTimes(value) {
  areAbsolute = value;
  emit('times');
}

/** "26 Nov 2026, 21:20:03 UTC", in the words of the browser's language. */
export function dated(date) {
  return date.toLocaleString(undefined, {
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    timeZoneName: 'short',
  });
}

/** A relative time with the absolute one as its title, or the absolute one if the user wants that. */
export function Time({ at, fallback = 'never' }) {
  const absolute = useAbsoluteTimes();
  const date = new Date(at ?? NaN);
  if (Number.isNaN(date.getTime())) return html`<span class="muted">${fallback}</span>`;
  return html`<time datetime=${date.toISOString()} title=${dated(date)}>${absolute ? dated(date) : ago(date)}</time>`;
}

/** A badge: colour and word. Tones: grey, green, red, amber, blue, violet. */
export function Badge({ tone = 'grey', children }) {
  return html`<span class=${`badge ${tone}`}>${children}</span>`;
}

const ICONS = {
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 1.4M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z',
  back: 'M15 5l-7 7 7 7',
  close: 'M6 6l12 12M18 6L6 18',
  plus: 'M12 5v14M5 12h14',
  // Each danger level has a distinct shape, so that it does not depend on colour.
  read: 'M12 6a6 6 0 1 0 0 12 6 6 0 0 0 0-12',
  write: 'M12 5l8 14H4Z',
  destructive: 'M8.5 3.5h7l5 5v7l-5 5h-7l-5-5v-7ZM9 9l6 6M15 9l-6 6',
  exec: 'M4 5h16v14H4ZM8 10l2.5 2L8 14M13 15h3',
  filter: 'M4 5h16l-6 8v6l-4-2v-4Z',
  clock: 'M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16M12 8v4.5l3 2',
  key: 'M8 11.5a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4M11 12.5L20 3.5M15.5 8l3.5 3.5',
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;
}

/** A level of danger: a shape with its word. */
export function Level({ of }) {
  const { word, tone } = DANGERS[of];
  return html`<span class=${`level ${tone}`} data-danger=${of}><${Icon} name=${of} />${word}</span>`;
}

/** How dangerous a tool is: shapes and words. */
export function Danger({ tier, destructive = false }) {
  const levels = levelsOf(tier, destructive);
  if (levels.length === 0) return html`<${Badge}>${tier ?? 'unknown'}<//>`;
  return levels.map((level) => html`<${Level} key=${level} of=${level} />`);
}

export function Button({ kind = '', busy = false, disabled = false, children, ...props }) {
  return html`<button type="button" class=${`button ${kind}`} disabled=${disabled || busy}
    aria-busy=${busy ? 'true' : undefined} ...${props}>${children}</button>`;
}

/** Keeps the size of what is loading. */
export function Skeleton({ rows = 6 }) {
  return html`<div class="skeleton" role="status" aria-label="Loading">
    ${Array.from({ length: rows }, (_, at) => html`<div class="ghost" key=${at}></div>`)}
  </div>`;
}

/** An empty state: its reason, and the next step. */
export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

/** A problem, and a button that retries. */
export function Problem({ text, retry }) {
  return html`<div class="problem-box" role="alert">
    <p><${ServerText} text=${text} /></p>
    ${retry && html`<${Button} onClick=${retry}>Try again<//>`}
  </div>`;
}

/** A text of the server, with code between backticks. */
export function ServerText({ text }) {
  return text
    .split(/`([^`\n]+)`/)
    .map((part, at) => (at % 2 === 1 ? html`<code key=${at}>${part}</code>` : html`${part}`));
}

/** Shows since when the content is not current. */
export function Stale({ of }) {
  const since = of.good?.toLocaleTimeString(undefined, { timeStyle: 'short' });
  return html`<p class="stale" role="status">Not current since ${since}, trying again. ${of.problem}</p>`;
}

/** Shows the content of `useData`, or its state. With `keeps`, the content stays if a request is invalid. */
export function Loaded({ of, rows, keeps = false, children }) {
  const isStale = mayPass(of.status);
  // Always both, so that the content stays the same elements when it becomes stale.
  if (of.data !== undefined && (of.status === 200 || isStale || (keeps && of.status === 400)))
    return html`${isStale && html`<${Stale} of=${of} />`}${children(of.data)}`;
  if (of.problem !== undefined) return html`<${Problem} text=${of.problem} retry=${of.reload} />`;
  return html`<${Skeleton} rows=${rows} />`;
}

/** A button that copies `text`, or the result of the function `text` at the click. */
export function Copy({ text, label = 'Copy', ...props }) {
  const [word, setWord] = useState(label);
  const timer = useRef();
  const onClick = async () => {
    const done = await copyText(typeof text === 'function' ? text() : text);
    setWord(done ? 'Copied!' : 'Copy failed');
    announce(done ? 'Copied to the clipboard' : 'The browser blocked the clipboard');
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setWord(label), 1500);
  };
  return html`<button type="button" class="quiet" onClick=${onClick} ...${props}>${word}</button>`;
}

/**
 * Opens a dialog as modal. Escape, a click outside of it and the returned `close` close it; `props` are for
 * the element. `onClose` is called at once: the `close` event of a dialog comes later, when another dialog
 * may be open.
 */
export function useModal(onClose) {
  const ref = useRef();
  useLayoutEffect(() => {
    ref.current.showModal();
  }, []);
  const close = () => {
    ref.current.close();
    onClose();
  };
  const props = {
    ref,
    onCancel: (event) => {
      event.preventDefault();
      close();
    },
    // A browser may close a dialog without `cancel`.
    onClose: (event) => event.target.isConnected && onClose(),
    onClick: (event) => event.target === ref.current && close(),
  };
  return { close, props };
}

/** A modal dialog. */
export function Dialog({ title, onClose, children, wide = false }) {
  const { close, props } = useModal(onClose);
  return html`<dialog class=${`dialog ${wide ? 'wide' : ''}`} aria-label=${title} ...${props}>
    <div class="dialog-body">
      <div class="dialog-head">
        <h2>${title}</h2>
        <button type="button" class="quiet" onClick=${close}>Close</button>
      </div>
      ${children}
    </div>
  </dialog>`;
}

/** `a`, `a and b`, `a, b and c`. */
export function listed(parts) {
  return parts.map((part, at) => [at === 0 ? '' : at === parts.length - 1 ? ' and ' : ', ', part]);
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** A number with thin spaces between groups of digits. */
export function number(value) {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, '\u2009');
}

export function milliseconds(ms) {
  if (ms === undefined || ms === null) return '–';
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

// The query of the record: `actor:ada tool:files__* status:denied`, and the events that match it.

export const FIELDS = ['actor', 'tool', 'source', 'type', 'status', 'run', 'id'];

/** Returns {terms, problem}: each term is [field, value]; a word without a field is an id. */
export function parse(text) {
  const terms = [];
  for (const word of text.trim().split(/\s+/)) {
    if (word === '') continue;
    const at = word.indexOf(':');
    const field = at > 0 ? word.slice(0, at) : '';
    if (FIELDS.includes(field)) {
      if (at + 1 < word.length) terms.push([field, word.slice(at + 1)]);
    } else if (/^[a-z]+$/.test(field)) {
      return { terms, problem: `There is no field “${field}”. Fields: ${FIELDS.join(', ')}.` };
    } else {
      terms.push(['id', word]);
    }
  }
  return { terms };
}

/** Returns the facts of an entry of the record; `actors` has the principal of each call. */
export function facts({ event }, actors) {
  const { payload } = event;
  const tool = payload.toolName ?? payload.toolId ?? '';
  return {
    actor: payload.principal ?? actors.get(payload.callId) ?? '',
    tool,
    source: /^[a-z-]+:([^.]+)\./.exec(tool)?.[1] ?? '',
    type: event.type,
    status: status(event),
    code: payload.error?.code ?? '',
    run: event.runId,
    ids: [event.eventId, event.runId, payload.callId, payload.sessionId, payload.approvalId].filter(Boolean),
    ms: payload.durationMs,
    at: event.timestamp,
  };
}

/** Returns the status of a call that has ended, or of a denial. */
function status({ type, payload }) {
  if (type === 'agent.toolReturned') return payload.status;
  if (type === 'authorization.decided') return 'denied';
  return '';
}

const isDenied = (it) => ['forbidden', 'rate_limited', 'denied'].includes(it);

export function matches(fact, terms) {
  return terms.every(([field, value]) => {
    if (field === 'id') return fact.ids.some((id) => id.startsWith(value));
    if (field === 'status') {
      if (value === 'denied') return isDenied(fact.status);
      if (value === 'failed') return fact.status === 'error';
      return fact.status === value || fact.code === value;
    }
    if (field === 'tool') return [fact.tool, wire(fact.tool)].some((name) => fits(name, value));
    return fits(fact[field], value);
  });
}

/** Returns the name that callers use for a tool id such as `mcp:files.read`. */
export function wire(id) {
  return id.replace(/^[a-z-]+:/, '').replace('.', '__');
}

/** `*` stands for any text. */
function fits(text, pattern) {
  if (!pattern.includes('*')) return text === pattern;
  const parts = pattern.split('*');
  if (!text.startsWith(parts[0]) || !text.endsWith(parts.at(-1))) return false;
  let at = parts[0].length;
  for (const part of parts.slice(1, -1)) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= text.length - parts.at(-1).length;
}

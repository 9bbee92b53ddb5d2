// The parts of an upstream that reach no caller, in the words of `toolcrib sources list`.
import { plural } from '../lib/ui.js';

/** A list whose number may be a lower bound. */
function entries(amount, one, many) {
  if (!amount || (amount.count === 0 && amount.complete)) return undefined;
  if (amount.count === 0) return `${many} (not counted)`;
  return `${amount.complete ? '' : 'at least '}${plural(amount.count, one, many)}`;
}

/** `3 resources, instructions (120 characters)` */
export function notOffered(parts) {
  const { resources, resourceTemplates, prompts, instructions, serverIcons, toolIcons, toolMeta } = parts;
  const tools = (count, what) => (count > 0 ? `${what} of ${plural(count, 'tool')}` : undefined);
  return [
    entries(resources, 'resource', 'resources'),
    entries(resourceTemplates, 'resource template', 'resource templates'),
    entries(prompts, 'prompt', 'prompts'),
    instructions > 0 ? `instructions (${plural(instructions, 'character')})` : undefined,
    serverIcons ? 'icons of the server' : undefined,
    tools(toolIcons, 'icons'),
    tools(toolMeta, '_meta'),
  ].filter(Boolean).join(', ');
}

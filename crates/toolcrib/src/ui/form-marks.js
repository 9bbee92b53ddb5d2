// Errors and focus in a form, by JSON pointer. `context.fields` maps a pointer to its row.

/** Removes the state of the fields below a path, before they are drawn again. */
export function forget(context, path) {
  for (const map of [context.fields, context.problems]) {
    for (const key of map.keys()) if (key.startsWith(`${path}/`)) map.delete(key);
  }
}

export function mark(target, message) {
  if (!target) return;
  target.slot.hidden = message === undefined;
  target.slot.textContent = message ?? '';
  target.wrap.classList.toggle('invalid', message !== undefined);
  if (!target.input) return;
  if (message === undefined) {
    target.input.removeAttribute('aria-invalid');
    target.input.removeAttribute('aria-describedby');
  } else {
    target.input.setAttribute('aria-invalid', 'true');
    target.input.setAttribute('aria-describedby', target.slot.id);
  }
}

function nearest(context, path) {
  for (let at = path; at !== ''; at = at.slice(0, at.lastIndexOf('/'))) {
    if (context.fields.has(at)) return context.fields.get(at);
  }
  return undefined;
}

export function showErrors(context, errors) {
  for (const [path, target] of context.fields) mark(target, context.problems.get(path));
  const byField = new Map();
  for (const { path, message } of errors) {
    const target = nearest(context, path);
    if (target) byField.set(target, [...(byField.get(target) ?? []), message]);
  }
  for (const [target, messages] of byField) mark(target, messages.join('\n'));
}

/** Focuses the field at a path; adds it first when it is an absent optional one. */
export function focusPath(context, path) {
  if (!context.fields.has(path)) {
    const key = path.slice(1);
    const add = [...document.querySelectorAll('[data-add]')].find(
      (chip) => chip.dataset.add === key && chip.offsetParent !== null,
    );
    if (add) return add.click();
  }
  return nearest(context, path)?.focus();
}

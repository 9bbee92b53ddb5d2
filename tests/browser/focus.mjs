// The way of the focus through a page, for people without a pointer: each stop has to be visible and in the window.

/** A page with more stops is a trap. */
export const MOST_STOPS = 250;

/** Runs in the page: what is wrong with the present focus. */
export function stop() {
  const it = document.activeElement;
  if (!it || it === document.body || it === document.documentElement) return { body: true };
  it.dataset.visited = 'true';
  const name = `${it.tagName.toLowerCase()}${it.id ? `#${it.id}` : ''}.${it.className} “${it.textContent.trim().slice(0, 30)}”`;
  const drawn = (element) => {
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
  };
  const around = [it, it.closest('label, .joined, .search, .segmented > *')].filter(Boolean);
  // The browser draws the ring of the button inside such a field, where no style of the page reaches.
  const inner = /^(date|time)/.test(it.type ?? '') && !it.matches(':focus-visible');
  if (!inner && !around.some(drawn)) return { name, problem: `${name} has the focus, and nothing shows it` };
  const box = (around.find(drawn) ?? it).getBoundingClientRect();
  const [left, right] = [Math.max(box.left, 0), Math.min(box.right, innerWidth)];
  const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, innerHeight)];
  if (right - left < 2 || bottom - top < 2)
    return { name, problem: `${name} has the focus outside of the window` };
  const points = [0.1, 0.5, 0.9].map((share) => [left + (right - left) * share, top + (bottom - top) / 2]);
  points.push([(left + right) / 2, top + 2], [(left + right) / 2, bottom - 2]);
  const seen = points.some(([x, y]) => {
    const at = document.elementFromPoint(x, y);
    return at && (around.some((own) => own.contains(at)) || at.contains(it));
  });
  return { name, problem: seen ? undefined : `${name} has the focus behind something else` };
}

/** Presses Tab until an element that matches has the focus. */
export async function tabTo(page, selector, key = 'Tab') {
  const way = [];
  for (let stops = 0; stops < MOST_STOPS; stops += 1) {
    if (await page.evaluate((it) => document.activeElement?.matches(it) === true, selector)) return;
    await page.keyboard.press(key);
    const at = await page.evaluate(stop);
    if (at.problem) throw new Error(at.problem);
    way.push(at.name ?? 'the browser');
  }
  throw new Error(`${selector} is not reached: ${way.slice(0, 40).join(', ')}`);
}

// Functions that run in the page and return what is wrong with its layout, as a list of texts.

/** What is cut off or out of reach at the present size of the window. */
export function outOfSight() {
  const found = [];
  const name = (element) => {
    const id = element.id ? `#${element.id}` : '';
    const kind = typeof element.className === 'string' ? element.className.trim().split(/\s+/)[0] : '';
    return `${element.tagName.toLowerCase()}${id}${kind ? `.${kind}` : ''} “${element.textContent.trim().slice(0, 30)}”`;
  };
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) found.push(`the page scrolls ${root.scrollWidth - innerWidth} px sideways`);
  const dialog = document.querySelector('dialog[open]');
  const hasText = (element) =>
    [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '');
  const scrolls = (value) => value === 'auto' || value === 'scroll';
  for (const element of document.querySelectorAll('body *')) {
    if (dialog && !dialog.contains(element)) continue;
    if (!element.matches('a, button, input, select, textarea, summary, img, svg') && !hasText(element)) continue;
    if (element.closest('.sr, .skip, svg *, [aria-hidden="true"], noscript, option, datalist')) continue;
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) continue;
    const style = getComputedStyle(element);
    // A text in one line with an ellipsis is there in full elsewhere: its title or the opened thing.
    let shortened = style.textOverflow === 'ellipsis';
    let [x, y] = [false, false]; // whether something above scrolls in this direction
    let fixed = style.position === 'fixed';
    if (!scrolls(style.overflowX) && style.overflowX !== 'visible' && !shortened && element.scrollWidth > element.clientWidth + 1 && !element.matches('input, select, textarea, img, svg'))
      found.push(`${name(element)} is cut off by itself`);
    for (let up = element.parentElement; up && up !== document.body && !fixed; up = up.parentElement) {
      const outer = getComputedStyle(up);
      shortened ||= outer.textOverflow === 'ellipsis';
      x ||= scrolls(outer.overflowX);
      y ||= scrolls(outer.overflowY);
      const around = up.getBoundingClientRect();
      if (!x && !shortened && outer.overflowX !== 'visible' && (box.right > around.right + 1 || box.left < around.left - 1))
        found.push(`${name(element)} is cut off sideways by ${name(up)}`);
      if (!y && outer.overflowY !== 'visible' && (box.bottom > around.bottom + 1 || box.top < around.top - 1))
        found.push(`${name(element)} is cut off by ${name(up)}`);
      fixed = outer.position === 'fixed';
      if (up === dialog) break;
    }
    if (!x && (box.right > innerWidth + 1 || box.left < -1))
      found.push(`${name(element)} is outside of the window: from ${box.left} to ${box.right}`);
    // What is fixed in the window does not come into it by scrolling the page.
    if (fixed && !y && (box.bottom > innerHeight + 1 || box.top < -1))
      found.push(`${name(element)} is out of reach: from ${box.top} to ${box.bottom}`);
  }
  return [...new Set(found)].slice(0, 6);
}

/** Movement although the user asked for none, and an order of the focus that is not that of the page. */
export function shapes() {
  const found = [];
  const longest = (text) => Math.max(...text.split(',').map((it) => parseFloat(it) || 0));
  for (const animation of document.getAnimations())
    if (animation.playState === 'running') found.push(`an animation runs: ${animation.animationName ?? animation.transitionProperty}`);
  for (const element of document.querySelectorAll('*')) {
    const { transitionDuration, animationDuration, animationName, order, flexDirection } = getComputedStyle(element);
    const at = `${element.tagName.toLowerCase()}.${element.className}`;
    if (longest(transitionDuration) > 0) found.push(`${at} has a transition of ${transitionDuration}`);
    if (animationName !== 'none' && longest(animationDuration) > 0) found.push(`${at} is animated for ${animationDuration}`);
    // The focus follows `order` where the container says so.
    const follows = getComputedStyle(element.parentElement ?? element).readingFlow === 'flex-visual';
    const focusable = element.querySelector('a, button, input, select, textarea');
    if (focusable && ((order !== '0' && !follows) || flexDirection.endsWith('reverse')))
      found.push(`${at} is shown in another order than that of the focus`);
    if (element.tabIndex > 0) found.push(`${at} has a place of its own in the order of the focus`);
  }
  return [...new Set(found)].slice(0, 6);
}

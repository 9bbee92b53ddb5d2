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
  // What belongs to the bar at the top stays in it.
  const top = document.querySelector('header.top');
  for (const part of dialog || top === null ? [] : top.querySelectorAll('a:not(.menu *), button:not(.menu *), input:not(.menu *), h1')) {
    const [box, bar] = [part.getBoundingClientRect(), top.getBoundingClientRect()];
    if (box.height > 0 && (box.top < bar.top - 1 || box.bottom > bar.bottom + 1)) found.push(`${name(part)} is outside of the bar at the top`);
  }
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
    const cell = element.closest('td, th')?.getBoundingClientRect();
    if (cell && !shortened && box.right > cell.right + 8) found.push(`${name(element)} breaks out of its cell`);
    // Something else, which is not a bar that stays in the window, lies over the middle of a control.
    if (element.matches('a, button, input:not([type=radio]), select, textarea, summary') && !x && !y) {
      const [across, down] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
      const over = document.elementFromPoint(across, down);
      let bar = over;
      while (bar && !/^(sticky|fixed|absolute)$/.test(getComputedStyle(bar).position)) bar = bar.parentElement;
      if (over && !element.contains(over) && !over.contains(element) && !bar) found.push(`${name(element)} is under ${name(over)}`);
    }
    if (!x && !shortened && (box.right > innerWidth + 1 || box.left < -1))
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

/** Elements, attributes and links that only markup from the server can have made. */
export function planted() {
  // The page places the rows of its virtual lists itself.
  const isPlace = (style) => /^((height|transform|top): (\d+px|translateY\(\d+px\));? ?)+$/.test(style);
  const attributes = [...document.querySelectorAll('body *')].flatMap((element) =>
    element
      .getAttributeNames()
      .filter((name) => name.startsWith('on') || (name === 'style' && !isPlace(element.getAttribute('style'))))
      .map((name) => `${element.tagName} has ${name}`),
  );
  const links = [...document.querySelectorAll('a[href]')]
    .map((link) => link.getAttribute('href'))
    .filter((href) => !/^(#|https?:)/.test(href));
  const elements = [...document.querySelectorAll('body script, body iframe, body object, body embed, body base, body form[action], svg script')];
  return [...attributes, ...links, ...elements.map(({ tagName }) => tagName)].slice(0, 6);
}

/** Texts of the other direction that turn what is around them: each has to be in an element that isolates it. */
export function unisolated() {
  const strong = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode()); ) {
    if (!strong.test(node.data) || !node.parentElement.checkVisibility()) continue;
    let at = node.parentElement;
    const isolates = (it) => /isolate|plaintext/.test(getComputedStyle(it).unicodeBidi) || getComputedStyle(it).display !== 'inline';
    while (at !== document.body && !isolates(at)) at = at.parentElement;
    // Alone in its block it turns nothing but itself.
    const alone = at.textContent.trim() === node.data.trim();
    const isOwn = /isolate|plaintext/.test(getComputedStyle(at).unicodeBidi) && at.matches('bdi, code, pre, span');
    if (!alone && !isOwn) found.push(`${at.tagName.toLowerCase()}.${at.className} has “${node.data.trim().slice(0, 20)}” among other texts`);
  }
  return [...new Set(found)].slice(0, 6);
}

/** Texts and labels with invisible characters, or characters that change the direction of text. */
export function unseen() {
  const hidden = /(?![\n\r\t])[\p{Cc}\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e0fff}]/u;
  const place = (element) => `${element.tagName.toLowerCase()}.${element.className}`;
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode()); )
    if (hidden.test(node.data)) found.push(`a text in ${place(node.parentElement)} has a hidden character`);
  for (const element of document.querySelectorAll('[title], [aria-label], [placeholder], [alt]'))
    for (const name of ['title', 'aria-label', 'placeholder', 'alt'])
      if (hidden.test(element.getAttribute(name) ?? '')) found.push(`${name} of ${place(element)} has a hidden character`);
  return [...new Set(found)].slice(0, 6);
}

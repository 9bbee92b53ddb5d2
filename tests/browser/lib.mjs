// Shared by all browser tests: a Chromium, a page that reports all errors, checks that print one
// line each, and an exit code.
import { chromium } from 'playwright-core';
import { checkReads } from './described.mjs';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
// Chromium logs these statuses as errors, although a check provokes them on purpose.
const EXPECTED =
  /^Failed to load resource: the server responded with a status of (400|401|403|404|409|429|500|502|503)\b/;

export async function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: FLAGS,
  });
}

/** Violations of the content security policy on any page of the script; one fails the script. */
const violations = [];

/** A fresh page (own storage) with `complaints`: console errors, exceptions, policy violations. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const complaints = [];
  page.on('console', (message) => {
    if (message.type() === 'error' && !EXPECTED.test(message.text()))
      complaints.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => complaints.push(`exception: ${error.message}`));
  await page.exposeFunction('reportViolation', (text) => {
    complaints.push(`policy: ${text}`);
    violations.push(`${text} at ${page.url()}`);
  });
  await page.addInitScript(watchPolicy);
  await page.addInitScript(findModules);
  await checkReads(context, (text) => complaints.push(`API: ${text}`));
  return { page, complaints, close: () => context.close() };
}

/** Gives the page `moduleOf(path, file)`: a module by its path, from the file of the page that it is joined into. */
function findModules() {
  window.moduleOf = async (path, file = 'app.js') => {
    const { src } = document.querySelector('script[type=module]');
    const modules = await import(src.replace(/[^/]*$/, file));
    return modules[`$${path.replace(/[^A-Za-z0-9]/g, '_')}`];
  };
}

/** Makes the next page that is opened signed in, with a session of a key. */
export async function startSession(page, origin, key) {
  const headers = { Authorization: `Bearer ${key}`, Origin: origin };
  const made = await page.request.post(`${origin}/v1/sessions`, { headers });
  const { secret } = await made.json();
  await page.addInitScript((it) => localStorage.setItem('toolcrib-session', it), secret);
}

/** Signs in to the open page of a gateway with a key. */
export async function signIn(page, key) {
  await page.fill('#token', key);
  await page.press('#token', 'Enter');
  await page.waitForSelector('.section');
}

/** Runs in the page: reports violations, also those that a document had before a listener. */
function watchPolicy() {
  document.addEventListener('securitypolicyviolation', (event) => {
    window.reportViolation(`${event.effectiveDirective} blocked ${event.blockedURI}`);
  });
  const reports = new ReportingObserver(
    (list) => {
      for (const { body } of list)
        window.reportViolation(`${body.effectiveDirective} blocked ${body.blockedURL}`);
    },
    { types: ['csp-violation'], buffered: true },
  );
  reports.observe();
}

/**
 * Counts what a person does on this page from now on: each press of the pointer, each key that
 * activates something, and two for a choice in a list (open, choose). Call it once for a page, and
 * enter text with `type`, which presses into the field unless the page has put the focus there.
 */
export async function countClicks(page) {
  let clicks = 0;
  await page.exposeFunction('countClick', (more) => {
    clicks += more;
  });
  const listen = () => {
    const count = (event, more = 1) => event.isTrusted && window.countClick(more);
    const isText = (element) => element.matches?.('input, textarea, [contenteditable]');
    addEventListener('pointerdown', (event) => count(event), true);
    addEventListener(
      'keydown',
      (event) => {
        if (event.key === 'Enter' || (event.key === ' ' && !isText(event.target))) count(event);
      },
      true,
    );
    // Chosen by the test, without a press of the pointer.
    addEventListener('change', ({ target }) => target.matches('select') && window.countClick(2), true);
  };
  await page.addInitScript(listen);
  await page.evaluate(listen);
  return {
    /** The number of clicks until now. */
    count: async () => {
      await page.evaluate(() => undefined); // the reports of earlier clicks arrive before this
      return clicks;
    },
    type: async (selector, text) => {
      const field = page.locator(selector).first();
      await field.waitFor();
      if (!(await field.evaluate((it) => it === document.activeElement))) await field.click();
      await page.keyboard.type(text);
    },
  };
}

/** Waits until `look` returns a value, and returns it. */
export async function until(what, look) {
  for (let tries = 0; tries < 300; tries += 1) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`not in time: ${what}`);
}

let passed = 0;
let failed = 0;

/** Runs one check, which fails by throwing. */
export async function check(name, body) {
  try {
    await body();
    passed += 1;
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}: ${String(error.message).split('\n').slice(0, 4).join(' | ')}`);
  }
}

export function equal(actual, expected, what = 'value') {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${what} is ${a}, expected ${b}`);
}

export function truthy(value, what) {
  if (!value) throw new Error(what);
}

/** Requires that no page violated its policy, prints the totals as the last line, and exits. */
export async function finish() {
  await check('no page of this script violated its content security policy', () =>
    equal(violations, [], 'violations'),
  );
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed === 0 && passed > 0 ? 0 : 1);
}

// Shared by both browser tests: a Chromium, a page that reports all errors, checks that print one
// line each, and an exit code.
import { chromium } from 'playwright-core';

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
  /^Failed to load resource: the server responded with a status of (400|401|403|404|429|500|502|503)\b/;

export async function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: FLAGS,
  });
}

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
  await page.exposeFunction('reportViolation', (text) => complaints.push(`policy: ${text}`));
  await page.addInitScript(() =>
    document.addEventListener('securitypolicyviolation', (event) => {
      window.reportViolation(`${event.effectiveDirective} blocked ${event.blockedURI}`);
    }),
  );
  return { page, complaints, close: () => context.close() };
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

/** Prints the totals as the last line and exits. */
export function finish() {
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed === 0 && passed > 0 ? 0 : 1);
}

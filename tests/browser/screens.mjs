// The screens and roles of the console, in one table that a new screen joins: `roles.mjs` opens each
// of them as each role, `oracle.mjs` compares what they show with the API, and `accessibility.mjs`
// and `picture.mjs` go through their states.
import { check, equal, openPage, signIn } from './lib.mjs';

const keys = {
  admin: process.env.TOOLCRIB_KEY_ADMIN,
  caller: process.env.TOOLCRIB_KEY_READER,
  approver: process.env.TOOLCRIB_KEY_APPROVER,
  other: process.env.TOOLCRIB_KEY_OTHER_TENANT,
};
export const url = process.env.TOOLCRIB_URL?.replace(/\/$/, '');
if (!url || Object.values(keys).some((key) => !key)) {
  console.error('TOOLCRIB_URL and the keys are not set: take them from demo.json');
  process.exit(2);
}
export const explorer = `${url}/explorer`;

/**
 * The roles: the scopes that the key of each has, and the tenant. `anonymous` has no key. The demo
 * has the other keys, except that of the auditor, which `startRoles` makes.
 */
export const ROLES = {
  caller: { tenant: 'demo', scopes: ['demo:read'] },
  approver: { tenant: 'demo', scopes: ['approvals:respond'] },
  auditor: { tenant: 'demo', scopes: ['audit:read', 'sources:read'] },
  admin: { tenant: 'demo', scopes: ['*', 'metrics:all', 'pins:approve'] },
  other: { tenant: 'other', scopes: ['*'] },
  anonymous: { scopes: [] },
};
export const SIGNED_IN = Object.keys(ROLES).filter((role) => role !== 'anonymous');

/**
 * The screens. `scope` is what a screen requires, `address` where it is, `ready` what it shows once it
 * is loaded, and `letter` opens it after `g`.
 */
export const SCREENS = [
  { id: 'tools', name: 'Tools', letter: 't', address: '#', ready: '#tools :is(button.item, .empty, .notice):not(#loading)' },
  { id: 'approvals', name: 'Approvals', letter: 'a', address: '#/approvals' },
  { id: 'record', name: 'Record', letter: 'r', address: '#/record', scope: 'audit:read' },
  { id: 'sources', name: 'Sources', letter: 's', address: '#/sources', scope: 'sources:read' },
  { id: 'access', name: 'Access', letter: 'k', address: '#/access', scope: 'keys:manage' },
  { id: 'connections', name: 'Connections', letter: 'o', address: '#/connections' },
  { id: 'connect', name: 'Connect', letter: 'c', address: '#/connect' },
];

/** Returns whether a role may open a screen. */
export function opens(role, { scope }) {
  const { scopes } = ROLES[role];
  return role !== 'anonymous' && (scope === undefined || scopes.includes('*') || scopes.includes(scope));
}

export const keyOf = (role) => keys[role];

/** Sends a request to the server directly, as a role, and returns the status and the body. */
export async function ask(role, path, body, method = body === undefined ? 'GET' : 'POST') {
  const headers = { 'Content-Type': 'application/json' };
  if (keys[role] !== undefined) headers.Authorization = `Bearer ${keys[role]}`;
  const reply = await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(body) });
  const text = await reply.text();
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    data = undefined;
  }
  return { status: reply.status, text, data };
}
export const callTool = (role, name, input) =>
  ask(role, `/explorer/tools/${encodeURIComponent(name)}/call`, input);

/** Asks for an approval by a call that requires one; returns its id. */
export async function askForApproval(role, target) {
  const { data } = await callTool(role, 'demo__wipe', { target });
  return data.details.approvalId;
}

/** Makes the keys that the demo does not have. */
export async function startRoles() {
  const made = await ask('admin', '/v1/keys', { name: 'auditor', scopes: ROLES.auditor.scopes });
  if (made.status !== 201) throw new Error(`no key for the auditor: ${made.status} ${made.text}`);
  keys.auditor = made.data.key;
}

const complaints = [];

/** Opens the page as a role at an address; `before` prepares the page, such as with routes. */
export async function as(browser, role, address = '', { before, ...options } = {}) {
  const opened = await openPage(browser, options);
  const { page } = opened;
  await before?.(page);
  await page.goto(`${explorer}${address}`);
  if (role !== 'anonymous') await signIn(page, keys[role]);
  return {
    page,
    close: () => {
      complaints.push(...opened.complaints);
      return opened.close();
    },
  };
}

/** Goes to an address of the open page, as a link would. */
export const goTo = (page, address) =>
  page.evaluate((it) => {
    location.hash = it;
  }, address);

/** Waits until a screen is open and has loaded its data. */
export async function settled(page, { id, ready }) {
  await page.waitForFunction((it) => document.body.dataset.section === it, id);
  await page.waitForSelector(ready ?? '#screen:not([aria-busy="true"]) h2');
  await page.waitForFunction(() => !document.querySelector('.skeleton'));
}

/** The last check of a script: no page logged an error or threw. */
export const checkComplaints = () =>
  check('no error or exception was reported', () => equal(complaints, [], 'complaints'));

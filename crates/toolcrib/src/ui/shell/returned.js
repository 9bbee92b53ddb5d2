// The return from a service at which a person connects an account: the response is in the fragment of the
// address, with a code that works once.
//
// Invariant: the response leaves the address and the history before anything else happens. It is kept in the
// sessionStorage of this tab, because the person may have to sign in here again, and is taken from there once.

const KEPT = 'toolcrib-returned';
const RETURNED = /^#\/connected\?(.*)$/s;

/** Where the browser blocks the storage, the response survives only while the page stays open. */
let kept = null;

export function startReturn() {
  keep();
  // Before the listeners of the screens.
  addEventListener('hashchange', keep);
}

function keep() {
  const response = RETURNED.exec(location.hash)?.[1];
  if (response === undefined) return;
  history.replaceState(null, '', `${location.pathname}${location.search}#/connected`);
  kept = response;
  try {
    sessionStorage.setItem(KEPT, response);
  } catch {
    // `kept` has it.
  }
}

/** The parameters of the response; undefined if there is none, or it was taken before. */
export function takeResponse() {
  let response = kept;
  kept = null;
  try {
    response ??= sessionStorage.getItem(KEPT);
    sessionStorage.removeItem(KEPT);
  } catch {
    // `kept` had it.
  }
  return response === null ? undefined : new URLSearchParams(response);
}

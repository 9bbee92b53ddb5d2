// Runs before the first paint, so that a stored theme does not flash. Not a module for that reason.
(function () {
  try {
    const stored = localStorage.getItem('mcp-ui-theme');
    if (stored === 'light' || stored === 'dark') document.documentElement.dataset.theme = stored;
  } catch {
    // Storage may be blocked; the system's preference then decides.
  }
})();

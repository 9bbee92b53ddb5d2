// Runs before the first paint, so that a stored theme does not flash. A module would run too late.
(function () {
  try {
    const stored = localStorage.getItem('mcp-ui-theme');
    if (stored === 'light' || stored === 'dark') document.documentElement.dataset.theme = stored;
  } catch {
    // Storage may be blocked; then the system's preference applies.
  }
})();

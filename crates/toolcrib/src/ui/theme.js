// The theme: the system's preference until the user chooses. The choice is kept in localStorage.
import { html, render, Icon } from './lib/ui.js';
import { byId } from './dom.js';

const KEY = 'mcp-ui-theme';
const system = matchMedia('(prefers-color-scheme: dark)');

export function startTheme() {
  const button = byId('theme');
  const draw = () => {
    const next = current() === 'dark' ? 'light' : 'dark';
    render(html`<${Icon} name=${next === 'dark' ? 'moon' : 'sun'} />`, button);
    button.setAttribute('aria-label', `Switch to the ${next} theme`);
    button.title = `Switch to the ${next} theme`;
  };
  button.addEventListener('click', () => {
    const next = current() === 'dark' ? 'light' : 'dark';
    document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // The choice then lasts until the page is closed.
    }
    draw();
  });
  system.addEventListener('change', draw);
  draw();
}

function current() {
  return document.documentElement.dataset.theme ?? (system.matches ? 'dark' : 'light');
}

// Notifications of the browser about new requests, if the user switches them on.
import { html, useEffect, useState, Button } from '../lib/ui.js';
import { setNotifying } from '../shell/live.js';
import { state, on } from '../state.js';

let wanted = false;
let known = 0;

on('counts', () => {
  const more = state.pending > known;
  known = state.pending;
  if (!wanted || !more || !document.hidden || Notification.permission !== 'granted') return;
  // Without names: anyone near the screen can read a notification.
  const note = new Notification('A call waits for your approval', { tag: 'toolcrib-approvals' });
  note.onclick = () => {
    focus();
    location.hash = '#/approvals';
    note.close();
  };
});

export function Reminders() {
  const [on, setOn] = useState(wanted);
  const [refused, setRefused] = useState(false);
  useEffect(() => {
    wanted = on;
    setNotifying(on);
    known = state.pending;
  }, [on]);
  if (!('Notification' in window)) return null;
  const toggle = async () => {
    if (on) {
      setOn(false);
      return;
    }
    const answer = await Notification.requestPermission();
    setRefused(answer !== 'granted');
    setOn(answer === 'granted');
  };
  return html`<div>
    <${Button} aria-pressed=${on} onClick=${toggle}>
      ${on ? 'Notifications are on' : 'Notify me of new requests'}
    <//>
    ${refused && html`<p class="muted">The browser blocks notifications from this page.</p>`}
  </div>`;
}

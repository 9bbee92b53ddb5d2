// Plays a sound that a tool returned.
import { html, useEffect, useRef, useState } from '../lib/ui.js';

const REFUSED = 'This browser cannot play the sound';

/** Plays through Web Audio: a media element would require a media source in the page's policy. */
export function Player({ bytes }) {
  const playing = useRef();
  const [word, setWord] = useState('Play');
  const stop = () => {
    playing.current?.close();
    playing.current = undefined;
    setWord('Play');
  };
  useEffect(() => stop, []);
  const onClick = async () => {
    if (playing.current) return stop();
    const mine = new AudioContext();
    playing.current = mine;
    try {
      const buffer = await mine.decodeAudioData(bytes.buffer.slice(0));
      const source = new AudioBufferSourceNode(mine, { buffer });
      source.connect(mine.destination);
      source.addEventListener('ended', () => playing.current === mine && stop());
      source.start();
      setWord('Stop');
    } catch {
      stop();
      setWord(REFUSED);
    }
    return undefined;
  };
  return html`<button type="button" class="button" disabled=${word === REFUSED} onClick=${onClick}>${word}</button>`;
}

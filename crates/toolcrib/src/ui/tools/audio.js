// Plays a sound that a tool returned.
import { button } from '../dom.js';

/** Plays through Web Audio: a media element would require a media source in the page's policy. */
export function player(bytes) {
  let playing;
  const play = button('Play', async () => {
    if (playing) return playing.close();
    playing = new AudioContext();
    const mine = playing;
    const ended = () => {
      if (playing === mine) {
        playing = undefined;
        play.textContent = 'Play';
      }
    };
    mine.addEventListener('statechange', () => {
      if (mine.state === 'closed') ended();
    });
    try {
      const source = new AudioBufferSourceNode(mine, {
        buffer: await mine.decodeAudioData(bytes.buffer.slice(0)),
      });
      source.connect(mine.destination);
      source.addEventListener('ended', () => mine.close());
      source.start();
      play.textContent = 'Stop';
    } catch {
      await mine.close();
      play.disabled = true;
      play.textContent = 'This browser cannot play the sound';
    }
    return undefined;
  });
  return play;
}

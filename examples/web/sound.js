// A voice and a noise that are made up, of the kinds that make_denoiser.py trains with.
import { RATE } from "./spectral.js";

const VOWELS = [[730, 1090, 2440], [270, 2290, 3010], [300, 870, 2240], [530, 1840, 2480]];
const LOUDNESS = [1, 0.5, 0.25];

/** Numbers from 0 to 1, the same ones each time. */
function random(seed) {
  return () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

/** Syllables: where each begins and ends, its loudness and its formants. */
function* syllables(samples, draw) {
  for (let at = 0.3 * RATE; at < samples; ) {
    const length = (0.12 + 0.22 * draw()) * RATE, size = 0.9 + 0.25 * draw();
    const formants = VOWELS[Math.floor(4 * draw())].map((hertz) => hertz * size);
    yield { at, end: Math.min(at + length, samples), length, loud: 0.5 + 0.5 * draw(), formants };
    at += length + (draw() < 0.25 ? 0.5 : 0.06) * RATE;
  }
}

export function voice(samples) {
  const sound = new Float32Array(samples), draw = random(7);
  for (const { at, end, length, loud, formants } of syllables(samples, draw)) {
    for (let t = Math.ceil(at), phase = 0; t < end; t++) {
      const pitch = 140 * (1 + 0.12 * Math.sin((2 * Math.PI * 0.7 * t) / RATE));
      const envelope = loud * Math.sqrt(Math.sin((Math.PI * (t - at)) / length));
      phase += (2 * Math.PI * pitch) / RATE;
      let sum = 0;
      for (let k = 1; k < 24; k++) {
        const near = formants.reduce((all, f, i) => all + LOUDNESS[i] * Math.exp(-(((k * pitch - f) / 180) ** 2)), 0);
        sum += (near + 0.02) * Math.sin(k * phase);
      }
      sound[t] = (envelope * sum) / 4;
    }
  }
  return sound;
}

/** White noise through one pole; its mean square is 1. */
export function noise(samples) {
  const draw = random(11), sound = new Float32Array(samples);
  for (let t = 0, state = 0; t < samples; t++) {
    state = 0.6 * state + (draw() + draw() + draw() - 1.5) * 2;
    sound[t] = state * 0.8;
  }
  return sound;
}

// Takes noise out of a sound, 128 samples at a time: a spectrum of the newest 512 samples, whose bands
// the net weighs, and back. It allocates nothing once it is made, and runs in any scope.

export const RATE = 16000, WINDOW = 512, HOP = 128, BANDS = 32;
/** Samples by which the sound comes out late. */
export const LATENCY = WINDOW - HOP;

const BINS = WINDOW / 2 + 1;
const HANN = Float32Array.from({ length: WINDOW },
  (_, i) => Math.sqrt(0.5 - 0.5 * Math.cos((2 * Math.PI * i) / WINDOW)));

/** The first bin of each band, and the end, as in make_denoiser.py. */
export const EDGES = (() => {
  const made = [1];
  for (let band = 1; band <= BANDS; band++) {
    const hertz = 700 * (Math.exp((Math.log(1 + RATE / 2 / 700) * band) / BANDS) - 1);
    made.push(Math.max(made[band - 1] + 1, Math.round((hertz * WINDOW) / RATE)));
  }
  return made;
})();

/** Fourier transforms of `WINDOW` complex numbers, in place. */
export class Fft {
  constructor() {
    const angle = (i) => (-2 * Math.PI * i) / WINDOW;
    this.cos = Float32Array.from({ length: WINDOW / 2 }, (_, i) => Math.cos(angle(i)));
    this.sin = Float32Array.from({ length: WINDOW / 2 }, (_, i) => Math.sin(angle(i)));
    const bits = Math.log2(WINDOW);
    this.swaps = Uint16Array.from({ length: WINDOW }, (_, i) => {
      let reversed = 0;
      for (let bit = 0; bit < bits; bit++) reversed |= ((i >> bit) & 1) << (bits - 1 - bit);
      return reversed;
    });
  }

  forward(re, im) {
    for (let i = 0; i < WINDOW; i++) {
      const j = this.swaps[i];
      if (j > i) {
        [re[i], re[j]] = [re[j], re[i]];
        [im[i], im[j]] = [im[j], im[i]];
      }
    }
    for (let half = 1; half < WINDOW; half *= 2)
      for (let start = 0; start < WINDOW; start += 2 * half)
        for (let k = 0; k < half; k++) this.butterfly(re, im, start + k, half, (k * WINDOW) / 2 / half);
  }

  butterfly(re, im, i, half, turn) {
    const j = i + half, c = this.cos[turn], s = this.sin[turn];
    const x = re[j] * c - im[j] * s, y = re[j] * s + im[j] * c;
    re[j] = re[i] - x;
    im[j] = im[i] - y;
    re[i] += x;
    im[i] += y;
  }

  /** The same with real and imaginary parts swapped goes back, times WINDOW. */
  back(re, im) {
    this.forward(im, re);
  }
}

export class Denoiser {
  /** `net`: a Net of build/denoiser.js. */
  constructor(net) {
    this.stream = net.stream({ N: 1 });
    this.stream.prepare(1);
    this.fft = new Fft();
    this.heard = new Float32Array(WINDOW);
    this.made = new Float32Array(WINDOW);
    this.re = new Float32Array(WINDOW);
    this.im = new Float32Array(WINDOW);
    this.given = { x: new Float32Array(BANDS) };
    this.active = true;
    /** How much of the sound is voice, from 0 to 1. */
    this.voice = 0;
  }

  /** HOP samples in, HOP samples out. */
  process(input, output) {
    const { heard, made, re, im, given } = this;
    heard.copyWithin(0, HOP);
    heard.set(input, WINDOW - HOP);
    for (let i = 0; i < WINDOW; i++) {
      re[i] = heard[i] * HANN[i];
      im[i] = 0;
    }
    this.fft.forward(re, im);
    let power = 0, voiced = 0;
    for (let band = 0; band < BANDS; band++) {
      let sum = 0;
      for (let k = EDGES[band]; k < EDGES[band + 1]; k++) sum += re[k] * re[k] + im[k] * im[k];
      given.x[band] = Math.log10(sum + 1e-4) / 3;
    }
    const { gains } = this.stream.step(given, 1);
    for (let band = 0; band < BANDS; band++) {
      const sum = 10 ** (3 * given.x[band]) - 1e-4, gain = gains[band];
      power += sum;
      voiced += sum * gain * gain;
      if (this.active) for (let k = EDGES[band]; k < EDGES[band + 1]; k++) this.scale(k, gain);
    }
    if (this.active) {
      this.scale(0, 0); // those in no band
      this.scale(WINDOW / 2, 0);
    }
    this.voice = voiced / (power + 1e-3);
    this.fft.back(re, im);
    made.copyWithin(0, HOP);
    made.fill(0, WINDOW - HOP);
    for (let i = 0; i < WINDOW; i++) made[i] += (re[i] * HANN[i]) / (2 * WINDOW);
    for (let i = 0; i < HOP; i++) output[i] = made[i];
  }

  /** A bin and its mirror image. */
  scale(k, gain) {
    const mirror = (WINDOW - k) % WINDOW;
    this.re[k] *= gain;
    this.im[k] *= gain;
    if (mirror !== k) {
      this.re[mirror] *= gain;
      this.im[mirror] *= gain;
    }
  }
}

/** Powers of a sound in decibels, a row of BINS every HOP samples. */
export function spectrogram(sound) {
  const fft = new Fft(), rows = [];
  for (let at = 0; at + WINDOW <= sound.length; at += HOP) {
    const re = Float32Array.from(HANN, (weight, i) => weight * sound[at + i]);
    const im = new Float32Array(WINDOW);
    fft.forward(re, im);
    rows.push(Float32Array.from({ length: BINS }, (_, k) => 10 * Math.log10(re[k] ** 2 + im[k] ** 2 + 1e-9)));
  }
  return rows;
}

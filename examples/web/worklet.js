// The denoiser in the audio thread. There is no `fetch` here: the page hands the compiled module over.
import { Net } from "./build/denoiser.js";
import { Denoiser, HOP } from "./spectral.js";

const EVERY = 4; // calls from one message with levels to the next

class Processor extends AudioWorkletProcessor {
  constructor({ processorOptions }) {
    super();
    this.denoiser = new Denoiser(new Net(processorOptions.module));
    this.silence = new Float32Array(HOP);
    this.levels = { before: 0, after: 0, voice: 0 };
    this.calls = 0;
    this.port.onmessage = ({ data }) => (this.denoiser.active = data.active);
  }

  process([input], [[output]]) {
    const heard = input[0] ?? this.silence, { levels } = this;
    this.denoiser.process(heard, output);
    levels.before += mean(heard) / EVERY;
    levels.after += mean(output) / EVERY;
    levels.voice += this.denoiser.voice / EVERY;
    if (++this.calls % EVERY === 0) {
      this.port.postMessage(levels);
      levels.before = levels.after = levels.voice = 0;
    }
    return true;
  }
}

/** Of the squares. */
function mean(samples) {
  let sum = 0;
  for (let i = 0; i < samples.length; i++) sum += samples[i] * samples[i];
  return sum / samples.length;
}

registerProcessor("denoiser", Processor);

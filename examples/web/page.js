// The page: renders a sound through the worklet at once for the pictures, and live when asked to.
import { noise, voice } from "./sound.js";
import { LATENCY, RATE, spectrogram } from "./spectral.js";

const SECONDS = 5;
const find = (id) => document.getElementById(id);
const module = await WebAssembly.compileStreaming(fetch("build/denoiser.wasm"));
const sounds = { voice: voice(SECONDS * RATE), noise: noise(SECONDS * RATE) };
const level = () => Number(find("level").value);

/** A node of the denoiser in a context. */
async function denoiser(context) {
  await context.audioWorklet.addModule("worklet.js");
  return new AudioWorkletNode(context, "denoiser", {
    channelCount: 1, channelCountMode: "explicit", outputChannelCount: [1], processorOptions: { module },
  });
}

/** A source of a sound, in a loop. */
function source(context, samples) {
  const buffer = new AudioBuffer({ length: samples.length, sampleRate: RATE });
  buffer.copyToChannel(samples, 0);
  return new AudioBufferSourceNode(context, { buffer, loop: true });
}

/** Voice and noise through the denoiser to the context's end; what changes while it sounds. */
async function wire(context) {
  const node = await denoiser(context);
  const gain = new GainNode(context, { gain: level() });
  const voiced = source(context, sounds.voice), noisy = source(context, sounds.noise);
  noisy.connect(gain).connect(node);
  voiced.connect(node).connect(context.destination);
  voiced.start();
  noisy.start();
  return { node, gain };
}

async function rendered() {
  const context = new OfflineAudioContext(1, SECONDS * RATE + LATENCY, RATE);
  await wire(context);
  const buffer = await context.startRendering();
  return buffer.getChannelData(0).subarray(LATENCY);
}

const decibels = (power) => 10 * Math.log10(power + 1e-12);

/** Of what is left when the voice is taken away, against the voice. */
function ratio(sound) {
  let signal = 0, error = 0;
  for (let t = 0; t < sounds.voice.length; t++) {
    signal += sounds.voice[t] ** 2;
    error += (sound[t] - sounds.voice[t]) ** 2;
  }
  return decibels(signal / error);
}

function draw(canvas, sound) {
  const rows = spectrogram(sound), { width, height } = canvas, paint = canvas.getContext("2d");
  const image = paint.createImageData(width, height);
  for (let x = 0; x < width; x++) {
    const row = rows[Math.floor((x * rows.length) / width)];
    for (let y = 0; y < height; y++) {
      const bin = Math.floor(((height - 1 - y) * row.length) / height);
      image.data.set(colour((row[bin] + 40) / 70), 4 * (y * width + x));
    }
  }
  paint.putImageData(image, 0, 0);
}

/** From dark blue over orange to white. */
function colour(share) {
  const at = Math.min(Math.max(share, 0), 1), up = (from, to) => Math.min(Math.max((at - from) / (to - from), 0), 1);
  return [13 + 242 * up(0.25, 0.65), 17 + 220 * up(0.5, 1), 40 + 50 * up(0, 0.3) - 70 * up(0.3, 0.6) + 200 * up(0.75, 1), 255];
}

async function show() {
  const before = sounds.voice.map((x, t) => x + level() * sounds.noise[t % sounds.noise.length]);
  const after = await rendered();
  draw(find("noisy"), before);
  draw(find("clean"), after);
  const text = [before, after].map((sound) => ratio(sound).toFixed(1));
  find("result").textContent = `Signal to noise: ${text[0]} dB before, ${text[1]} dB after.`;
}

function meter(id, share, text) {
  find(id).querySelector(".bar div").style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  find(id).querySelector(".number").textContent = text;
}

function meters({ before, after, voice }) {
  for (const [id, power] of [["before", before], ["after", after]])
    meter(id, decibels(power) / 60 + 1, `${Math.max(decibels(power), -60).toFixed(0)} dB`);
  meter("voice", voice, `${(100 * voice).toFixed(0)} %`);
}

let playing;

async function play() {
  const context = new AudioContext({ sampleRate: RATE });
  const { node, gain } = await wire(context);
  node.port.onmessage = ({ data }) => meters(data);
  playing = { context, node, gain };
  choose();
}

async function stop() {
  await playing.context.close();
  playing = undefined;
}

function choose() {
  playing?.node.port.postMessage({ active: find("active").checked });
  if (playing) playing.gain.gain.value = level();
}

find("play").onclick = async () => {
  await (playing ? stop() : play());
  find("play").textContent = playing ? "Stop" : "Play";
};
find("active").onchange = find("level").oninput = choose;
find("level").onchange = show;
find("file").onchange = async ({ target }) => {
  const context = new OfflineAudioContext(1, 1, RATE);
  const buffer = await context.decodeAudioData(await target.files[0].arrayBuffer());
  sounds.voice = buffer.getChannelData(0).slice(0, SECONDS * RATE);
  await show();
};
await show();

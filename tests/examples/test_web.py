"""examples/web: the worklet's core in node against NumPy, and the page in a headless browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnncc
from examples.web import make_denoiser as maker
from rnncc.errors import CompileError
from rnncc.packaging.linkers import find_linker

EXAMPLE = Path(__file__).parents[2] / "examples/web"
NET = EXAMPLE / "denoiser.pbtxt", EXAMPLE / "denoiser_init.pb"
NODE, CHROMIUM = shutil.which("node"), shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
FLAGS += " --autoplay-policy=no-user-gesture-required"
CORE = """
import { readFileSync } from "node:fs";
import { load } from "./build/denoiser.js";
import { Denoiser, HOP } from "./spectral.js";

const core = new Denoiser(await load(readFileSync("build/denoiser.wasm")));
const sound = Float32Array.from(JSON.parse(readFileSync("sound.json")));
const out = new Float32Array(sound.length), voice = [];
for (let at = 0; at < sound.length; at += HOP) {
  core.process(sound.subarray(at, at + HOP), out.subarray(at, at + HOP));
  voice.push(core.voice);
}
console.log(JSON.stringify({ out: [...out], voice }));
"""
PROBE = """<!doctype html>
<iframe id="frame" src="index.html" width="900" height="800"></iframe>
<script type="module">
const frame = document.getElementById("frame"), told = {};
const text = (place) => frame.contentDocument.querySelector(place)?.textContent ?? "";
const until = async (right) => {
  while (!right()) await new Promise((resolve) => setTimeout(resolve, 50));
};
await until(() => text("#result").startsWith("Signal"));
const tell = (what) => fetch("told", { method: "POST", body: JSON.stringify(what) });
const fault = (event) => tell(String(event.reason ?? event.message));
for (const kind of ["error", "unhandledrejection"])
  frame.contentWindow.addEventListener(kind, fault);
const pixels = (id) => {
  const canvas = frame.contentDocument.getElementById(id);
  return new Set(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data).size;
};
told.colours = [pixels("noisy"), pixels("clean")];
told.result = text("#result");
frame.contentDocument.getElementById("play").click();
await until(() => text("#after .number").endsWith("dB"));
told.meters = ["before", "after", "voice"].map((id) => text(`#${id} .number`));
told.button = text("#play");
frame.contentDocument.getElementById("play").click();
await until(() => text("#play") === "Play");
await tell(told);
</script>
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its net built."""
    try:
        find_linker("wasm32-unknown-unknown")
    except CompileError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("web")
    for path in (*EXAMPLE.glob("*.js"), EXAMPLE / "index.html"):
        shutil.copy(path, folder)
    rnncc.build(*NET, out=folder / "build", target="wasm32", products=["wasm", "js"])
    return folder


def by_numpy(sound: Any) -> Any:
    """What the core computes, a whole sound at once."""
    heard = np.concatenate([np.zeros(maker.WINDOW - maker.HOP), sound])
    window = np.sqrt(np.hanning(maker.WINDOW + 1)[:-1])
    count = len(sound) // maker.HOP
    frames = np.stack([heard[i * maker.HOP :][: maker.WINDOW] * window for i in range(count)])
    spectra = np.fft.rfft(frames)
    x = maker.features(maker.bands(np.abs(spectra[:, :-1]) ** 2))[:, None]
    gains = rnncc.compile(*NET).stream(batch=1).step({"x": x})["gains"][:, 0]
    weights = np.zeros(spectra.shape)
    weights[:, 1:-1] = np.repeat(gains, np.diff(maker.edges()), axis=1)
    made = np.fft.irfft(spectra * weights) * window / 2
    out = np.zeros(len(heard))
    for i, frame in enumerate(made):
        out[i * maker.HOP :][: maker.WINDOW] += frame
    return out[: len(sound)]


@pytest.mark.skipif(NODE is None, reason="no node here")
def test_core_is_that_of_the_training(site: Path) -> None:
    assert NODE is not None
    rng = np.random.default_rng(3)
    sound = maker.voices(rng, 128 * 128) + 0.02 * maker.noises(rng, 128 * 128)
    (site / "sound.json").write_text(json.dumps(sound.tolist()))
    (site / "core.mjs").write_text(CORE)
    (site / "package.json").write_text('{"type": "module"}')
    done = subprocess.run([NODE, "core.mjs"], cwd=site, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    np.testing.assert_allclose(told["out"], by_numpy(sound), atol=1e-4)
    assert 0 <= min(told["voice"]) < 0.2 < 0.8 < max(told["voice"]) <= 1


class Handler(SimpleHTTPRequestHandler):
    """Serves the example and the probe, and hears what that tells."""

    told: list[Any]
    heard: threading.Event

    def do_GET(self) -> None:
        if self.path != "/probe.html":
            return super().do_GET()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(PROBE.encode())
        return None

    def do_POST(self) -> None:
        self.told.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(204)
        self.end_headers()
        self.heard.set()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def served(site: Path) -> Iterator[tuple[str, type[Handler]]]:
    kind = type("Told", (Handler,), {"told": [], "heard": threading.Event()})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(kind, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/probe.html", kind
        server.shutdown()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_page(served: tuple[str, type[Handler]], tmp_path: Path) -> None:
    address, handler = served
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS.split(), f"--user-data-dir={tmp_path}", "--remote-debugging-port=0"]
    browser = subprocess.Popen([*command, address], stderr=subprocess.DEVNULL)
    try:
        assert handler.heard.wait(90), "the page says nothing"
    finally:
        browser.terminate()
        browser.wait(20)
    (told,) = handler.told
    before, after = map(float, re.findall(r"(-?[\d.]+) dB", told["result"]))
    assert after > before + 4
    assert min(told["colours"]) > 50
    levels = [float(text.split()[0]) for text in told["meters"]]
    assert all(-60 <= level < 0 for level in levels[:2])
    assert 0 <= levels[2] <= 100
    assert told["button"] == "Stop"

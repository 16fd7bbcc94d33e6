"""Libraries for GPUs as files: headers, the loaders in C and Python, and what these refuse."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from rnncc_runtime import LoadError
from rnncc_runtime.cuda import CudaModel, CudaTrainableModel

import rnncc
from rnncc.errors import CompileError
from tests.gpu import libcuda
from tests.runtime import on_gpu
from tests.runtime.on_gpu import LSTM, assert_same, cpu, inputs

ROOT = Path(__file__).parents[2]
INCLUDE = Path(rnncc_runtime.__file__).parent / "include"
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]

OPENS = r"""
#include "net.h"
#include "rnncc_cuda.h"

int main(int count, char **words) {
    struct rnncc_cuda cuda;
    struct rnncc_cuda_image image = *net_cuda_image();
    struct rnncc_cuda_binary binary = image.binary[0];
    struct rnncc_cuda_kernel kernel = image.kernel[0];
    void (*fail)(const char *, int, int), *found;
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "fail")) {
        found = dlsym(dlopen(getenv("RNNCC_LIBCUDA"), RTLD_NOW), "emu_fail");
        memcpy(&fail, &found, sizeof found);
        fail(words[2], atoi(words[3]), 0);
    }
    if (!strcmp(what, "chip")) binary.chip = words[2], image.binary = &binary;
    if (!strcmp(what, "nothing")) image.binaries = 0;
    if (!strcmp(what, "text")) binary.data = "no code at all", image.binary = &binary;
    if (!strcmp(what, "version")) image.version++;
    if (!strcmp(what, "symbol")) kernel.symbol = "nothing", image.kernel = &kernel;
    int code = rnncc_cuda_open(&cuda, &image, !strcmp(what, "device") ? atoi(words[2]) : 0);
    printf("%d|%s|%s\n", code, cuda.message, rnncc_cuda_error(code));
    if (code && (cuda.context || cuda.module || cuda.weights)) return 1;
    if (code) return 0;
    code = net_run_cuda(&cuda, 0, 0, 0, 0, 0, 1, 1);
    printf("%d %d\n", (int)(cuda.kernels[0].resident > 0), code);
    rnncc_cuda_close(&cuda);
    rnncc_cuda_close(&cuda);
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An LSTM for inference and for training, built for the emulated GPU, and a C program."""
    on_gpu.begin()
    out = tmp_path_factory.mktemp("built")
    for name, train in (("net", False), ("trained", True)):
        init, options = LSTM / "init.pb", {"target": "emulated", "train": train}
        rnncc.build(LSTM / "net.pb", init, out=out, name=name, **options)
    (out / "opens.c").write_text(OPENS)
    linked = [f"-L{out}", "-lnet", "-ldl", f"-Wl,-rpath,{out}"]
    command = ["cc", "-std=c99", *STRICT, f"-I{INCLUDE}", f"-I{out}", "opens.c", *linked]
    subprocess.run([*command, "-o", "opens"], cwd=out, check=True)
    return out


def opened(
    folder: Path, *words: str, driver: str = "", settings: Mapping[str, int] = MappingProxyType({})
) -> tuple[int, str, str]:
    """The code, the message and its short text."""
    environment = {**os.environ, **libcuda.environment(settings)}
    if driver:
        environment["RNNCC_LIBCUDA"] = driver
    done = subprocess.run(
        [folder / "opens", *words], env=environment, capture_output=True, text=True, check=True
    )
    code, message, text = done.stdout.splitlines()[0].split("|")
    return int(code), message, text


def test_opening_and_closing(folder: Path) -> None:
    done = subprocess.run(
        [folder / "opens"],
        env={**os.environ, **libcuda.environment()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["0||no error", "1 1"]


@pytest.mark.parametrize(
    ("words", "settings", "code", "message"),
    [
        ([], {"devices": 0}, 8, "no such NVIDIA GPU: there are 0, and number 0 is wanted"),
        (["device", "3"], {}, 8, "there are 1, and number 3 is wanted"),
        (["device", "-1"], {}, 8, "there are 1, and number -1 is wanted"),
        ([], {"occupancy": 0}, 12, "no room for a block of: net_init"),
        (["version"], {}, 13, "of different versions: net"),
        (["nothing"], {}, 10, "net has no code that a chip sm_90 and its driver run"),
        (["chip", "sm_80"], {}, 10, "has no code that a chip sm_90"),
        (["chip", "sm_90a"], {}, 0, ""),
        (["chip", "sm_80"], {"chip": 86}, 0, ""),
        (["chip", "sm_87"], {"chip": 86}, 10, "has no code that a chip sm_86"),
        (["text"], {}, 10, "has no code that a chip sm_90 and its driver run: "),
        (["symbol"], {}, 7, "nothing: "),
        (["fail", "cuInit", "803"], {}, 7, "the NVIDIA driver did not begin: "),
        (["fail", "cuInit", "100"], {}, 8, "no such NVIDIA GPU"),
        (["fail", "cuModuleLoadDataEx", "222"], {}, 10, "has no code that a chip"),
        (["fail", "cuModuleLoadDataEx", "218"], {}, 7, ""),
        (["fail", "cuModuleLoadDataEx", "2"], {}, 11, "memory"),
        (["fail", "cuMemAlloc_v2", "2"], {}, 11, "no memory for the weights: "),
        (["fail", "cuMemcpyHtoD_v2", "1"], {}, 7, "the weights were not copied: "),
        (["fail", "cuDevicePrimaryCtxRetain", "2"], {}, 7, "the GPU has no context for us: "),
        (["fail", "cuCtxPushCurrent_v2", "1"], {}, 7, "the GPU's context cannot be used: "),
        (["fail", "cuDeviceGetAttribute", "1"], {}, 7, "the GPU cannot be asked: "),
    ],
)
def test_what_the_loader_in_c_refuses(
    folder: Path, words: list[str], settings: Mapping[str, int], code: int, message: str
) -> None:
    found, told, _ = opened(folder, *words, settings=settings)
    assert found == code, told
    assert message in told


def test_no_driver_and_a_wrong_one(folder: Path) -> None:
    code, told, text = opened(folder, driver="/nowhere/libcuda.so")
    assert (code, text) == (8, "there is no NVIDIA driver, or no such device")
    assert told.startswith("found no NVIDIA driver: /nowhere/libcuda.so: ")
    code, told, _ = opened(folder, driver="libm.so.6")
    assert (code, told) == (10, "the NVIDIA driver lacks functions")


@pytest.mark.parametrize("standard", ["c99", "c11", "gnu17", "c++17", "c++20"])
def test_headers_compile_without_a_word(folder: Path, standard: str) -> None:
    names = ("net", "trained", "rnncc_cuda", "rnncc", "net", "rnncc_cuda")
    source = "".join(f'#include "{name}.h"\n' for name in names)
    for flags in (["-O0"], ["-O2"]):
        language = ["-x", "c++" if "+" in standard else "c"]
        command = ["cc", f"-std={standard}", *STRICT, *flags, *language]
        command += ["-c", "-o", "/dev/null", f"-I{folder}", f"-I{INCLUDE}", "-"]
        done = subprocess.run(command, input=source, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_exported_is_the_library_alone(folder: Path) -> None:
    done = subprocess.run(
        ["nm", "-D", folder / "libnet.so"], capture_output=True, text=True, check=True
    )
    exported = {line.split()[-1] for line in done.stdout.splitlines() if " T " in line}
    own = {name for name in exported if name.startswith("net_")}
    assert exported == own
    assert {"net_run_cuda", "net_cuda_image", "net_workspace_bytes_cuda"} <= own
    undefined = [line for line in done.stdout.splitlines() if " U " in line]
    assert not undefined


def test_python_loads_it(folder: Path) -> None:
    on_gpu.begin()
    model: Any = rnncc_runtime.load(folder / "libnet.so")
    assert isinstance(model, CudaModel)
    assert_same(model.run(inputs()), cpu().run(inputs()))
    trained: Any = rnncc_runtime.load(folder / "libtrained.so", train=True, device=0)
    assert isinstance(trained, CudaTrainableModel)
    assert_same(trained.parameters, on_gpu.trainable_cpu().parameters)
    with pytest.raises(LoadError, match="compiled for training"):
        rnncc_runtime.load(folder / "libtrained.so")
    with pytest.raises(LoadError, match="number 9 is wanted"):
        rnncc_runtime.load(folder / "libnet.so", device=9)


def test_a_number_of_a_gpu_is_nothing_to_a_library_for_the_cpu(tmp_path: Path) -> None:
    rnncc.build(LSTM / "net.pb", LSTM / "init.pb", out=tmp_path)
    with pytest.raises(LoadError, match="compiled for the CPU, and device=0"):
        rnncc_runtime.load(tmp_path / "libnet.so", device=0)


def python(code: str, cwd: Path, driver: str) -> str:
    """What a process prints, with a driver of its own."""
    environment = {**os.environ, "RNNCC_LIBCUDA": driver}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "runtime")])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


LOADS = """
import rnncc_runtime
try:
    rnncc_runtime.load("libnet.so")
except rnncc_runtime.LoadError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        ("/nowhere/libcuda.so", "found no NVIDIA driver: /nowhere/libcuda.so: cannot open"),
        ("libm.so.6", "the NVIDIA driver is too old: it has no cuInit"),
    ],
)
def test_python_without_a_driver(folder: Path, driver: str, message: str) -> None:
    assert python(LOADS, folder, driver).startswith(message)


def test_the_wrapper(folder: Path) -> None:
    code = """
import net, numpy as np
print(net.__doc__.split("\\n")[0])
print(type(net.model).__name__, sorted(net.inputs))
"""
    lines = python(code, folder, str(libcuda.path())).splitlines()
    assert "for NVIDIA GPUs" in lines[0]
    assert lines[1] == "CudaModel ['c0_0', 'h0_0', 'seq_lengths', 'x']"


def test_static_libraries_and_packages(tmp_path: Path) -> None:
    on_gpu.begin()
    kinds = ["o", "a", "pc", "cmake"]
    init = LSTM / "init.pb"
    rnncc.build(LSTM / "net.pb", init, out=tmp_path, products=kinds, target="emulated")
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {"net.o", "libnet.a", "net.pc", "netConfig.cmake"}


def test_the_example_in_c(tmp_path: Path) -> None:
    """The probabilities of the example for the CPU, by a stream and a graph."""
    on_gpu.begin()
    example = ROOT / "examples"
    net, init = example / "lstm.pbtxt", example / "lstm_init.pbtxt"
    rnncc.build(net, init, out=tmp_path, target="emulated")
    linked = [f"-L{tmp_path}", "-llstm", "-ldl", f"-Wl,-rpath,{tmp_path}", "-o", "main"]
    command = ["cc", "-std=c99", *STRICT, f"-I{INCLUDE}", f"-I{tmp_path}", example / "c" / "gpu.c"]
    subprocess.run([*command, *linked], cwd=tmp_path, check=True)
    environment = {**os.environ, **libcuda.environment()}
    run = [tmp_path / "main"]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == expected(net, init)
    environment["RNNCC_LIBCUDA"] = "/nowhere"
    refused = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert refused.returncode == 1
    assert refused.stderr.startswith("found no NVIDIA driver")


def expected(net: Path, init: Path) -> str:
    """What the example prints, by a model of the CPU."""
    model = rnncc.compile(net, init)
    lines, stream = list[str](), model.stream(batch=1)
    for letter in "HELLO, WORLD":
        x = np.zeros((1, 1, 64), np.float32)
        x[0, 0, ord(letter) - 32] = 1
        probabilities = stream.step({"x": x})["probabilities"]
        best = int(probabilities.argmax())
        value = probabilities.reshape(-1)[best]
        lines.append(f"{letter} -> {chr(best + 32)} ({value:.4f})\n")
    return "".join(lines)


def test_ptx_is_a_form(tmp_path: Path) -> None:
    from rnncc.driver import compiling
    from rnncc.options import Options

    options = Options.of(LSTM / "net.pb", {"device": "cuda", "name": "net"})
    emitted = compiling.emit(LSTM / "net.pb", LSTM / "init.pb", options, "ptx")
    assert isinstance(emitted.content, str)
    assert ".entry net_step" in emitted.content


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "gpu"}, "'gpu' is no device"),
        ({"device": "cuda:x"}, "'cuda:x' is no device"),
        ({"device": "cuda", "tune": True}, "no settings to try"),
        ({"device": "cuda", "cpu": "sm_20"}, "'sm_20' is no chip"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        rnncc.build(LSTM / "net.pb", LSTM / "init.pb", out=tmp_path, **options)


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_device_by_name(device: str) -> None:
    on_gpu.begin()
    init = LSTM / "init.pb"
    model: Any = rnncc.compile(LSTM / "net.pb", init, device=device, target="emulated")
    assert isinstance(model, CudaModel)
    with pytest.raises(LoadError, match="number 5 is wanted"):
        rnncc.compile(LSTM / "net.pb", init, device="cuda:5", target="emulated")


def test_models_of_gpus_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNCC_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("RNNCC_CACHE", raising=False)
    first = on_gpu.model().run(inputs())
    (entry,) = tmp_path.rglob("*.model")
    made = entry.stat().st_ino
    assert_same(on_gpu.model().run(inputs()), first)
    assert entry.stat().st_ino == made

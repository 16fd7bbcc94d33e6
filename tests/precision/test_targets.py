"""Which instructions machines get, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import rnncc
from rnncc import CompileError
from rnncc.cli import main
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.options import Options
from tests.compiling import bytes_of, text_of
from tests.precision.nets import drawn, product

LINUX = "x86_64-linux-gnu"
ROOT = Path(__file__).parents[2]
NET = [str(ROOT / "examples/lstm.pbtxt"), "--init", str(ROOT / "examples/lstm_init.pbtxt")]


@pytest.mark.parametrize(
    ("precision", "cpu", "instruction"),
    [
        ("int8", "x86-64-v2", "\tpmaddwd"),
        ("int8", "x86-64-v3", "vpmaddwd"),
        ("int8", "x86-64-v4", "vpmaddwd"),
        ("int8", "cascadelake", "vpdpbusd"),
        ("int8", "sapphirerapids", "tdpbsud"),
        ("int8", "znver4", "vpdpbusd"),
        ("int8", "alderlake", "vpdpbusd"),
        ("bf16", "cooperlake", "vfmadd"),
        ("bf16", "emeraldrapids", "tdpbf16ps"),
        ("bf16", "znver5", "vdpbf16ps"),
        ("bf16", "znver4", "vdpbf16ps"),
        ("bf16", "cascadelake", "vfmadd"),
        ("bf16", "x86-64-v3", "vfmadd"),
    ],
)
def test_what_machines_have_is_used(precision: str, cpu: str, instruction: str) -> None:
    options = Options(name="net", precision=precision, target=LINUX, cpu=cpu)
    text = text_of(product(drawn(130, 70)), None, options, "asm")
    assert instruction in text
    assert ("vdpbf16ps" in text) == (instruction == "vdpbf16ps")


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_other_machines(precision: str) -> None:
    options = Options(name="net", precision=precision, target="aarch64-linux-gnu")
    code = bytes_of(product(drawn(131, 70)), None, options)
    assert code[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("cpu", "instruction"),
    [("generic", None), ("cortex-a76", "sdot"), ("apple-m1", "sdot"), ("neoverse-v1", "usdot")],
)
def test_dot_products_of_arm(cpu: str, instruction: str | None) -> None:
    options = Options(name="net", precision="int8", target="aarch64-linux-gnu", cpu=cpu)
    text = text_of(product(drawn(131, 70)), None, options, "asm")
    assert set(re.findall(r"\bu?sdot\b", text)) == ({instruction} if instruction else set())


def test_machines_without_dot_products() -> None:
    for cpu in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "haswell", "skx", "knl"):
        target = resolve_target(LINUX, cpu)
        assert not target.byte_dot
        assert not target.bf16_dot
    assert not resolve_target("aarch64-linux-gnu").byte_dot


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "int4"}, "precision 'int4' is not one of fp32, bf16, int8"),
        ({"precision": 8}, "precision 8 is not a text"),
        ({"precision": "bf16", "train": True}, "training in bf16 is for NVIDIA GPUs"),
        ({"precision": "int8", "train": True, "device": "cuda"}, "precision int8 is for inference"),
        ({"precision": "int8", "train": True}, "train without it, then compile the trained net"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        rnncc.compile(product(drawn(3, 4)), **options)


def test_fp32_may_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    model = rnncc.compile(product(drawn(3, 4)), train=True, precision="fp32")
    assert model.metadata["precision"] == "fp32"
    assert main(["compile", *NET, "--precision", "half", "-o", "none"]) == 2
    assert "precision 'half' is not one of" in capsys.readouterr().err


def test_libraries_say_their_precision(tmp_path: Path) -> None:
    assert main(["compile", *NET, "--precision", "int8", "-o", str(tmp_path)]) == 0
    assert b'"precision": "int8"' in (tmp_path / "liblstm.so").read_bytes()


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_check_compares_with_fp32(precision: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", *NET, "--precision", precision, "-i", str(ROOT / "examples/lstm.npz")]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    for inputs in ("random", "given"):
        assert sum(f"{precision}, fp32; {inputs} inputs" in line for line in lines) == 3
    assert lines[-1] == "6 of 6 comparisons within their tolerance at T=12, N=1"


def test_check_finds_what_is_too_far_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rnncc.commands.check.LOW", {"int8": (1e-6, 0.0)})
    assert main(["check", *NET, "--precision", "int8"]) == 1
    assert "NO" in capsys.readouterr().out

"""Tensors of texts: what ONNX Runtime computes, in the interpreter, as machine code and in C."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from rnncc_runtime import ArrayError, StreamError, load
from rnncc_runtime.texts import Texts, Words, restored_texts

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.onnx.texts import texts_of
from rnncc.packaging.texts import javascript, types
from tests.frontends.onnx.models import by_onnxruntime, graph, info, interpreted, model, node

ML = "ai.onnx.ml"
NAMES = {"f": "f32", "i": "i64", "b": "i1", "O": "text", "U": "text"}
WORDS = np.array([["ich", "du", "", "ich"], ["sie", "naïve", "er\t", "du"]], object)
OTHERS = np.array([["du", "du", "", "ich"], ["sie", "naive", "wir", "?"]], object)
Case = tuple[Any, Mapping[str, Any], list[str]]


def of_nodes(nodes: list[Any], inputs: Mapping[str, Any], outputs: list[str], **kinds: Any) -> Any:
    """A model; outputs are names with their types, such as `y:text`."""
    given = [info(n, list(a.shape), NAMES[a.dtype.kind]) for n, a in inputs.items()]
    made = [info(name, None, dtype) for name, dtype in (text.split(":") for text in outputs)]
    return model(nodes, given, made, opset=19, domains={ML: kinds.get("ml", 4)})


def encoder(kind: str, dtype: str, ml: int = 4, **attributes: Any) -> Case:
    x = WORDS if kind != "text of integer" else np.array([[2, 0, 5], [-1, 1, 9]])
    operator = attributes.pop("operator", "LabelEncoder")
    made = of_nodes([node(operator, "x", "y", domain=ML, **attributes)], {"x": x}, [], ml=ml)
    made.graph.output.append(info("y", None, dtype))
    return made, {"x": x}, ["y"]


def encoders() -> dict[str, Case]:
    keys = ["du", "ich", "naïve", ""]
    tensors: dict[str, Any] = {
        "keys_tensor": stored("k", [b"ich", b"du"]),
        "values_tensor": stored("v", [b"i", b"a longer one"]),
        "default_tensor": stored("d", [b"?"]),
    }
    pairs = {"cats_strings": keys, "cats_int64s": [5, 2, 1, 0]}
    return {
        "integers": encoder("text", "i64", keys_strings=keys, values_int64s=[3, 1 << 40, -1, 9]),
        "floats": encoder("text", "f32", keys_strings=keys, values_floats=[3.0, 0.5, -1.0, 9.0]),
        "texts": encoder("text", "text", keys_strings=keys, values_strings=["a", "bcd", "", "e"]),
        "tensors": encoder("text", "text", **tensors),
        "default": encoder(
            "text", "i64", keys_strings=keys[:1], values_int64s=[3], default_int64=-9
        ),
        "back": encoder(
            "text of integer",
            "text",
            keys_int64s=[5, 1],
            values_strings=["x", "yz"],
            default_string="none of them",
        ),
        "first version": encoder("text", "i64", 1, classes_strings=keys, default_int64=7),
        "back, first version": encoder("text of integer", "text", 1, classes_strings=keys),
        "mapper": encoder("text", "i64", 1, operator="CategoryMapper", **pairs),
        "mapper back": encoder("text of integer", "text", 1, operator="CategoryMapper", **pairs),
        "categories": encoder("text", "f32", operator="OneHotEncoder", cats_strings=keys),
    }


def of_one(nodes: list[Any], outputs: list[str], **more: Any) -> Case:
    inputs = {"x": WORDS, **more}
    return of_nodes(nodes, inputs, outputs), inputs, [o.split(":")[0] for o in outputs]


def stored(name: str, words: Sequence[bytes], dims: Sequence[int] | None = None) -> Any:
    """A tensor of texts."""
    dims = [len(words)] if dims is None else dims
    return TensorProto(name=name, data_type=TensorProto.STRING, dims=dims, string_data=words)


def constant(name: str, array: Any) -> Any:
    if np.asarray(array).dtype.kind in "OU":
        words = [str(word).encode() for word in np.asarray(array).reshape(-1)]
        return node("Constant", "", name, value=stored(name, words, np.shape(array)))
    return node("Constant", "", name, value=numpy_helper.from_array(np.asarray(array), name))


def moves() -> dict[str, Case]:
    at, mask = constant("i", [1, 0, 1]), np.array([True, False, False, True])
    pick = node(
        "If",
        "c",
        "y",
        then_branch=graph([node("Identity", "x", "u")], [], [info("u", None, "text")]),
        else_branch=graph([node("Identity", "z", "v")], [], [info("v", None, "text")]),
    )
    step = graph(
        [
            node("Identity", "s", "last"),
            node("Identity", "r", "before"),
            node("Identity", "s", "o"),
        ],
        [info("r", [4], "text"), info("s", [4], "text")],
        [info("last", [4], "text"), info("o", [4], "text")],
    )
    scan = node("Scan", "first x", "y ys", body=step, num_scan_inputs=1)
    classes = {"coefficients": [1.0, -1.0, 0.5, 2.0], "intercepts": [0.1, 0.2]}
    numbers = np.array([[1.0, 2], [0, -1]], np.float32)
    classified = node(
        "LinearClassifier", "n", "y p", domain=ML, classlabels_strings=["no", "yes"], **classes
    )
    return {
        "Equal": of_one([node("Equal", "x z", "y")], ["y:i1"], z=OTHERS),
        "Equal to one": of_one([constant("k", "du"), node("Equal", "x k", "y")], ["y:i1"]),
        "Where": of_one([constant("k", ["?"]), node("Where", "m x k", "y")], ["y:text"], m=mask),
        "Gather": of_one([at, node("Gather", "x i", "y", axis=1)], ["y:text"]),
        "Concat": of_one([node("Concat", "x z", "y", axis=0)], ["y:text"], z=OTHERS),
        "Transpose": of_one([node("Transpose", "x", "y")], ["y:text"]),
        "Split": of_one([node("Split", "x", "y z", axis=1, num_outputs=2)], ["y:text", "z:text"]),
        "Compress": of_one([node("Compress", "x m", "y", axis=1)], ["y:text"], m=mask),
        "If": of_one([pick], ["y:text"], z=OTHERS, c=np.array(False)),
        "Scan": of_one([constant("first", [""] * 4), scan], ["y:text", "ys:text"]),
        "LinearClassifier": of_one([classified], ["y:text", "p:f32"], n=numbers),
        "of chosen rows": of_one(
            [
                constant("r", [True, False]),
                node("And", "r k", "q"),
                node("Compress", "x q", "c", axis=0),
                node("LabelEncoder", "c", "n", domain=ML, keys_strings=["du"], values_int64s=[1]),
                node("OneHotEncoder", "c", "h", domain=ML, cats_strings=["du", "ich"]),
                node("LabelEncoder", "n", "y", domain=ML, keys_int64s=[1], values_strings=["D"]),
            ],
            ["y:text", "h:f32"],
            k=np.array([True, True]),
        ),
        "Identity": of_one([node("Identity", "x", "y")], ["y:text"]),
        "Expand": of_one([constant("s", [3, 2, 4]), node("Expand", "x s", "y")], ["y:text"]),
        "Shape": of_one([node("Shape", "x", "y")], ["y:i64"]),
        "ArrayFeatureExtractor": of_one(
            [at, node("ArrayFeatureExtractor", "x i", "y", domain=ML)], ["y:text"]
        ),
        "nothing": of_one([node("Gather", "x i", "y")], ["y:text"], i=np.zeros(0, np.int64)),
    }


CASES = {**encoders(), **moves()}


@pytest.mark.peers
@pytest.mark.parametrize("name", CASES)
def test_texts(name: str) -> None:
    made, inputs, outputs = CASES[name]
    want, compiled = by_onnxruntime(made, inputs), rnncc.compile(made)
    for got in (interpreted(made, inputs), compiled.run(inputs)):
        for output in outputs:
            kind = "U" if want[output].dtype == object else want[output].dtype.kind
            assert (got[output].dtype.kind, got[output].shape) == (kind, want[output].shape)
            assert (got[output] == want[output]).all()


def test_pads_are_empty_texts_or_the_one_given() -> None:
    for inputs, text in (("x p", ""), ("x p c", "around")):
        nodes = [constant("p", [0, 1, 0, 0]), constant("c", "around"), node("Pad", inputs, "y")]
        made = of_nodes(nodes, {"x": WORDS}, ["y:text"])
        got = rnncc.compile(made).run({"x": WORDS})["y"]
        assert (got == np.pad(WORDS, ((0, 0), (1, 0)), constant_values=text)).all()


def test_arrays_of_texts_and_numbers() -> None:
    """NumPy's texts, Python's, and numbers; what writes into a caller's arrays writes numbers."""
    made, _, _ = CASES["Equal to one"]
    compiled = rnncc.compile(made)
    for x in (WORDS, WORDS.astype(str), WORDS.tolist()):
        assert compiled.run({"x": x})["y"].sum() == 2
    numbers = np.array([[1, 2, 1, 77], [-1, 0, 1, 2]], np.int32)
    assert compiled.metadata["texts"] == ["", "du"]
    assert compiled.run({"x": numbers})["y"].sum() == 3
    same, _, _ = CASES["Identity"]
    out = {"y": np.zeros((2, 4), np.int32)}
    rnncc.compile(same).run({"x": WORDS}, out)
    assert out["y"].tolist() == [[1, 2, 0, 1], [3, 4, 5, 2]]
    with pytest.raises(ArrayError, match=r"x holds 3 of type int, no text"):
        compiled.run({"x": np.array([["a", 3, "b", "c"]] * 2, object)})
    with pytest.raises(ArrayError, match=r"x holds 3 of type int, no text"):
        compiled.run({"x": [["a", 3, "b", "c"]] * 2})
    with pytest.raises(ArrayError, match=r"x is \|S1, expected str, or int32 for numbers"):
        compiled.run({"x": np.zeros((2, 4), "S1")})
    with pytest.raises(ArrayError, match="NumPy drops zeros"):
        compiled.run({"x": np.array([["a", "a\0", "b", "c"]] * 2, object)})
    with pytest.raises(ArrayError, match="the number of no text"):
        rnncc.compile(same).run({"x": numbers})


def of_the_step_before(first: str) -> Any:
    """A model whose state is the text of the step before."""
    body = graph(
        [node("Identity", "s", "o"), node("Identity", "x", "n")],
        [info("s", [2], "text"), info("x", [2], "text")],
        [info("n", [2], "text"), info("o", [2], "text")],
    )
    nodes = [
        constant("first", [first, first]),
        node("Scan", "first x", "l y", body=body, num_scan_inputs=1),
    ]
    return model(nodes, [info("x", ["T", 2], "text")], [info("y", None, "text")], opset=19)


def stepped(stream: Any, *words: str) -> list[str]:
    return stream.step({"x": np.array([words], object)})["y"][0].tolist()


def test_streams_know_texts_of_earlier_steps() -> None:
    compiled = rnncc.compile(of_the_step_before("-"))
    stream, words = compiled.stream(), np.array([["a", "b"], ["c", "a"], ["-", ""]], object)
    steps = [stepped(stream, *row) for row in words]
    assert steps == compiled.run({"x": words})["y"].tolist() == [["-", "-"], ["a", "b"], ["c", "a"]]


def test_states_tell_their_texts() -> None:
    """Numbers that one stream gave texts mean others in another one."""
    compiled = rnncc.compile(of_the_step_before("-"))
    stream, other = compiled.stream(), compiled.stream()
    stepped(stream, "a", "-")
    stepped(other, "b", "c")
    other.state = stream.state
    for again in (other, pickle.loads(pickle.dumps(stream)), copy.deepcopy(stream)):
        assert stepped(again, "b", "c") == ["a", "-"]
        assert stepped(again, "a", "a") == ["b", "c"]
    with pytest.raises(StreamError, match="of another model"):
        rnncc.compile(of_the_step_before("+")).stream().state = stream.state


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'["a", "a"]', b'["-"]', b"[1]", b"\xff", b"[" * 100_000, b"9" * 5000]
)
def test_states_of_damaged_texts(content: bytes) -> None:
    with pytest.raises(StreamError, match="the state is damaged"):
        restored_texts(content, Texts(Words(["", "-"], (), ())))
    if content:
        with pytest.raises(StreamError, match="the state is damaged"):
            restored_texts(content, None)


def test_files(tmp_path: Path) -> None:
    """The library, its header's table and its wrapper, and the arrays that commands read."""
    made, _, _ = CASES["texts"]
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    command = [sys.executable, "-m", "rnncc"]
    at = str(tmp_path / "net.onnx")
    subprocess.run([*command, "compile", at, "-o", str(tmp_path)], check=True)
    np.savez(tmp_path / "in.npz", x=WORDS.astype(str))
    files = ["-i", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]
    subprocess.run([*command, "run", at, *files], check=True)
    subprocess.run([*command, "check", at], check=True)
    loaded = load(tmp_path / "libnet.so", name="net").run({"x": WORDS})["y"]
    assert (np.load(tmp_path / "out.npz")["y"] == loaded).all()
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "net.h"\nint main(void) { for (int i = 0; i < 8; i++) '
        'printf("%s|", i < (int)(sizeof net_texts / sizeof *net_texts) ? net_texts[i] : ""); }\n'
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-o", str(tmp_path / "main")]
    subprocess.run(["cc", *flags, str(tmp_path / "main.c")], check=True)
    printed = subprocess.run([str(tmp_path / "main")], check=True, capture_output=True).stdout
    assert printed.decode().split("|")[:4] == ["", "du", "ich", "naïve"]


def test_javascript_has_the_table() -> None:
    metadata = dict(rnncc.compile(CASES["texts"][0]).metadata)
    assert 'export const texts = ["", "du", ' in javascript(metadata)
    assert "export const texts: string[];" in types(metadata)
    del metadata["texts"]
    assert "texts" not in javascript(metadata) + types(metadata)


def refused() -> dict[str, tuple[Any, str]]:
    nan = stored("k", [b"a\0b"])
    bad = stored("k", [b"\xff"])
    kept = node("Constant", "", "y", value=nan)
    return {
        "characters": (
            of_one([node("StringNormalizer", "x", "y")], ["y:text"])[0],
            "does not see the characters",
        ),
        "Cast": (of_one([node("Cast", "x", "y", to=1)], ["y:f32"])[0], "makes numbers of texts"),
        "sums": (
            of_one(
                [
                    *(constant("at", [[0], [1]]), constant("u", [["a"], ["b"]])),
                    node("ScatterElements", "x at u", "y", axis=1, reduction="add"),
                ],
                ["y:text"],
            )[0],
            "folds text by 'add'",
        ),
        "Unique": (of_one([node("Unique", "x", "y")], ["y:text"])[0], "is text, supported"),
        "keys twice": (
            encoder("text", "text", keys_strings=["a"], keys_int64s=[1], values_strings=["b"])[0],
            "has keys twice, as strings and int64s",
        ),
        "categories twice": (
            encoder("text", "f32", operator="OneHotEncoder", cats_strings=["a"], cats_int64s=[1])[
                0
            ],
            "has categories twice",
        ),
        "a default of another type": (
            encoder(
                "text",
                "i64",
                keys_strings=["a"],
                values_int64s=[3],
                default_tensor=stored("d", [b"3"]),
            )[0],
            "none of its values' type",
        ),
        "zeros": (of_one([kept], ["y:text"])[0], "a text holds a zero"),
        "bytes": (of_one([node("Constant", "", "y", value=bad)], ["y:text"])[0], "is damaged"),
        "keys": (
            encoder("text", "i64", keys_int64s=[1], values_int64s=[3])[0],
            "of another type than its input",
        ),
    }


@pytest.mark.parametrize("name", refused())
def test_refused(name: str) -> None:
    made, what = refused()[name]
    with pytest.raises(CompileError, match=what):
        rnncc.compile(made)


def test_training_takes_no_texts() -> None:
    for name, port in (("floats", 'input "x"'), ("back", 'output "y"')):
        with pytest.raises(CompileError, match=f"{port}: holds text, which is not supported"):
            rnncc.compile(CASES[name][0], train=True)


def test_known_texts() -> None:
    assert texts_of(["ab", "c"], (2, 1)).tolist() == [["ab"], ["c"]]
    assert texts_of([]).shape == (0,)
    with pytest.raises(ValueError, match="too many"):
        texts_of(["a" * 9000] * 9000)


def test_further_texts_have_numbers_of_their_own() -> None:
    texts = Texts(Words(["", "a"], {"x"}, {"y"}))
    coded: Any = texts.coded({"x": ["b", "a", "c", "b"], "other": 3})
    assert coded["x"].tolist() == [2, 1, 3, 2] and coded["other"] == 3
    assert texts.decoded({"y": coded["x"]})["y"].tolist() == ["b", "a", "c", "b"]

"""A case of the fuzzer, what came of it, and what counts as a failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """A source, and how it is compiled.

    Attributes:
        name: family, seed and number, from which the case can be made again.
        source: an ONNX model, a NetDef or a text in `rnn`, as bytes.
        init: the init net of a NetDef, or the parameters of such a text.
        shapes: of inputs that the source leaves open.
        train: also compile it for training and compare gradients.
        oracle: compare with ONNX Runtime too, not with the interpreter alone.
        seed: of the inputs.
    """

    name: str
    source: bytes
    init: bytes | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    train: bool = False
    oracle: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Failure:
    """What must not happen.

    Attributes:
        kind: crash, hang, error, slow, memory, wrong or gradient.
        where: tells apart failures that have different causes: the place in the source that an
            exception came from, or the operators that a wrong model is made of.
        text: a traceback, or the numbers that differ.
    """

    kind: str
    where: str
    text: str

    @property
    def signature(self) -> str:
        """Failures of one signature are reported once, with their number."""
        return f"{self.kind}: {self.where}"


@dataclass
class Result:
    """What came of a case.

    Attributes:
        outcome: refused (by an error of ours), accepted (compiled), or failed.
        reason: the words of a refusal, without names and numbers.
        runs: inputs that were computed by machine code under guard pages.
        compared: of these, compared with the interpreter.
        oracle: of these, compared with ONNX Runtime as well.
        unstable: left uncompared, since rounding decides the result.
    """

    outcome: str = "refused"
    reason: str = ""
    runs: int = 0
    compared: int = 0
    oracle: int = 0
    unstable: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list[Failure])

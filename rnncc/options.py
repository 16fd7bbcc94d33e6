"""What a user can choose, checked once and then carried down the pipeline unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncc.codegen import targets
from rnncc.errors import CompileError
from rnncc.names import bad_library_name, library_name
from rnncc.records import record
from rnncc.sizes import number_of, parse_bytes

if TYPE_CHECKING:
    from rnncc.scalar import Scalar

Shape = Sequence[int | str | None] | str


MAX_ITERATIONS = (1 << 31) - 1
"""The largest limit of a loop, and of the steps of a call."""

PRECISIONS = ("fp32", "bf16", "int8")
"""What the weights of products may be."""


_FLAGS = "time_passes verify_each train threads prepack flush_denormals tune".split()
_KINDS: dict[tuple[type, ...], tuple[str, str]] = {
    (int,): ("a number", "order"),
    (str,): ("a text", "target cpu stop_after precision"),
    (Mapping,): ("a mapping of names", "shapes tuning functions"),
    (Iterable,): ("names, texts or a mapping", "bind state outputs_with_grads plan_for"),
}
"""What an option may be, and the words for it; others are checked by what they mean."""


@record
class Options:
    """The options of one compilation.

    Attributes:
        name: a C identifier: the library's name and the prefix of its symbols.
        shapes: input -> its shape, such as ("T", "N", 40) or "T,N,40", where it cannot be inferred
            or should be fixed; None or "?" leaves a size open.
        bind: input -> the constant that it is: a number, numbers in lists, or an array; or texts
            such as "sr=16000". It is no input of the model then, and decides what depends on it.
        target: an LLVM triple; None is this machine.
        cpu: an LLVM CPU name or "native"; None is native for this machine, else the baseline. For
            GPUs the chips that machine code is made for, such as "sm_80,sm_90a"; they run PTX too.
            Of several CPUs, such as "x86-64-v2,x86-64-v4", files have code for each.
        seed: of the random fills of an init net.
        stop_after: the step whose result `emit` shows; None is the last.
        dump_ir: a folder that gets the IR after every step.
        time_passes: print the time of every step to stderr.
        verify_each: verify the IR after every step.
        train: compile forward and backward instead of inference.
        order: 1, or 2 where backward is to have second derivatives: the net that is trained is then
            the given one with its gradients, `grad_NAME` (docs/training.md).
        recompute: what backward computes again: `none`, `all`, `auto`, or names of values,
            separated by commas.
        outputs_with_grads: the outputs that have outside gradients; None is all floats.
        memory_budget: bytes that tape and workspace may take together at the sizes `plan_for`;
            checkpoints along time make room. A text such as "64M" will do.
        prepack: pack parameters by a function of its own, for training that calls more than once
            between updates (docs/training.md).
        threads: also make the function by which several threads compute one call.
        plan_for: a value for each size, as "T,N", "T=100,N=4", (100, 4) or a mapping.
        max_iterations: the most iterations of a While loop whose trip count the net does not show,
            and the most rows of a Range whose length an ONNX model computes; of such a model a
            formula of sizes of its inputs, too, such as "16*T".
        max_steps: the most steps T of one call; more are an error of the call. What is computed
            ahead of a loop, and so the workspace, is no longer than that.
        state: inputs that keep what an output gave in the call before: {"h": "h_next"}, or texts
            such as "h=h_next"; so the net of one step becomes a stream.
        functions: DOMAIN.NAME of operators of an ONNX model -> what `rnncc.elementwise` made.
        precision: of the weights of products: fp32, bf16 or int8; training has bf16 on GPUs alone.
        flush_denormals: compute with zeros in the place of denormals, whatever the caller's mode,
            and leave that as it was (docs/determinism.md).
        tune: measure a few settings of the code generator on this machine, at the sizes `plan_for`
            (else T = 100 and 1), and compile with the fastest; they are remembered.
        tuning: such settings: knobs of the target's row in `rnncc.codegen.targets`.
    """

    name: str = "net"
    shapes: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    bind: Mapping[str, Any] = field(default_factory=dict[str, Any])
    target: str | None = None
    cpu: str | None = None
    seed: int = 0
    stop_after: str | None = None
    dump_ir: Path | None = None
    time_passes: bool = False
    verify_each: bool = False
    train: bool = False
    order: int = 1
    recompute: str = "auto"
    outputs_with_grads: Sequence[str] | None = None
    memory_budget: int | None = None
    plan_for: str | Sequence[int] | Mapping[str, int] | None = None
    prepack: bool = False
    threads: bool = False
    max_iterations: int | str | None = None
    max_steps: int | None = None
    precision: str = "fp32"
    flush_denormals: bool = False
    state: Mapping[str, str] = field(default_factory=dict[str, str])
    tune: bool = False
    tuning: Mapping[str, int] = field(default_factory=dict[str, int])
    functions: Mapping[str, Scalar] = field(default_factory=dict[str, "Scalar"])

    @property
    def recompute_names(self) -> frozenset[str]:
        """The names that `recompute` lists."""
        return frozenset(name.strip() for name in self.recompute.split(",") if name.strip())

    @staticmethod
    def of(net: object, chosen: Mapping[str, Any]) -> Options:
        """Check what a user gave; a name left out follows the net.

        Raises:
            CompileError: an option is unknown or its value makes no sense.
        """
        chosen = _with_target(chosen)
        names = [entry.name for entry in fields(Options)]
        if unknown := sorted(chosen.keys() - set(names)):
            raise CompileError("", f"no option is named {', '.join(unknown)}", ", ".join(names))
        values = {key: value for key, value in chosen.items() if value is not None}
        _check_kinds(values)
        values["name"] = _checked_name(values["name"]) if "name" in values else _name_of(net)
        if "dump_ir" in values:
            values["dump_ir"] = Path(values["dump_ir"])
        _check_training(values)
        _check_precision(values)
        check_tuning(values.get("tuning", {}), values.get("target"))
        _check_target(values)
        if "state" in values:
            values["state"] = _state_of(values["state"], bool(values.get("train")))
        if "bind" in values:
            from rnncc.constants import parse_constants  # imports NumPy, which help need not

            values["bind"] = parse_constants(values["bind"])
        seed = values.get("seed", 0)
        if not isinstance(seed, int) or seed < 0:
            raise CompileError("", f"seed {seed!r} is not a number from 0 up")
        _check_limits(values)
        return Options(**values)


def check_plan_for(options: Options) -> None:
    """Raise `CompileError` for sizes that nothing would be planned for."""
    if options.plan_for is not None and options.memory_budget is None and not options.tune:
        raise CompileError("--plan-for", "goes with --memory-budget or --tune")


def check_flag(value: object, name: str) -> None:
    """Raise `CompileError` for what Python would take for true, such as a text."""
    if not isinstance(value, int) or value not in (False, True):
        raise CompileError("", f"{name} {value!r} is not true or false")


def _check_limits(values: dict[str, Any]) -> None:
    if (most := number_of(str(values.get("max_iterations", "")))) is not None:
        values["max_iterations"] = most
    for limit in ("max_iterations", "max_steps"):
        most = values.get(limit, 1)
        if limit == "max_iterations" and isinstance(most, str):
            continue  # a formula: the model's sizes, which are not read yet, tell what it is
        if not isinstance(most, int) or not 1 <= most <= MAX_ITERATIONS:
            what = f"{limit} {most!r} is not a number from 1 to {MAX_ITERATIONS}"
            raise CompileError("", what)


def _check_kinds(values: Mapping[str, Any]) -> None:
    for name in _FLAGS:
        check_flag(values.get(name, False), name)
    for kinds, (expected, names) in _KINDS.items():
        for name in names.split():
            if name in values and not isinstance(values[name], kinds):
                raise CompileError("", f"{name} {values[name]!r} is not {expected}")
    if "dump_ir" in values and not is_path(values["dump_ir"]):
        raise CompileError("", f"dump_ir {values['dump_ir']!r} is not a path")
    for name, shape in values.get("shapes", {}).items():
        if not isinstance(shape, Iterable):
            raise CompileError("", f"the shape {shape!r} of {name} is not a text or a sequence")


def is_path(value: object) -> bool:
    """Whether it can name a file."""
    return "\0" not in str(value) and isinstance(value, str | PathLike)


def _with_target(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """`device`, `cpu` or `cuda`, as a target, unless one is named."""
    values = dict(chosen)
    device = values.pop("device", None)
    if device is None:
        return values
    if device not in targets.BY_DEVICE:
        raise CompileError("device", f"{device!r} is no device", ", ".join(targets.BY_DEVICE))
    if values.get("target") is None:
        values["target"] = targets.BY_DEVICE[device]
    return values


def _check_target(values: Mapping[str, Any]) -> None:
    for name, (what, hint) in targets.row_of(values.get("target")).refused.items():
        if values.get(name):
            raise CompileError(f"--{name.replace('_', '-')}", what, hint)


def _check_training(values: dict[str, Any]) -> None:
    for key in ("order", "recompute", "outputs_with_grads", "memory_budget", "prepack"):
        if values.get(key, False) is not False and not values.get("train"):
            raise CompileError("", f"{key} goes with train")
    if values.get("order", 1) not in (1, 2):
        raise CompileError("", f"order {values['order']!r} is neither 1 nor 2")
    if not isinstance(values.get("recompute", ""), str):
        raise CompileError("", f"recompute {values['recompute']!r} is not a text such as 'auto'")
    if "memory_budget" in values:
        values["memory_budget"] = parse_bytes(values["memory_budget"], "memory_budget")
    if isinstance(values.get("outputs_with_grads"), str):
        values["outputs_with_grads"] = [values["outputs_with_grads"]]


def _state_of(stated: Any, train: bool) -> dict[str, str]:
    """Pairs of an input and an output, from a mapping or from texts."""
    if isinstance(stated, Mapping):
        pairs = {str(name): str(output) for name, output in stated.items()}  # type: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    else:
        texts: list[Any] = [stated] if isinstance(stated, str) else list(stated)
        pairs = dict[str, str]()
        for text in texts:
            name, equals, output = str(text).partition("=")
            if not equals or not name or not output:
                raise CompileError("state", f"{text!r} is not of the form INPUT=OUTPUT")
            if name in pairs:
                raise CompileError("state", f"{name} is given twice")
            pairs[name] = output
    if pairs and train:
        raise CompileError("state", "a kept state is for inference", "leave train out")
    return pairs


def _check_precision(values: dict[str, Any]) -> None:
    precision = values.get("precision", "fp32")
    if precision not in PRECISIONS:
        what = f"precision {precision!r} is not one of {', '.join(PRECISIONS)}"
        raise CompileError("", what)
    if precision == "int8" and values.get("train"):
        what = "precision int8 is for inference: training computes in fp32 or bf16"
        raise CompileError("", what, "train without it, then compile the trained net with it")


def check_tuning(settings: Mapping[str, Any], target: str | None = None) -> None:
    """Raise `CompileError` for settings of the code generator that are none."""
    knobs = targets.row_of(target).knobs
    for name, value in settings.items():
        if name not in knobs:
            raise CompileError("", f"no setting is named {name}", ", ".join(knobs))
        if not isinstance(value, int) or value < 1:
            raise CompileError("", f"{name} {value!r} is not a number from 1 up")


def _checked_name(name: Any) -> str:
    fault = bad_library_name(name) if isinstance(name, str) else "is not a C identifier"
    if fault:
        raise CompileError("", f"name {name!r} {fault}")
    return name


def stem_of(path: Path) -> str:
    """A file's name without what says its format: `net` of `net.pb` and of `net.rnn.mlir`."""
    return path.stem.removesuffix(".rnn")


def _name_of(net: object) -> str:
    """The file's stem or the message's own name, as a C identifier."""
    name = stem_of(Path(net)) if isinstance(net, (str, Path)) else getattr(net, "name", "")
    return library_name(name) if isinstance(name, str) and name else "net"

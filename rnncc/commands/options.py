"""Options that several commands take, and what becomes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from rnncc.codegen import targets
from rnncc.errors import CompileError
from rnncc.options import Options
from rnncc.sizes import parse_bytes
from rnncc.sources import VARIABLE, NetFile, check_kept, limited, read_stdin, settled

Init = TypeVar("Init")


def settle(ctx: click.Context, param: click.Parameter, value: Path | None) -> NetFile | None:
    """Reads what can be read only once: a pipe, a device or, for `-`, standard input."""
    return read_stdin() if str(value) == "-" else settled(value)


def _set_limit(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.with_resource(limited(parse_bytes(value, "--max-input")))


class NamedPath(click.Path):
    """A path that is not empty, as variables are that a shell does not know: it would be `.`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty", param, ctx)
        return super().convert(value, param, ctx)


PATH = NamedPath(path_type=Path)
MAX_INPUT = click.option(
    "--max-input",
    metavar="BYTES",
    expose_value=False,
    is_eager=True,
    callback=_set_limit,
    help=f"The most bytes that an input may hold; 2G, or {VARIABLE}, without it.",
)
NET = click.argument("net", type=PATH, callback=settle)
INIT = click.option(
    "--init",
    "--params",
    "init",
    type=PATH,
    callback=settle,
    help="The net of parameters; of a net in .mlir the .npz beside it.",
)
INIT_NET = click.argument(
    "init_net",
    metavar="[INIT]",
    required=False,
    type=PATH,
    callback=settle,
)
"""The same, after the net."""
MEMORY_BUDGET = click.option(
    "--memory-budget",
    metavar="BYTES",
    help="With --train: what tape and workspace may take together at the sizes of --plan-for,"
    " such as 64M; checkpoints along time make room.",
)
RECOMPUTE = click.option(
    "--recompute", metavar="WHAT", help="In backward: auto, none, all, or blobs' names."
)


class FiniteRange(click.FloatRange):
    """A number within bounds; nan is within all that click checks."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is no finite number", param, ctx)
        return number


class NetCommand(click.Command):
    """A command with `--gpu [CHIPS]`: what follows it counts as chips only if it looks so."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for at, word in enumerate(args):
            if word == "--":
                break
            if word == "--gpu":
                chips = args[at + 1] if at + 1 < len(args) else ""
                is_given = chips.startswith("sm_")
                args[at : at + 1 + is_given] = [f"--gpu={chips if is_given else ''}"]
        return super().parse_args(ctx, args)


GPU = click.option(
    "--gpu",
    metavar="[CHIPS]",
    help="For NVIDIA GPUs, as PTX; and as machine code of chips such as sm_80,sm_90a.",
)
STATE = click.option(
    "--state",
    multiple=True,
    metavar="INPUT=OUTPUT",
    help="An input that keeps what an output gave in the call before, as in a stream.",
)
SHAPE = click.option(
    "--shape", "shapes", multiple=True, metavar="BLOB=T,N,40", help="An input's shape."
)
BIND = click.option(
    "--bind",
    multiple=True,
    metavar="INPUT=VALUE",
    help="A constant in the place of an input, such as sr=16000, x=[1,2,3] or x=x.npy.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def check_picture(out: Path | None, *suffixes: str) -> None:
    """Raise `CompileError` for a file whose suffix promises another format."""
    if out is not None and out.suffix and out.suffix not in suffixes:
        raise CompileError(str(out), f"is no file for a picture: {', '.join(suffixes)}")


def check_apart(out: Path | None, *read: NetFile | str | None) -> None:
    """Raise `CompileError` where a file that is read would be replaced.

    Args:
        read: nets, and arrays as `x.npz` or `NAME=x.npy`.
    """
    paths = list[Path]()
    for source in read:
        texts = {source, source.rpartition("=")[2]} if isinstance(source, str) else ()
        paths += [source] if isinstance(source, Path) else map(Path, texts)
    check_kept(out, paths)


def only_init(placed: Init | None, named: Init | None) -> Init | None:
    """The net of parameters, which may stand after the net or behind `--init`.

    Raises:
        CompileError: it is there twice.
    """
    if placed is not None and named is not None:
        raise CompileError("--init", "the init net is given twice")
    return placed if named is None else named


def _options(
    *options: Callable[[Any], Any],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that adds options, the last of them first in a command's help."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        for option in options:
            function = option(function)
        return function

    return add


import_options = _options(
    click.option(
        "--max-iterations",
        metavar="K",
        help="The most iterations of a While loop whose trip count the net does not show, and"
        " the most rows of a Range whose length an ONNX model computes; for ONNX also a formula"
        " of the model's sizes, such as 16*T.",
    ),
    click.option("--seed", type=int, default=0, help="Of random fills; 0 without it."),
    SHAPE,
    BIND,
    click.option("--name", help="NAME; the file's stem without it."),
    INIT,
    MAX_INPUT,
)
"""The options of every command that reads a net."""
_code_options = _options(
    click.option(
        "--cpu",
        metavar="CPU",
        help="native, or a CPU that LLVM knows; of x86-64 also several in one library, such as"
        " x86-64-v2,x86-64-v3,x86-64-v4.",
    ),
    click.option(
        "--target",
        metavar="NAME",
        help="The machine, if not this one: a name that rnncc targets lists, or a triple.",
    ),
    click.option(
        "--max-steps",
        type=int,
        metavar="K",
        help="The most steps T of one call, such as 1 of a stream: bounds the workspace.",
    ),
    STATE,
    click.option("--precision", metavar="KIND", help="Of weights: fp32 (without), bf16, int8."),
    click.option(
        "--flush-denormals",
        is_flag=True,
        help="Compute with zeros in the place of denormals; the caller's mode stays.",
    ),
)


def source_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that compiles a net."""
    return import_options(_code_options(function))


def options_of(net: NetFile, values: dict[str, Any]) -> Options:
    """What `source_options` or `import_options`, and a command's own, were given as.

    Raises:
        CompileError: a value makes no sense, or an input has two shapes or constants.
    """
    values, shapes = _with_gpu(values), dict[str, str]()
    for text in values.pop("shapes", ()):
        blob, equals, shape = text.rpartition("=")
        if not equals or not blob:
            raise CompileError("--shape", f"{text!r} is not of the form BLOB=T,N,40")
        if blob in shapes:
            raise CompileError("--shape", f"{text!r}: {blob} has a shape already")
        shapes[blob] = shape
    bind = _constants(values.pop("bind", ()))
    return Options.of(net, {**values, "shapes": shapes, "bind": bind})


def _with_gpu(options: dict[str, Any]) -> dict[str, Any]:
    """The target and its chips that `--gpu` stands for."""
    values = dict(options)
    chips = values.pop("gpu", None)
    if chips is None:
        return values
    if values.get("cpu") is not None:
        raise CompileError("--cpu", "does not go with --gpu", "chips are named as --gpu sm_90a")
    if values.get("target") not in (None, targets.BY_DEVICE["cuda"]):
        raise CompileError("--target", "does not go with --gpu, which names the machine")
    return {**values, "device": "cuda", "cpu": chips or None}


def _constants(texts: Sequence[str]) -> dict[str, Any]:
    """What `--bind` gives, of files their arrays."""
    if not texts:
        return {}
    from rnncc.constants import FORM, parse_constants

    constants = dict[str, Any]()
    for text in texts:
        if text.endswith(".npy"):
            from rnncc.commands.run.arrays import read_arrays

            parsed = read_arrays([text])
        else:
            parsed = parse_constants(text)
        for name, value in parsed.items():
            if not name or name in constants:
                raise CompileError("--bind", f"{text!r} {'is given twice' if name else FORM}")
            constants[name] = value
    return constants

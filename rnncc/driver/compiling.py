"""Runs the steps of `rnncc.pipeline` for every product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from rnncc import pipeline
from rnncc.codegen import targets
from rnncc.driver.trace import run
from rnncc.driver.versions import cpus_of, write_versions
from rnncc.errors import CompileError
from rnncc.garbage import only_among_new_objects
from rnncc.kern.library import Library
from rnncc.options import Options
from rnncc.packaging.compiled import CompiledModel
from rnncc.records import record
from rnncc.stages import ir_text
from rnncc.stages.compilation import Array, Compilation, Step
from rnncc.stages.threads import beside

if TYPE_CHECKING:
    from rnncc_runtime import Model, TrainableModel

    from rnncc.packaging.image import Image

DESCRIBED = 1
"""Steps of `pipeline.CODE` that each of several versions of a library takes."""


def compile_object(
    net: Any, init: Any, options: Options, meanwhile: Callable[[], object] | None = None
) -> CompiledModel:
    """A library's object code.

    Args:
        meanwhile: what may be done while LLVM works, in a thread of its own.
    """
    options = with_tuning(net, init, options)
    c = _coded(net, init, options, pipeline.CODE, meanwhile)
    name, triple = options.name, c.target.triple
    products = targets.row_of(options.target).products
    return CompiledModel(name, c.metadata, c.product, triple, options.tuning, products)


def _coded(
    net: Any,
    init: Any,
    options: Options,
    steps: Sequence[Step],
    meanwhile: Callable[[], object] | None = None,
) -> Compilation:
    """A net after some steps of `pipeline.CODE`: for one CPU, or for several that are named."""
    if not (cpus := cpus_of(options)):
        c = Compilation(options, net, init, meanwhile=meanwhile)
        run_from_net(c, pipeline.LOWERING, steps)
        return c

    def planned(options: Options) -> Compilation:
        c = Compilation(options, net, init)
        run_from_net(c, pipeline.LOWERING, steps[:DESCRIBED])
        return c

    c = write_versions(cpus, planned, options)
    c.meanwhile = meanwhile
    run(c, steps[DESCRIBED + 1 :])
    return c


def build_library(net: Any, init: Any, options: Options) -> Library:
    """The planned kernel programs of a model, for training or for inference."""
    compilation = Compilation(options, net, init)
    run_from_net(compilation, pipeline.LOWERING)
    return compilation.planned


def load_library(library: Library, options: Options) -> Model | TrainableModel:
    """Compile a planned library into this process."""
    from rnncc.driver.loading import load

    c = Compilation(options, in_memory=True, library=library)
    c.target.check_runs_here()
    run(c, pipeline.CODE)
    return load(_image(c), c.target)


@record
class Emitted:
    """One form of a net.

    Attributes:
        content: text, or bytes of an object.
        arrays: the parameters that go with `rnn`.
    """

    content: str | bytes
    arrays: Mapping[str, Array] = field(default_factory=dict[str, Array])


def emit(net: Any, init: Any, options: Options, kind: str) -> Emitted:
    """What is compiled, at one stage: rnn, kern, llvm, asm, c (texts) or obj (bytes).

    Raises:
        CompileError: as for compiling; or `options.stop_after` is no step that leaves that form.
    """
    options = with_tuning(net, init, options)
    if kind in ("rnn", "kern"):
        c = Compilation(options, net, init)
        steps = [] if kind == "rnn" else [pipeline.LOWERING]
        last = run_from_net(c, *steps, may_stop=True)
        if kind == "kern" and not c.kernels:
            raise CompileError("--stop-after", f"{last} leaves no kernels: it goes with --emit rnn")
        return Emitted(ir_text.write(c, last), {} if c.kernels else ir_text.parameters(c))
    c = _coded(net, init, options, pipeline.CODE[:-1])
    return Emitted(beside(c.form(kind))())


def run_from_net(compilation: Compilation, *further: Sequence[Step], may_stop: bool = False) -> str:
    """Read the net, then do what is left of its steps and all further ones.

    Args:
        may_stop: whether `stop_after` may name the last step: the caller does without the others.

    Returns:
        the name of the last step.
    """
    c = compilation
    if c.options.stop_after and not may_stop:
        raise CompileError("--stop-after", "goes with --emit rnn or --emit kern")
    run(c, pipeline.IMPORT)
    before = pipeline.net_steps(c.options)
    steps = [*before, *(step for steps in further for step in steps)]
    names, last = [step.name for step in steps], c.options.stop_after
    early = names[: len(before)]
    for name, where, known in ((last, "--stop-after", names), (c.after, c.origin, early)):
        if name and name not in known:
            raise CompileError(where, f"no step is named {name[:40]}", ", ".join(known))
    # a half-compiled model goes on behind its last step
    begin = names.index(c.after) + 1 if c.after else len(pipeline.IMPORT)
    for option, step in pipeline.LAST_READ.items():
        is_late = step in names[:begin] and option not in c.carried
        if is_late and getattr(c.options, option) != getattr(Options(), option):
            raise CompileError(c.origin, f"{option} given for a net that is past {step}")
    if ("net" in c.programs) != (begin <= names.index(pipeline.CUT[c.options.train])):
        raise CompileError(c.origin, f"holds other programs than {c.after or 'reading'} leaves")
    end = names.index(last) + 1 if last else len(steps)
    run(c, steps[begin:end], begin + 1)
    return names[max(begin, end) - 1]


def with_tuning(net: Any, init: Any, options: Options) -> Options:
    """The options with whatever has to be measured first."""
    if not options.tune or cpus_of(options):
        return options
    from rnncc.driver.tuning import tuned

    def make(candidate: Options) -> tuple[Image, Library]:
        c = Compilation(candidate, net, init, in_memory=True)
        return make_image(c), c.planned

    return tuned(net, init, options, make)


def make_image(compilation: Compilation) -> Image:
    """Compile for this process."""
    with only_among_new_objects():
        run_from_net(compilation, pipeline.LOWERING, pipeline.CODE)
    return _image(compilation)


def _image(compilation: Compilation) -> Image:
    from rnncc.packaging.image import Image

    c, code = compilation, compilation.code
    assert code is not None
    return Image(c.metadata, code.symbols, c.product, c.planned.weights_block())

"""The table of contents: the passes of each product, in order, each with why it stands there."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncc.codegen import targets
from rnncc.errors import CompileError, InternalError, SizeError
from rnncc.options import Options
from rnncc.stages import beside, show, timed
from rnncc.writing import write_file, write_new

if TYPE_CHECKING:
    from rnncc_runtime import Model, TrainableModel

    from rnncc.codegen.target import Target
    from rnncc.ir.kernel_program import KernelProgram
    from rnncc.ir.library import Library
    from rnncc.ir.program import Program
    from rnncc.packaging.compiled import Compiled
    from rnncc.packaging.image import Image

    Step = tuple[str, Callable[[Program], object]]


def passes() -> list[Step]:
    """The passes of inference on the `rnn` dialect."""
    from rnncc.passes.drop_stops import DropStops
    from rnncc.passes.fold_constants import fold_constants
    from rnncc.passes.hoist import Hoist
    from rnncc.passes.mask_rows import MaskRows
    from rnncc.passes.merge_matmuls import MergeMatmuls
    from rnncc.passes.regroup_sums import RegroupSums
    from rnncc.passes.simplify import Simplify
    from rnncc.passes.sink import Sink
    from rnncc.passes.split_scans import SplitScans

    simplify, regroup = _on_net(Simplify()), _on_net(RegroupSums())
    return [
        ("drop-stops", _on_net(DropStops())),  # they only matter to gradients
        ("simplify", simplify),  # front ends may be naive
        ("split-scans", _on_net(SplitScans())),  # so that upper layers' projections can be hoisted
        ("simplify-split", simplify),  # each loop keeps what is its own
        ("sink", _on_net(Sink())),  # gradients of weights, in nets that carry their own
        ("fold", fold_constants),  # what parameters alone decide is known now
        ("merge-matmuls", _on_net(MergeMatmuls())),  # one pass over h for all gates
        ("regroup-sums", regroup),  # what a step's sums hold of x_t stands together
        ("hoist", _on_net(Hoist())),  # the input projection is half of the arithmetic
        ("regroup-biases", regroup),  # those that came out of the loop meet those that were outside
        ("simplify-hoisted", simplify),  # what the others left behind
        ("fold-joined", fold_constants),  # joined weights, added biases
        ("mask-rows", _on_net(MaskRows())),  # which rows a loop computes is told before it runs
        ("simplify-last", simplify),  # what folding left behind
    ]


def import_source(net: Any, init: Any, options: Options) -> Program:
    """Read a net as a program, checked: a Program, an ONNX model, else a Caffe2 net."""
    from rnncc.frontends.onnx.reading import is_onnx
    from rnncc.ir.program import Program

    if isinstance(net, Program):
        return _take(net, init, options)
    return (_read_onnx if is_onnx(net) else _read_caffe2)(net, init, options)


def _read_onnx(model: Any, init: Any, options: Options) -> Program:
    from rnncc.frontends.onnx.importer import import_model

    if init is not None:
        raise CompileError("--init", "an ONNX model holds its parameters itself")
    return import_model(
        model,
        shapes=dict(options.shapes),
        name=options.name,
        max_iterations=options.max_iterations,
        training=options.train,
        functions=options.functions,
        bind=options.bind,
    )


def _read_caffe2(net: Any, init: Any, options: Options) -> Program:
    from rnncc.frontends.caffe2 import import_net
    from rnncc.options import RULES

    names = options.recompute_names if options.train and options.recompute not in RULES else None
    shapes, loops = dict(options.shapes), (options.max_iterations, options.train)
    return import_net(net, init, shapes, options.name, options.seed, names, *loops, options.bind)


def _take(program: Program, init: Any, options: Options) -> Program:
    """A copy of a program that was built in Python; its shapes and parameters are in it."""
    if init is not None or options.shapes or options.bind:
        what = "an init net" if init is not None else "shapes" if options.shapes else "constants"
        raise CompileError(program.source, f"{what} given for a net that has its own")
    made = program.copy()
    made.name = options.name
    return made


def optimise(program: Program, options: Options) -> Program:
    """Run the passes, up to `options.stop_after`."""
    names = [name for name, _ in passes()]
    if options.stop_after is not None and options.stop_after not in names:
        raise CompileError("", f"no pass is named {options.stop_after}", ", ".join(names))
    run = _Run(options)
    run.dump("import", program)
    for name, step in passes():
        with run.timed(name, program):
            step(program)
        if options.verify_each:
            program.module.verify()
        if name == options.stop_after:
            break
    run.report()
    return program


def lower(program: Program, options: Options) -> KernelProgram:
    """Passes, kernels, memory."""
    return lower_kernels(optimise(program, options), options)


def lower_kernels(
    program: Program, options: Options, adjust: Callable[[KernelProgram], object] | None = None
) -> KernelProgram:
    """Kernels and memory of a program after its passes; `adjust` goes before the plan."""
    from rnncc.lowering.lower import lower as lower_net
    from rnncc.planning.layout import plan

    target = target_of(options)
    run = _Run(options, first=len(passes()) + 1)
    with run.timed("fuse", program):
        # everything between products becomes their epilogue
        kernels = lower_net(program, target, options.precision)
    if adjust is not None:
        adjust(kernels)
    with run.timed("plan", kernels):
        plan(kernels)  # last: it places what is left
    run.report()
    return kernels


def compile_object(
    net: Any, init: Any, options: Options, meanwhile: Callable[[], object] | None = None
) -> Compiled:
    """A library's object code.

    Args:
        meanwhile: what may be done while LLVM works, in a thread of its own.
    """
    with timed(options.time_passes, "imports"):
        from rnncc.packaging.compiled import Compiled
        from rnncc.packaging.describe import describe

        _import_compiler(options)
    options = _settled(net, init, options)
    with timed(options.time_passes, "read"):
        program = import_source(net, init, options)
    library = build_library(program, options)
    target = target_of(options)
    metadata = describe(library, target)
    with _Run(options).timed("llvm", library):
        with timed(options.time_passes, "ir"):
            forms = target.write(library, metadata)

        def finish() -> bytes:
            with timed(options.time_passes, "llvm"):
                made = forms()
            with timed(options.time_passes, "machine code"):
                code = made[target.product]()
                return code if isinstance(code, bytes) else code.encode()

        wait = beside(finish)
        if meanwhile is not None:
            meanwhile()
        code = wait()
    products = targets.row_of(options.target).products
    return Compiled(library.name, metadata, code, target.triple, options.tuning, products)


def _import_compiler(options: Options) -> None:
    """Import at once what every compilation needs, which --time-passes shows apart."""
    product = "training" if options.train else "inference"
    for name in ("frontends.caffe2", product, "lowering.lower", "planning.layout"):
        import_module(f"rnncc.{name}")
    targets.prepare(options.target)
    passes()


def target_of(options: Options) -> Target:
    """The machine that options name, with their settings of the code generator."""
    return targets.resolve(options.target, options.cpu, options.tuning)


def _settled(net: Any, init: Any, options: Options) -> Options:
    """The options with whatever has to be measured first."""
    if not options.tune:
        return options
    from rnncc.tuning import tuned

    return tuned(net, init, options)


def build_library(program: Program, options: Options) -> Library:
    """The planned kernel programs of a model, for training or for inference."""
    from rnncc.ir.bounds import bounds_of

    bounds = bounds_of(program.net)  # of what was read: passes may join slices
    if options.train:
        from rnncc.training import train

        library = train(program, options)
    else:
        from rnncc.inference import infer

        library = infer(program, options)
    library.shared, library.bounds = options.threads, bounds
    return library


def compile_in_memory(net: Any, init: Any, options: Options) -> Model | TrainableModel:
    """A model that runs in this process; from the cache on disk if it was compiled before."""
    from rnncc import cache
    from rnncc.packaging.image import Image, ImageError

    options = _settled(net, init, options)
    target = target_of(options)
    target.check_runs_here()
    key = cache.key_of(net, init, options, target)
    found = cache.find(key)
    if found is not None:
        with suppress(ImageError):  # what is no image is made anew
            return load_image(Image.from_bytes(found))
    image = make_image(build_library(import_source(net, init, options), options), options)
    if key == cache.key_of(net, init, options, target):  # the files are what they were
        cache.keep(key, image.to_bytes())
    return load_image(image)


def load_library(library: Library, options: Options) -> Model | TrainableModel:
    """Compile a library into this process."""
    return load_image(make_image(library, options))


def make_image(library: Library, options: Options) -> Image:
    """Compile a library into memory."""
    from rnncc.packaging.describe import describe
    from rnncc.packaging.image import Image

    target = target_of(options)
    target.check_runs_here()
    metadata = describe(library, target)
    run = _Run(options)
    with run.timed("llvm", library):
        symbols, finish = target.write_in_memory(library, metadata)
        # in a thread, as this one then ends at once when it is interrupted
        code = beside(finish)()
    run.report()
    return Image(metadata, symbols, code, library.weights_block())


def load_image(image: Image) -> Model | TrainableModel:
    """Load compiled code into this process."""
    from rnncc_runtime import Model, TrainableModel
    from rnncc_runtime.library import bind

    engine, weights = targets.load(image.metadata["target"], image.code), image.weights
    functions = {
        name: bind(image.metadata, name, engine.get_function_address(symbol), weights.ctypes.data)
        for name, symbol in image.symbols.items()
    }
    kind = TrainableModel if "trained" in image.metadata else Model
    return kind(image.metadata, functions, keep=(engine, weights))


def emit(net: Any, init: Any, options: Options, kind: str) -> str | bytes:
    """One form of a net: rnn, kern, llvm, asm (texts) or obj (bytes)."""
    from rnncc.packaging.describe import describe

    options = _settled(net, init, options)
    program = import_source(net, init, options)
    if kind == "rnn":
        return "".join(f"{optimise(part, options).module}\n" for part in _parts(program, options))
    library = build_library(program, options)
    if kind == "kern":
        return "".join(f"{kernels.module}\n" for kernels in library.programs.values())
    target = target_of(options)
    finish = target.write(library, describe(library, target))
    forms = beside(finish)()
    if kind not in forms:
        what = f"code for {target.triple} has no form {kind}"
        raise CompileError("--emit", what, f"rnn, kern, {', '.join(forms)}")
    return beside(forms[kind])()


def _parts(program: Program, options: Options) -> list[Program]:
    """What the passes of inference are run on."""
    if not options.train:
        return [program]
    from rnncc.training import make_phases

    phases, _ = make_phases(program, options)
    return [phases.forward, phases.backward]


def _on_net(a_pass: Any) -> Callable[[Program], None]:
    return lambda program: a_pass.rewrite(program.net)


@dataclass
class _Run:
    """Dumps, times and blame of passes, as the options ask."""

    options: Options
    first: int = 1
    times: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    @contextmanager
    def timed(self, name: str, program: Any) -> Generator[None]:
        begun = time.perf_counter()
        try:
            yield
        except SizeError as error:
            raise CompileError(program.source, error.what, error.hint) from error
        except (CompileError, InternalError, KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            raise self._blame(name, program) from error
        self.times.append((name, time.perf_counter() - begun))
        self.dump(name, program)

    def dump(self, name: str, program: Any) -> None:
        """Write the module to the folder of --dump-ir, if one was given."""
        if self.options.dump_ir is not None:
            number = self.first + len(self.times) - (name != "import")
            path = self.options.dump_ir / f"{number:02}-{name}.mlir"
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_file(path, f"{program}\n")
            except OSError as error:
                raise CompileError(str(path), f"cannot write: {error.strerror}") from error

    def report(self) -> None:
        """Print the times of --time-passes."""
        if self.options.time_passes:
            for name, seconds in self.times:
                show(name, seconds)

    def _blame(self, name: str, program: Any) -> InternalError:
        import tempfile

        told = f"pass {name!r} failed on {program.source}"
        try:
            folder = Path(tempfile.gettempdir())
            path = write_new(folder, f"rnncc-{program.name}-{name}", ".mlir", f"{program}\n")
        except Exception as error:  # the IR may be what is wrong, or the disk full
            return InternalError(f"{told}; its IR could not be written: {error}")
        return InternalError(f"{told}; its IR is in {path}")

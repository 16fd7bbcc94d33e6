"""A model on its way to code, and the steps that take it there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rnncc.codegen import targets
from rnncc.errors import CompileError
from rnncc.ir.rewriting import NetPass
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.codegen.target import Code, Forms, Target
    from rnncc.ir.dims import Dim
    from rnncc.ir.program import Counts, Program
    from rnncc.kern.library import Library
    from rnncc.kern.program import KernelProgram
    from rnncc.options import Options
    from rnncc.passes.gradients.split_phases import Phases
    from rnncc.passes.streams.streaming import Streamed

Array = np.ndarray[Any, Any]


@dataclass
class Compilation:
    """One model while it is compiled: each step of `rnncc.pipeline` reads and replaces parts of it.

    Attributes:
        options: what the user chose.
        source, init: what is to be read.
        in_memory: whether the code is for this process: without weights, relocated here.
        after: the last step that had run where a file of ours holds a half-compiled model, or "".
        carried: the options that this file states.
        programs: in `rnn`, by what they compute: `net` as read; then `init` and `step`, or `run`
            alone where the net cannot stream; or `forward` and `backward`.
        symbols: the sizes of the net as read: what functions take, though passes may drop some.
        inputs: the names of its inputs, in order.
        bounds: formulas of its sizes that must not be negative; passes may join slices.
        piece_bounds: those of a step's sizes that depend on how long a piece of a stream is.
        counts, texts: see `Program`.
        streamed: how `init` and `step` work together; None before the cut, and without one.
        refusal: why the net cannot stream, where it cannot.
        phases: how `forward` and `backward` work together.
        trip_counts: names that stand for trip counts which the net has as numbers.
        initial: what the parameters that are trained start with.
        kernels: the programs in `kern`, by the same names.
        library: the planned programs, ready for code.
        metadata: what the library tells of itself.
        code, forms, product: the library as the target writes it (LLVM IR, C), after LLVM's passes
            in all forms, and in the one that files are made of.
        meanwhile: what may be done while LLVM works in a thread of its own.
    """

    options: Options
    source: Any = None
    init: Any = None
    in_memory: bool = False
    after: str = ""
    carried: frozenset[str] = frozenset()
    programs: dict[str, Program] = field(default_factory=dict[str, "Program"])
    symbols: list[str] = field(default_factory=list[str])
    inputs: list[str] = field(default_factory=list[str])
    bounds: tuple[Dim, ...] = ()
    piece_bounds: tuple[Dim, ...] = ()
    counts: Counts = field(default_factory=dict[str, tuple[tuple[str, int], ...]])
    texts: tuple[str, ...] = ()
    streamed: Streamed | None = None
    refusal: str = ""
    phases: Phases | None = None
    trip_counts: dict[str, int] = field(default_factory=dict[str, int])
    initial: dict[str, Array] = field(default_factory=dict[str, Array])
    kernels: dict[str, KernelProgram] = field(default_factory=dict[str, "KernelProgram"])
    library: Library | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    code: Code | None = None
    forms: Forms | None = None
    product: bytes = b""
    meanwhile: Callable[[], object] | None = None

    @cached_property
    def target(self) -> Target:
        """The machine that the options name, with their settings of the code generator."""
        options = self.options
        return targets.resolve(options.target, options.cpu, options.tuning)

    def form(self, name: str) -> Callable[[], str | bytes]:
        """What makes one form of the code.

        Raises:
            CompileError: the target has no such form.
        """
        assert self.forms is not None, "the code is not finished yet"
        if name not in self.forms:
            what = f"code for {self.target.triple} has no form {name}"
            raise CompileError("--emit", what, f"rnn, kern, {', '.join(self.forms)}")
        return self.forms[name]

    @property
    def origin(self) -> str:
        """The file that messages name."""
        return next((program.source for program in self.programs.values()), "")

    @property
    def planned(self) -> Library:
        """The library, once `assemble` has run."""
        assert self.library is not None, "the library is not assembled yet"
        return self.library

    def set_phases(self, phases: Phases) -> None:
        """Compile both halves of training from now on."""
        self.phases = phases
        self.programs = {"forward": phases.forward, "backward": phases.backward}


@record
class Step:
    """One row of the pipeline.

    Attributes:
        name: unique among the steps of a product: what --stop-after and dumps call it.
        action: a pass over every net, or what is done to the compilation.
        why: why it stands where it stands.
        only: of which compilations it is a step; without it of all.
    """

    name: str
    action: NetPass | Callable[[Compilation], None]
    why: str
    only: Callable[[Compilation], bool] | None = None

    def run(self, compilation: Compilation) -> None:
        """Take a compilation one step further."""
        if self.only is not None and not self.only(compilation):
            return
        if isinstance(self.action, NetPass):
            for program in compilation.programs.values():
                self.action.rewrite(program.net)
        else:
            self.action(compilation)

"""The table of contents: the steps of each product, in order, each with why it stands there."""

from __future__ import annotations

from rnncc.options import Options
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.gradients.strip_stop_gradient import StripStopGradient
from rnncc.passes.layouts.carry_layouts import CarryLayouts
from rnncc.passes.layouts.sink_transposes import SinkTransposes
from rnncc.passes.layouts.split_windows import SplitWindows
from rnncc.passes.layouts.stay_in_planes import StayInPlanes
from rnncc.passes.layouts.turn_states import TurnStates
from rnncc.passes.loops.accumulate import Accumulate
from rnncc.passes.loops.add_before_sums import AddBeforeSums
from rnncc.passes.loops.hoist import Hoist
from rnncc.passes.loops.mask_rows import MaskRows
from rnncc.passes.loops.merge_matmuls import MergeMatmuls
from rnncc.passes.loops.multiply_adds import MultiplyAdds
from rnncc.passes.loops.reassociate_sums import ReassociateSums
from rnncc.passes.loops.separate_parts import SeparateParts
from rnncc.passes.loops.sink import Sink
from rnncc.passes.loops.split_scans import SplitScans
from rnncc.passes.loops.sum_late import SumLate
from rnncc.stages import code, lowering, reading, streaming, training
from rnncc.stages.compilation import Step

IMPORT = [
    Step("read", reading.read, "what the file says, checked; names and locations kept"),
]

STREAMING = [
    Step("strip-stop-gradient", StripStopGradient(), "they only matter to gradients"),
    Step("simplify", Simplify(), "what remains decides what is kept of a sequence"),
    Step("split-stream", streaming.cut, "parts what is done once from what every step does"),
]

LEAVE_LOOPS = [
    Step(
        "reassociate-sums",
        ReassociateSums(),
        "the terms of x_t stand together, to leave the loop as one",
    ),
    Step("multiply-adds", MultiplyAdds(), "no bit may depend on what leaves a loop or is kept"),
    Step("hoist", Hoist(), "the input projection is half of the arithmetic"),
    Step("turn-states", TurnStates(), "invariants have left the loop by now"),
    Step("regroup-biases", ReassociateSums(), "biases that left the loop join those outside"),
    Step("simplify-hoisted", Simplify(), "what the others left behind"),
]
"""In inference, and in training ahead of the gradients: what is the same in all iterations, or can
be computed for all of them at once."""

SEPARATE_PARTS = Step(
    "separate-parts",
    SeparateParts(),
    "on a GPU: no kernel waits for gates to stand together",
    only=lowering.waits_are_dear,
)

INFERENCE = [
    Step("simplify-parts", Simplify(), "each part keeps what is its own"),
    Step("split-scans", SplitScans(), "so that upper layers' projections can be hoisted"),
    Step("simplify-scans", Simplify(), "each loop keeps what is its own"),
    Step("carry-layouts", CarryLayouts(), "convolutions compute states, and others read them"),
    Step(
        "sink-transposes",
        SinkTransposes(),
        "what follows convolutions becomes their products' epilogue",
    ),
    Step("stay-in-planes", StayInPlanes(), "sums over windows that stand between no products"),
    Step("sink", Sink(), "gradients of weights, in nets with gradient operators"),
    Step("fold", reading.fold, "what depends on parameters alone is known now"),
    Step("merge-matmuls", MergeMatmuls(), "one pass over h for all gates"),
    *LEAVE_LOOPS,
    Step("fold-joined", reading.fold, "joined weights, added biases"),
    Step("mask-rows", MaskRows(), "the active rows are known before a loop runs"),
    Step(
        "split-windows",
        SplitWindows(),
        "where a product reads one run of a row",
        only=lowering.copies_windows,
    ),
    Step("simplify-last", Simplify(), "what folding left behind"),
    SEPARATE_PARTS,
]

TRAINING = [
    Step("prepare", training.prepare, "a trip count is a size like T, not a width"),
    # up to the gradients: all that changes how sums are grouped, so that what backward computes
    # again has the bits that forward had
    Step("simplify", Simplify(), "front ends may be naive"),
    Step("split-windows", SplitWindows(), "gradients are sums over runs, too, and copy nothing"),
    Step("add-gradients", training.add_gradients, "order 2: they are trained like any output"),
    Step("split-scans", SplitScans(), "each layer gets a backward loop of its own"),
    Step("simplify-scans", Simplify(), "each loop keeps what is its own"),
    Step("carry-layouts", CarryLayouts(), "gradients have the layouts of what they belong to"),
    Step(
        "sink-transposes",
        SinkTransposes(for_gradients=True),
        "a layer's layout is that of the next one's windows",
    ),
    Step("merge-matmuls", MergeMatmuls(), "one product for all gates has one as its gradient"),
    *LEAVE_LOOPS,
    Step("differentiate", training.differentiate, "on few, meaningful ops"),
    Step("add-before-sums", AddBeforeSums(), "sums that nearly cancel lose digits"),
    Step(
        "multiply-adds-of-gradients",
        MultiplyAdds(gradients=True),
        "nor may a bit of gradients depend on what is kept",
    ),
    Step("split-phases", training.split, "needs to know what is cheap to compute again"),
    # from here on each half for itself; nothing changes a bit
    Step("strip-stop-gradient", StripStopGradient(), "they have done their work"),
    Step("simplify-phases", Simplify(), "what the choice left behind"),
    Step(
        "keep-rows",
        Sink(keeps_rows=True),
        "on a GPU: a sum in a step is one more kernel to wait for",
        only=lowering.waits_are_dear,
    ),
    Step("sink", Sink(), "a weight's gradient becomes one sum over all rows"),
    Step("accumulate", Accumulate(), "so do the gradients of what stands outside of loops"),
    Step("add-before-late-sums", AddBeforeSums(), "of steps and of what is outside, too"),
    Step("sum-late", SumLate(), "the sums of memory-bound steps go into their one kernel"),
    Step("simplify-sunk", Simplify(), "loops that have less to carry"),
    Step("merge-recomputed", MergeMatmuls(), "gates that are computed again"),
    Step("hoist-recomputed", Hoist(functions=False), "products too, for all steps at once"),
    Step("simplify-recomputed", Simplify(), "what the others left behind"),
    Step("pack-tape", training.pack, "what is saved side by side is replaced by its gradients"),
    Step("simplify-packed", Simplify(), "views of what is packed"),
    Step("checkpoint", training.checkpoint, "only what is left has to fit into the budget"),
    Step(
        "split-windows-of-gradients",
        SplitWindows(),
        "a convolution's gradient is one, and may have long runs",
        only=lowering.copies_windows,
    ),
    Step("number-trip-counts", training.number_trip_counts, "loops of known length cost less"),
    SEPARATE_PARTS,
]

LOWERING = [
    Step("lower", lowering.lower, "everything between products becomes their epilogue"),
    Step(
        "round-rows",
        lowering.round_rows,
        "bf16: weights' gradients read rows by tiles, over and over",
    ),
    Step("absent-outputs", lowering.absent_outputs, "an output that nobody wants costs nothing"),
    Step("reuse-tape", lowering.reuse_tape, "backward reads a slot once and may write over it"),
    Step("prepack", lowering.prepack, "what depends on parameters alone, for several calls"),
    Step("plan", lowering.plan, "places what is left"),
    Step("assemble", lowering.assemble, "programs share their weights, state and tape"),
]

CODE = [
    Step("describe", code.describe, "the library holds what wrappers need to know of it"),
    Step("write-code", code.write, "kernels and entry points, for one target"),
    Step("optimise", code.optimise, "inlines, and cleans up what was written plainly"),
    Step("machine-code", code.make_product, "registers and encodings are LLVM's"),
]


CUT = {False: "split-stream", True: "split-phases"}
"""Of inference and of training: the step that makes several programs of the net."""

LAST_READ = {
    "state": "split-stream",
    "order": "add-gradients",
    "outputs_with_grads": "differentiate",
    "recompute": "checkpoint",
    "memory_budget": "checkpoint",
}
"""Options that do nothing for a half-compiled model behind these steps."""


def net_steps(options: Options) -> list[Step]:
    """The steps on nets in `rnn`."""
    return [*IMPORT, *(TRAINING if options.train else [*STREAMING, *INFERENCE])]

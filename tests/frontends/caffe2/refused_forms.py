"""Each form that docs/operators.md calls refused: nets that have it, and what is said of them."""

from __future__ import annotations

from tests.frontends.caffe2.hierarchies import doubled, misread
from tests.frontends.caffe2.nets import net, op
from tests.frontends.caffe2.refused_nets import (
    BOOL,
    DOUBLE,
    INT,
    INT64,
    Maker,
    Shapes,
    bad,
    lengths64,
    mixed,
    negative_lengths,
    one,
    read_mask,
    unit,
    with_cast,
    written_later,
)

W: Shapes = {"x": (2, 3), "w": (4, 3)}
IMAGE: Shapes = {"x": (1, 2, 4, 4), "w": (2, 2, 2, 2)}
PLANES: Shapes = {"x": (1, 2, 4, 4)}
RUN_TIME = "not known at compile time"

FORMS: dict[str, list[tuple[str, Maker, str]]] = {
    # form: the operators (or * for all), how, what the message says
    "tensors of integers or bools": [
        ("*", one(cast=INT, exponent=2.0), "is i32, expected a float")
    ],
    "a bound that is NaN": [("Clip", one(min=float("nan")), "'min' is NaN")],
    "exponents in a tensor": [
        ("Pow", one("x e"), "has 2 inputs, expected 1"),
        ("Pow", one(), "lacks the argument 'exponent'"),
    ],
    "elements other than bool": [("Not", one(cast=INT), "expected i1")],
    "types other than float, double, int32, int64 and bool": [
        ("Cast", one(to=12), "casts to 12"),
        ("ConstantFill", one("", shape=[2], dtype=12), "element type 12 is not supported"),
    ],
    "writing X or Y later on": [("*", written_later, "through Alias")],
    "operands of several shapes or element types": [
        ("*", one("x z", shapes={"x": (2, 3), "z": (3,)}), "expected [2, 3]"),
        ("*", mixed, "f32|i32"),
    ],
    "operands of several element types": [("*", mixed, "f32|i32")],
    "operands of other types than bool": [("*", mixed, "expected i1")],
    "`axis` without `broadcast`": [("*", one("x z", axis=0), "takes broadcast = 1")],
    "`axis_str`": [
        ("*", one("x z", broadcast=1, axis_str="C"), "names an axis|'axis_str' is not supported")
    ],
    "`axis_w` other than 1": [("*", one("x w b", shapes=W, axis_w=0), "'axis_w' is not 1")],
    "weights that have not two axes": [
        ("*", one("x w b", shapes={"x": (2, 3), "w": (4, 3, 1)}), "expected 2 axes")
    ],
    "weights of symbolic sizes": [
        ("FC", one("x w b", shapes={"x": ("N", "K"), "w": (4, "K")}), "needs a number"),
        ("FCTransposed", one("x w b", shapes={"x": ("N", "K"), "w": ("K", 4)}), "needs a number"),
        (
            "Conv ConvTranspose",
            one("x w", shapes={"x": (1, "C", 4, 4), "w": ("C", "C", 2, 2)}, kernel=2),
            "needs a number",
        ),
    ],
    "elements other than float32": [
        ("FC FCTransposed", one("x w b", shapes={"x": (2, 3)}, cast=DOUBLE), "f64|f32"),
        ("Scale", one(cast=DOUBLE, scale=2.0), "f64"),
        ("LayerNorm Softmax SumElements SumSqrElements", one(cast=DOUBLE), "f64"),
        ("SequenceMask", one("x n", cast=DOUBLE, mode="sequence"), "f64"),
        ("WeightedSum LengthsSum LengthsMean LengthsMax", one("x w", cast=DOUBLE), "f64"),
        ("Moments", one("x", "m v", cast=DOUBLE), "f64"),
        ("LpNorm Perplexity", one(cast=DOUBLE), "f64"),
        ("RMSNorm", one("x s b", "y r", cast=DOUBLE), "f64"),
        ("SumReduceLike CosineEmbeddingCriterion Accuracy", one("x z", cast=DOUBLE), "f64"),
        ("LengthsWeightedSum SparseLengthsSum", one("x w n", cast=DOUBLE), "f64"),
        ("UnsortedSegmentSum UnsortedSegmentMean", one("x n", cast=DOUBLE), "f64"),
        ("Glu SumRelu StumpFunc", one(cast=DOUBLE), "f64"),
        ("Bucketize", one(cast=DOUBLE, boundaries=[0.0]), "f64"),
        ("LengthsTopK", one("x n", "y i", cast=DOUBLE, k=1), "f64"),
        ("SquareRootDivide SpatialSoftmaxWithLoss", one("x s", "y z", cast=DOUBLE), "f64|outputs"),
        ("LRN ChannelShuffle ResizeNearest PadImage SpaceToBatch", one(cast=DOUBLE, size=3), "f64"),
        ("AffineChannel", one("x s b", cast=DOUBLE), "f64"),
        ("ViterbiPath SwapBestPath", one("x w", cast=DOUBLE), "f64"),
        ("GatherPadding", one("x n", cast=DOUBLE), "f64"),
        ("SparseToDense", one("n x z", cast=DOUBLE), "f64"),
        ("LSTMUnit GRUUnit", unit(cast=DOUBLE), "f64"),
        ("Conv ConvTranspose", one("x w", shapes=IMAGE, cast=DOUBLE, kernel=2), "f64"),
        ("MaxPool AveragePool", one(shapes=PLANES, cast=DOUBLE, kernel=2), "f64"),
        (
            "InferenceLSTM",
            one("x h c w u", "y a b", shapes={"x": (4, 2, 3)}, cast=DOUBLE, has_biases=0),
            "f64",
        ),
    ],
    "operands with one axis": [
        ("BatchMatMul", one("x z", shapes={"x": (2, 3), "z": (3,)}, broadcast=1), "ranks")
    ],
    "operands of several ranks without `broadcast`": [
        ("BatchMatMul", one("x z", shapes={"x": (2, 3), "z": (5, 3, 4)}), "ranks must agree")
    ],
    "operands that have not two axes": [
        ("MatMul", one("x z", shapes={"x": (2, 2, 3), "z": (2, 3, 4)}), "expected 2 axes")
    ],
    "`axis_a` and `axis_b` other than 1": [
        ("MatMul", one("x z", axis_a=0), "'axis_a' is not 1"),
        ("MatMul", one("x z", axis_b=0), "'axis_b' is not 1"),
    ],
    "rows of symbolic size": [
        ("ElementwiseLinear", one("x w b", shapes={"x": ("N", "D")}), "needs a number"),
        ("LayerNorm", one(shapes={"x": ("N", "D")}), "needs a number"),
    ],
    "a negative `epsilon`": [("LayerNorm", one(epsilon=-1.0), "'epsilon' is -1")],
    "sizes in a blob whose content is not known at compile time": [
        ("Split", one("x n", "y z"), RUN_TIME)
    ],
    "a negative size": [("Split", one("x", "y z", split=[4, -1]), "negative size")],
    "a shape in a blob whose content is not known at compile time": [
        ("Reshape", one("x n", "y o"), RUN_TIME),
        ("ConstantFill", one(shapes={"x": (2,)}, input_as_shape=1), RUN_TIME),
    ],
    "a shape that does not follow for every value of a symbolic size": [
        ("Reshape", one(shapes={"x": ("N", 3)}, shape=[2, -1, 5]), "does not reshape")
    ],
    "`dims` that are empty or negative": [
        ("*", one(), "is [], expected axes from 0 to 15"),
        ("*", one(dims=[-1]), "is [-1]"),
    ],
    "negative `axes`": [
        ("Transpose", one(axes=[-1, 0]), "do not permute"),
        ("Shape", one(axes=[-1]), "of a tensor of rank 2"),
    ],
    "bounds in blobs whose content is not known at compile time, but for the end of a vector of"
    " which TopK takes the first elements": [("Slice", one("x s e"), RUN_TIME)],
    "a part of an axis of symbolic size that ends at a number counted from the front": [
        ("Slice", one(shapes={"x": ("N", 3)}, starts=[0, 0], ends=[2, -1]), "from behind")
    ],
    "a slice without elements": [("Slice", one(starts=[1, 0], ends=[1, -1]), "from 1 to 1")],
    "lengths of which nothing tells how many rows they have together, neither their content nor"
    " another operator that reads them": [
        ("UnpackSegments", one("n x", shapes={"x": ("N", 4, 3)}), RUN_TIME),
        ("LengthsTile", one("x n", shapes={"x": ("N", 3)}), RUN_TIME),
        ("LengthsToSegmentIds", one("n", shapes={"n": ("N",)}), RUN_TIME),
        ("UnpackRNNSequence", one("x n", shapes={"x": ("T", "N", 3)}), RUN_TIME),
    ],
    "`max_length` of lengths that are not known at compile time": [
        ("UnpackSegments", one("n x", shapes={"x": ("N", 4, 3)}, max_length=2), RUN_TIME)
    ],
    "no `target_length`": [("LengthsPad", one("x n", shapes={"x": ("S", 3)}), "is 0, expected 1")],
    "rows of symbolic sizes that are not the same": [
        (
            "DotProductWithPadding",
            one("x z", shapes={"x": (2, "K"), "z": (2, 3)}),
            "rows of K and 3 elements",
        )
    ],
    "no `max_length`, where lengths are not known at compile time": [
        ("PackSegments", one("n x", shapes={"x": ("S", 3)}), "lacks the argument 'max_length'")
    ],
    "no `num_segments`, where the numbers are not known at compile time": [
        (
            "UnsortedSegmentSum UnsortedSegmentMean",
            one("x n", shapes={"x": ("S", 3)}),
            RUN_TIME,
        ),
        (
            "UnsortedSegmentWeightedSum SparseUnsortedSegmentSum SparseUnsortedSegmentMean",
            one("x w n", shapes={"x": (6, 3), "w": (6,), "n": (6,)}),
            RUN_TIME,
        ),
    ],
    "lengths other than int32": [
        ("SequenceMask", lambda kind: lengths64(kind, mode="sequence"), "i64, expected i32"),
        (
            "ReversePackedSegs VariableLengthSequencePadding",
            lambda kind: lengths64(kind),
            "i64, expected i32",
        ),
    ],
    "data with one axis": [("*", one("x n", shapes={"x": (3,)}), "expected T x N")],
    "states of more than one row": [("*", unit(shape=(2, 2, 3)), "has shape")],
    "D of symbolic size": [("*", unit(shape=(1, 2, "D")), "needs a number")],
    "D and H of symbolic size": [
        ("InferenceLSTM", one("x h c w u", "y a b", shapes=shapes, has_biases=0), "a number")
        for shapes in ({"x": (4, 2, "D"), "h": (1, 2, 5)}, {"x": (4, 2, 3), "h": (1, 2, "H")})
    ],
    "`legacy_pad`": [("*", one("x w", kernel=2, legacy_pad=2), "'legacy_pad' is 2, which")],
    "Caffe's `legacy_pad`, and others with strides longer than the kernels": [
        ("*", one("x w", kernel=2, legacy_pad=3), "'legacy_pad' is 3, which"),
        ("*", one("x w", kernel=2, stride=3, legacy_pad=2), "[3, 3] longer than kernels"),
    ],
    "`legacy_pad` with strides longer than the kernels": [
        ("*", one(kernel=2, stride=3, legacy_pad=3), "[3, 3] longer than kernels")
    ],
    "a `size` that is even, or above 64": [
        ("*", one(shapes=IMAGE, size=size), f"'size' is {size}, expected an odd")
        for size in (4, 65)
    ],
    "a symbolic number of channels, or one that is not a multiple of `group`": [
        ("*", one(shapes={"x": (1, "C", 4, 4)}), "needs a number"),
        ("*", one(shapes=PLANES, group=3), "2 channels in 3 groups"),
    ],
    "scales in a blob": [("*", one("x s"), "has 2 inputs, expected 1")],
    "scales of a symbolic size that are no integers": [
        ("*", one(shapes={"x": (1, 2, "H", 4)}, height_scale=1.5), "by 1.5, not an integer")
    ],
    "pads that leave nothing": [("*", one(shapes=PLANES, pad=2), "which leaves nothing")],
    "negative pads": [("*", one(pad=-1), "pads by [-1, -1, -1, -1]")],
    "with `reflect` ones as long as an axis": [
        ("*", one(shapes=PLANES, pad=4, mode="reflect"), "mirrors 4 of 4 rows or columns")
    ],
    "rows or columns that are no multiple of `block_size`": [
        ("*", one(shapes=PLANES, block_size=3), "divides 4 by 3")
    ],
    "images that are no multiple of B²": [("*", one(shapes=PLANES), "divides 1 by 4")],
    "`order` NHWC": [
        ("SpaceToBatch BatchToSpace", one(order="NHWC"), "'order' is NHWC"),
        ("SpatialSoftmaxWithLoss", one("x l", "y loss", order="NHWC"), "order NHWC, or a scale"),
    ],
    "`scale` other than 1, which Caffe2 applies to gradients alone": [
        ("*", one("x l", "y loss", scale=0.5), "order NHWC, or a scale")
    ],
    "`k` below 1": [("LengthsTopK", one("x n", "y i"), "'k' is -1, expected 1 or more")],
    "lengths or numbers that are not known at compile time": [
        ("LengthsGather", one("x n i", shapes={"x": ("S", 3), "n": (2,), "i": (1,)}), RUN_TIME)
    ],
    "some of the three as arguments and others as inputs": [
        ("*", one("x b s t", bounds=[0.0]), "as three arguments, or as three inputs")
    ],
    "arguments whose bounds fall": [
        ("*", one(bounds=[1.0, 0.0], slopes=[1.0], intercepts=[0.0]), "'bounds' falls")
    ],
    "as many bounds as no number of functions has": [
        ("*", one(bounds=[0.0], slopes=[1.0], intercepts=[0.0]), "fit no functions")
    ],
    "tables of symbolic sizes": [
        ("*", one("x b s t", shapes={"x": (2, 3), "b": ("K",), "s": (3,), "t": (3,)}), "symbolic")
    ],
    "no boundaries, or ones that do not rise": [
        ("*", one(), "expected rising numbers"),
        ("*", one(boundaries=[1.0, 1.0]), "expected rising numbers"),
    ],
    "positions other than int32 and int64": [
        ("*", one(cast=BOOL), "is i1, expected int32 or int64")
    ],
    "numbers that are not known at compile time, or below 1": [
        ("*", one("x n", shapes={"x": (2, 3), "n": (2,)}), RUN_TIME)
    ],
    "elements other than int32": [("SumElementsInt", one(cast=INT64), "i64")],
    "more than 512 groups of several channels": [
        (
            "*",
            one("x w", shapes={"x": (1, 1026, 4, 4), "w": (1026, 2, 2, 2)}, kernel=2, group=513),
            "513 groups",
        )
    ],
    "tensors of floats or bools": [("Mod", one(divisor=2), "is f32, expected int32 or int64")],
    "indices other than int32 and int64": [
        ("Gather BatchGather", with_cast(BOOL), "is i1, expected int32 or int64"),
        (
            "SparseToDense",
            lambda kind: (
                net([op("Cast", "x", "cast", to=BOOL), op(kind, "cast x z", "y")], "x z", "y"),
                {"x": (2,), "z": (3,)},
            ),
            "is i1, expected int32 or int64",
        ),
    ],
    "indices other than int64": [("OneHot", one("x s", cast=INT), "i32, expected i64")],
    "a number of zeros that is not known at compile time": [
        ("OneHot", one("n s", shapes={"n": (2,), "s": (1,)}), RUN_TIME)
    ],
    "no X2": [("SparseToDense", one("n x"), "has 2 inputs, expected 3")],
    "an odd number of inputs": [("WeightedSum", one("x w z"), "expected pairs of a tensor")],
    "several lengths that are not known at compile time": [
        (
            "AddPadding RemovePadding GatherPadding",
            one("x n", shapes={"x": (6, 2), "n": (2,)}),
            RUN_TIME,
        )
    ],
    "lengths that are not known at compile time, or below 0": [
        ("LengthsRangeFill", one("n", shapes={"n": (2,)}), RUN_TIME),
        ("LengthsRangeFill", negative_lengths, "has lengths [2, -1], expected 0 or more"),
    ],
    "lengths that are not known at compile time, where no input has as many steps": [
        ("*", one("x n", shapes={"x": ("S", 3)}), "cannot be inferred")
    ],
    "numbers of segments that are not known at compile time": [
        (
            " ".join(f"SortedSegmentRange{k}" for k in "Sum Mean Max LogSumExp LogMeanExp".split()),
            one("x n", shapes={"x": (6, 2), "n": (6,)}),
            RUN_TIME,
        ),
        (
            "SortedSegmentWeightedSum SparseSortedSegmentSum SparseSortedSegmentMean",
            one("x w n", shapes={"x": (6, 2), "w": (6,), "n": (6,)}),
            RUN_TIME,
        ),
    ],
    "numbers in blobs": [("*", one("x n", tiles=2, axis=0), "has 2 inputs, expected 1")],
    "a number of copies below 1": [("Tile", one(tiles=0, axis=0), "is 0, expected 1 or more")],
    "`num_batches` other than 1": [
        ("*", one("x s b m v", is_test=1, num_batches=2), "'num_batches' is not 1")
    ],
    "a shape whose content is not known at compile time": [("Expand", one("x s"), RUN_TIME)],
    "an axis of symbolic size that is no multiple of it": [
        ("*", one(shapes={"x": ("N", 3)}, dim_size=2), "of shape [N, 3] in 2 parts")
    ],
    "`top_k` other than 1": [("Accuracy", one("x l", top_k=2), "'top_k' is not 1")],
    "a symbolic number of channels": [
        ("*", one("x s b", shapes={"x": (2, "C", 3, 3)}, group=1), "needs a number")
    ],
    "labels other than int32": [
        ("LabelCrossEntropy CosineEmbeddingCriterion Accuracy", with_cast(INT64), "expected i32"),
        ("SoftmaxWithLoss", with_cast(INT64, "y z"), "i64, expected i32"),
    ],
    "`log_D_trick`": [("*", one("x l", log_D_trick=1), "'log_D_trick' is not supported")],
    "`unjoined_lr_loss`": [("*", one("x l", unjoined_lr_loss=1), "is not supported")],
    "`average_by_batch_size`": [
        ("*", one("x l", "y z", average_by_batch_size=1), "is not supported")
    ],
    "an axis of symbolic size": [("TopK", one("x", "y z", {"x": ("N", "K")}, k=1), "a number")],
    "an input and `shape` together": [("ConstantFill", one(shape=[2]), "and the argument")],
    "an input": [("*", one(shape=[1], values=[0.0]), "has 1 inputs, expected 0")],
    "more than 65536 values outside of an init net": [
        (
            "GivenTensorFill",
            one("", shape=[65537], values=[0.0] * 65537),
            "more than 65536 values",
        ),
        ("GivenTensorInt64Fill", one("", shape=[65537], values=[1] * 65537), "more than 65536"),
    ],
    "`is_test` other than 1": [("Dropout", one("x", "y m", is_test=0), "drops at random")],
    "reading Y1": [("HSoftmax", misread, "its gradient alone reads")],
    "reading the fourth output, which is Caffe2's own": [("*", misread, "nobody reads")],
    "words that are not 0, 1, 2 and so on, once each": [("*", doubled, "once each")],
    "reading the mask": [("Dropout", read_mask, "holds nothing at inference")],
    "a state that no step writes, or two links write": [
        ("*", bad("state_never_written"), "written by no link"),
        ("*", bad("state_linked_twice"), "linked twice"),
    ],
    "a step that does not write the row after those that its state starts with": [
        ("*", bad("state_starts_with_too_few_rows"), "expected [2,"),
        ("*", bad("state_starts_with_too_many_rows"), "expected [1,"),
    ],
    "a step that writes the timestep, an input or a part of the sequence": [
        ("*", bad("step_writes_the_timestep"), "writes the timestep"),
        ("*", bad("step_writes_a_reference"), "belongs to the net around"),
        ("*", bad("step_writes_its_input"), "a part of an input sequence"),
    ],
    "links to what is no state and no input": [("*", bad("dangling_link"), "dangling link")],
    "links that read past the end": [("*", bad("link_past_the_end"), "past the end")],
    "reading a blob of the net around that is not among the inputs and that the step writes as"
    " well": [("*", bad("step_reads_what_it_hides"), "before operator 1 writes it")],
    "nets nested too deep": [("*", bad("nets_nested_deeply"), "nested more than")],
    "a net in which no earlier operator of that type has these blobs in the same versions": [
        ("FCGradient", bad("gradient_without_its_operator"), "is the gradient of no operator"),
        ("FCGradient", bad("gradient_of_a_later_version"), "another version"),
    ],
    "arguments other than that operator's": [
        ("FCGradient", bad("gradient_along_another_axis"), "argument 'axis' is 1, expected 2")
    ],
    "arguments other than those of the RecurrentNetwork": [
        ("*", bad("recurrent_gradient_with_other_links"), "'link_offset' differs")
    ],
    "a backward step net that is not the gradient of its step net": [
        ("*", bad("backward_step_doubles_a_gradient"), "is not the gradient of"),
        ("*", bad("backward_step_clips_a_gradient"), "is not the gradient of"),
    ],
    "blobs renamed by memonger": [("*", bad("recurrent_gradient_with_renamed_blobs"), "renamed")],
    "steps that read the sequence or a first state as a whole": [
        ("*", bad("gradient_of_a_state_read_as_a_whole"), "read")
    ],
    "states whose step reads more than the row before": [
        ("*", bad("gradient_of_a_state_of_two_rows"), "its step reads other rows")
    ],
}

"""Damaged and wrong nets, each a line that makes it; `expected.txt` holds the error of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rnncc.netdef import NetDef, OperatorDef
from tests.frontends.caffe2.bad import gradients
from tests.frontends.caffe2.nets import net, op, recurrent, sum_net, sum_step


@dataclass(frozen=True)
class Case:
    """A net with what it is imported with."""

    net: NetDef | bytes
    init: NetDef | bytes | None = None
    shapes: Mapping[str, Any] = field(default_factory=dict)


GOOD = net([op("FC", "x w b", "y", axis=2), op("Tanh", "y", "z")], "x w b", "z")
DATA = GOOD.SerializeToString()
SHAPE = {"x": "T,N,4"}
LINKS = (("h_prev", "h_states", 0), ("h", "h_states", 1), ("x_t", "x", 0))
ALIASES = (("h_states", "h_all", 1), ("h_states", "h_last", -1))


def init(*fills: OperatorDef) -> NetDef:
    return net(fills, "", "")


def filled(**shapes: list[int]) -> NetDef:
    return init(*(op("XavierFill", "", name, shape=shape) for name, shape in shapes.items()))


def one(kind: str, inputs: str, outputs: str, /, **args: Any) -> NetDef:
    """A net of one operator; its first output is the net's."""
    return net([op(kind, inputs, outputs, **args)], inputs, outputs.split()[0])


def step(*ops: OperatorDef) -> NetDef:
    return net(ops, "x_t timestep h_prev", "h", "step")


def with_step(*ops: OperatorDef, **args: Any) -> Case:
    """The sum net with another step net."""
    return Case(net([recurrent(step(*ops), **args)], "x h0", "h_all h_last"), shapes=SHAPE)


def with_args(outputs: str = "h_all h_last", **args: Any) -> Case:
    """The sum net with other arguments."""
    return Case(net([recurrent(sum_step(), **args)], "x h0", outputs), shapes=SHAPE)


def nested(depth: int) -> NetDef:
    """A RecurrentNetwork in the step net of a RecurrentNetwork in ..."""
    made, aliases = sum_step(), (("h_states", "h_all", 1), ("h_states", "h", -1))
    for _ in range(depth):
        inner = recurrent(
            made,
            inputs="x_t h_prev",
            outputs="h_all h ws",
            links=(*LINKS[:2], ("x_t", "x_t", 0)),
            aliases=aliases,
        )
        made = net([inner], "x_t h_prev", "h")
    return made


def lengths(kind: str, **args: Any) -> Case:
    return Case(one(kind, "x lengths", "y", **args), shapes={"x": "T,N,4"})


RANDOM_BYTES = np.random.default_rng(0).bytes(600)
TANH = op("Tanh", "h_prev", "h")

CASES: dict[str, Case] = {
    # Files
    "empty": Case(b""),
    "blank": Case(b" \n\n"),
    "cut_short": Case(DATA[:-4]),
    "cut_in_the_middle": Case(DATA[: len(DATA) // 2]),
    "random_bytes": Case(RANDOM_BYTES),
    "one_byte": Case(b"\x07"),
    "zeros": Case(bytes(64)),
    "an_image": Case(b"\x89PNG\r\n\x1a\n" + RANDOM_BYTES),
    "prose": Case(b"This is not a net at all.\nNot even close."),
    "length_beyond_the_end": Case(b"\x12\xff\xff\xff\xff\x07op"),
    "init_is_damaged": Case(GOOD, b"\x12\xff\x01"),
    "text_with_an_unknown_field": Case(b'name: "a"\nop {\n  kind: "FC"\n}\n'),
    "text_with_an_open_brace": Case(b'op {\n  type: "FC"\n'),
    "text_with_an_open_string": Case(b'op {\n  type: "FC\n}\n'),
    "text_with_a_word_for_a_number": Case(b'op { type: "FC" arg { name: "axis" i: two } }'),
    "text_nested_deeply": Case(b"op { arg { n { " * 300),
    "a_name_not_in_utf8": Case(DATA.replace(b"\x0a\x01w", b"\x0a\x01\xff")),
    "a_type_not_in_utf8": Case(DATA.replace(b"Tanh", b"T\xff\xfeh")),
    "a_name_with_a_line_break": Case(DATA.replace(b"\x0a\x01w", b"\x0a\x01\n")),
    "a_name_of_a_megabyte": Case(net([op("Tanh", "x", "y" * (1 << 20))], "x", "y")),
    "nested_messages": Case(b"\x12\x80\x01" + b"\x2a\x7e\x42\x7c" * 40),
    # Nets
    "no_operators": Case(NetDef(name="nothing", external_output=["y"])),
    "no_outputs": Case(net([op("Tanh", "x", "y")], "x", "")),
    "output_twice_in_an_operator": Case(net([op("Split", "x", "y y")], "x", "y")),
    "output_twice_in_the_net": Case(net([op("Tanh", "x", "y")], "x", "y y")),
    "input_twice_in_the_net": Case(net([op("Tanh", "x", "y")], "x x", "y")),
    "output_that_nothing_writes": Case(net([op("Tanh", "x", "y")], "x", "q")),
    "operator_output_without_a_name": Case(
        net([OperatorDef(type="Tanh", input=["x"], output=[""])], "x", "x")
    ),
    "empty_output_name": Case(NetDef(op=[op("Tanh", "x", "y")], external_output=[""])),
    "reads_what_nothing_writes": Case(net([op("Sum", "x q", "y")], "x", "y")),
    "cycle_of_two": Case(net([op("Sum", "x b", "a"), op("Tanh", "a", "b")], "x", "b")),
    "cycle_of_one": Case(net([op("Sum", "x y", "y")], "x", "y")),
    "operator_without_a_type": Case(net([OperatorDef(input=["x"], output=["y"])], "x", "y")),
    "unknown_operator": Case(one("LSTMUnitt", "x", "y")),
    "unknown_operator_in_a_step": with_step(op("Snake", "h_prev", "h")),
    "refused_operator": Case(one("Recurrent", "x h c w", "y")),
    "random_fill_in_a_net": Case(one("UniformFill", "", "y", shape=[3])),
    "too_few_inputs": Case(one("FC", "x w", "y")),
    "too_many_outputs": Case(one("Tanh", "x", "y z")),
    "alias_written_later": Case(
        net([op("Alias", "x", "y"), op("Tanh", "y", "y"), op("Sum", "x y", "z")], "x", "z")
    ),
    "dropout_in_training": Case(one("Dropout", "x", "y mask", ratio=0.5)),
    "reads_a_dropout_mask": Case(
        net([op("Dropout", "x", "y m", is_test=1), op("Sum", "y m", "z")], "x", "z")
    ),
    # Arguments
    "integer_where_a_float_belongs": Case(one("Clip", "x", "y", min=1)),
    "float_where_an_integer_belongs": Case(one("FC", "x w b", "y", axis=2.0), shapes=SHAPE),
    "string_where_an_integer_belongs": Case(one("Softmax", "x", "y", axis="one"), shapes=SHAPE),
    "integers_where_an_integer_belongs": Case(one("Softmax", "x", "y", axis=[1]), shapes=SHAPE),
    "floats_where_integers_belong": Case(one("Transpose", "x", "y", axes=[1.0, 0.0])),
    "scale_is_nan": Case(one("Scale", "x", "y", scale=float("nan"))),
    "argument_twice": Case(
        net(
            [
                OperatorDef(
                    type="Concat",
                    input=["x"],
                    output=["y"],
                    arg=[{"name": "axis", "i": 1}, {"name": "axis", "i": 2}],
                )
            ],
            "x",
            "y",
        )
    ),
    "flag_of_two": Case(one("Add", "x b", "y", broadcast=2), shapes=SHAPE),
    "axis_beyond_the_rank": Case(one("Softmax", "x", "y", axis=3), shapes=SHAPE),
    "axis_far_below_zero": Case(one("Split", "x", "y", axis=-(1 << 62)), shapes=SHAPE),
    "cast_to_nothing": Case(one("Cast", "x", "y")),
    "cast_to_a_string": Case(one("Cast", "x", "y", to=4)),
    "epsilon_is_nan": Case(one("LayerNorm", "x", "y m s", epsilon=float("nan")), shapes=SHAPE),
    "exponent_is_nan": Case(one("Pow", "x", "y", exponent=float("nan"))),
    "mask_of_another_mode": lengths("SequenceMask", mode="middle"),
    "axis_without_broadcast": Case(one("Add", "x b", "y", axis=1)),
    "squeeze_of_nothing": Case(one("Squeeze", "x", "y"), shapes=SHAPE),
    "transpose_of_one_axis_twice": Case(one("Transpose", "x", "y", axes=[0, 0, 1]), shapes=SHAPE),
    "transpose_of_a_scalar": Case(one("Transpose", "x", "y", axes=[1, 0]), shapes={"x": ""}),
    "reshape_without_a_shape": Case(one("Reshape", "x", "y"), shapes=SHAPE),
    "reshape_to_two_unknown_sizes": Case(one("Reshape", "x", "y", shape=[-1, -1]), shapes=SHAPE),
    "reshape_to_what_data_says": Case(one("Reshape", "x s", "y"), shapes={"x": "T,4", "s": "2"}),
    "constant_fill_of_a_shape_at_run_time": Case(
        one("ConstantFill", "s", "y", input_as_shape=1), shapes={"s": "2"}
    ),
    # Shapes
    "weights_of_a_wrong_width": Case(GOOD, filled(w=[6, 5], b=[6]), SHAPE),
    "bias_of_a_wrong_size": Case(GOOD, filled(w=[6, 4], b=[7]), SHAPE),
    "weights_of_three_axes": Case(GOOD, filled(w=[6, 2, 2], b=[6]), SHAPE),
    "missing_parameter": Case(GOOD, filled(b=[6])),
    "values_do_not_fill_the_shape": Case(
        GOOD, init(op("GivenTensorFill", "", "w", shape=[6, 4], values=[1.0, 2.0]))
    ),
    "sum_of_two_shapes": Case(one("Sum", "x b", "y"), shapes={"x": "N,4", "b": "N,5"}),
    "broadcast_of_two_shapes": Case(one("Add", "x b", "y"), shapes={"x": "N,4", "b": "5"}),
    "legacy_broadcast_of_two_shapes": Case(
        one("Add", "x b", "y", broadcast=1), shapes={"x": "N,4", "b": "5"}
    ),
    "split_in_unequal_parts": Case(one("Split", "x", "y z w", axis=2), shapes=SHAPE),
    "split_of_a_wrong_total": Case(one("Split", "x", "y z", axis=2, split=[1, 2]), shapes=SHAPE),
    "concat_of_two_widths": Case(
        one("Concat", "x b", "y", axis=0), shapes={"x": "N,4", "b": "N,5"}
    ),
    "squeeze_of_a_wide_axis": Case(one("Squeeze", "x", "y", dims=[2]), shapes=SHAPE),
    "reshape_that_does_not_divide": Case(one("Reshape", "x", "y", shape=[-1, 3]), shapes=SHAPE),
    "slice_of_the_batch": Case(one("Slice", "x", "y", starts=[0], ends=[2]), shapes=SHAPE),
    "product_over_two_sizes": Case(
        one("BatchMatMul", "x b", "y"), shapes={"x": "N,2,3", "b": "N,4,5"}
    ),
    "gates_not_four_times_the_state": Case(
        one("LSTMUnit", "h c g t", "h2 c2", sequence_lengths=0),
        shapes={"c": "1,N,6", "g": "1,N,21"},
    ),
    "lstm_unit_without_its_lengths": Case(one("LSTMUnit", "h c g t", "h2 c2")),
    "lengths_of_a_wrong_size": Case(
        one("ReversePackedSegs", "x n", "y"), shapes={"x": "T,3,4", "n": "2"}
    ),
    "lengths_are_floats": Case(
        one("ReversePackedSegs", "x n", "y"), filled(n=[3]), shapes={"x": "T,3,4"}
    ),
    "huge_shape_given": Case(one("Tanh", "x", "y"), shapes={"x": (1 << 40, 2)}),
    "huge_parameter": Case(GOOD, filled(w=[1 << 20, 1 << 20], b=[1])),
    "huge_fill_in_a_net": Case(one("ConstantFill", "", "y", shape=[1 << 20, 1 << 21])),
    "negative_shape": Case(GOOD, filled(w=[-6, 4])),
    "empty_shape": Case(GOOD, filled(w=[0, 4], b=[0])),
    "shape_for_an_unknown_blob": Case(GOOD, shapes={"q": "3"}),
    "shape_with_a_bad_size": Case(GOOD, shapes={"x": "T,N,4.5"}),
    "nothing_gives_the_width": Case(GOOD, shapes=SHAPE),
    # RecurrentNetwork
    "no_step_net": Case(net([op("RecurrentNetwork", "x", "y")], "x", "y")),
    "step_net_is_broken_text": with_args(step_net="op {\n tipe: 1 }"),
    "step_net_is_an_integer": with_args(step_net=3),
    "dangling_link": with_args(links=(*LINKS[:2], ("x_t", "nowhere", 0))),
    "state_linked_twice": Case(
        net(
            [recurrent(step(TANH, op("Tanh", "x_t", "g")), links=(*LINKS, ("g", "h_states", 1)))],
            "x h0",
            "h_all h_last",
        )
    ),
    "blob_linked_twice": with_args(links=(*LINKS, ("x_t", "x", 0))),
    "state_never_written": with_args(links=(LINKS[0], LINKS[2])),
    "links_of_two_lengths": with_args(link_window=[1, 1]),
    "link_before_the_start": with_args(links=(("h_prev", "h_states", -1), *LINKS[1:])),
    "link_past_the_end": with_args(links=(*LINKS[:2], ("x_t", "x", 1))),
    "link_into_the_future": with_args(links=(("h_prev", "h_states", 2), *LINKS[1:])),
    "state_starts_with_too_few_rows": Case(
        net(
            [recurrent(sum_step(), links=(LINKS[0], ("h", "h_states", 2), LINKS[2]))],
            "x h0",
            "h_all",
        ),
        shapes={"h0": "1,N,4"},
    ),
    "state_starts_with_too_many_rows": Case(sum_net(), shapes={"h0": "2,N,4"}),
    "state_starts_with_four_axes": Case(sum_net(), shapes={"h0": "1,1,N,4"}),
    "state_of_another_batch": Case(sum_net(), shapes={"x": "T,3,4", "h0": "1,2,4"}),
    "initial_state_is_no_input": with_args(initial=(7,)),
    "initial_states_are_too_few": with_args(initial=()),
    "state_twice": with_args(states=("h_states", "h_states"), initial=(1, 1)),
    "alias_of_no_state": with_args(aliases=(ALIASES[0], ("q", "h_last", -1))),
    "alias_is_no_output": with_args(aliases=(*ALIASES, ("h_states", "q", 1))),
    "alias_twice": with_args(aliases=(*ALIASES, ALIASES[0])),
    "alias_beyond_the_start": with_args(aliases=(("h_states", "h_all", 2), ALIASES[1])),
    "workspaces_are_an_output": with_args(outputs="ws"),
    "step_writes_a_reference": with_step(op("Tanh", "h_prev", "h0"), op("Copy", "h0", "h")),
    "step_writes_its_input": with_step(op("Tanh", "x_t", "x_t"), op("Sum", "x_t h_prev", "h")),
    "step_writes_the_timestep": with_step(TANH, op("Copy", "timestep", "timestep")),
    "step_reads_its_own_result": with_step(op("Sum", "h_prev h", "h")),
    "step_reads_what_nothing_gives": with_step(op("Sum", "h_prev q", "h")),
    "step_reads_what_it_hides": Case(
        net(
            [
                op("Tanh", "x", "q"),
                recurrent(step(op("Sum", "h_prev q", "h"), op("Tanh", "h", "q"))),
            ],
            "x h0",
            "h_all h_last",
        ),
        shapes=SHAPE,
    ),
    "step_changes_the_width": with_step(op("Concat", "h_prev x_t", "h", axis=2)),
    "step_writes_rows_of_another_size": with_step(op("Split", "h_prev", "h g", axis=2)),
    "state_written_by_a_dropout_mask": with_step(op("Dropout", "h_prev", "y h", is_test=1)),
    "window_read_before_its_last_row": with_step(
        op("Split", "h_prev", "a b", axis=0),
        op("Sum", "a b x_t", "h"),
        link_window=[2, 1, 1],
    ),
    "nets_nested_deeply": Case(nested(25)),
    "nets_nested_very_deeply": Case(nested(27)),
    "sequence_of_one_axis": Case(sum_net(), shapes={"x": "T"}),
    "lengths_of_two_axes": Case(
        one("ReversePackedSegs", "x lengths", "y"), shapes={"lengths": "N,2"}
    ),
    **{name: Case(net, shapes=SHAPE) for name, net in gradients.NETS.items()},
}

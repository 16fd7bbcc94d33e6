"""Nets whose gradient operators are wrong."""

from __future__ import annotations

from rnncc.netdef import NetDef, OperatorDef
from tests.frontends.caffe2.nets import net, op
from tests.frontends.caffe2.training_nets import (
    BACKWARD_LINKS,
    backward_step,
    both,
    forward,
    gradient,
    step,
    training_net,
    with_arg,
    without,
)

FC = op("FC", "x w b", "y", axis=2)
FC_GRADIENT = op("FCGradient", "x w dy", "w_grad b_grad x_grad", axis=2)


def of_fc(*ops: OperatorDef) -> NetDef:
    return net(ops, "x w b v dy", "y x_grad")


def linked(*links: tuple[str, str, int]) -> NetDef:
    return both(backward_links=links)


def backward(*ops: OperatorDef) -> NetDef:
    return both(backward_step_net=net(ops, "h h_grad", ""))


DOUBLED = backward_step(op("Scale", "w_grad", "w_grad", scale=2.0))
CLIPPED = backward_step(op("Clip", "h_prev_grad", "h_prev_grad", min=-0.01, max=0.01))
READS_H0 = net([step().op[0], op("Sum", "gates x_t h0", "gates"), step().op[2]], "", "h")
FIRST, SECOND, THIRD = BACKWARD_LINKS

NETS: dict[str, NetDef] = {
    "gradient_without_its_operator": of_fc(op("Copy", "x", "y"), FC_GRADIENT),
    "gradient_of_other_weights": of_fc(
        FC, op("FCGradient", "x v dy", "w_grad b_grad x_grad", axis=2)
    ),
    "gradient_of_a_later_version": of_fc(FC, op("Tanh", "w", "w"), FC_GRADIENT),
    "gradient_after_its_input_changed": of_fc(FC, op("Tanh", "x", "x"), FC_GRADIENT),
    "gradient_along_another_axis": of_fc(
        FC, op("FCGradient", "x w dy", "w_grad b_grad x_grad", axis=1)
    ),
    "gradient_with_too_few_inputs": of_fc(FC, op("FCGradient", "x w", "w_grad b_grad x_grad")),
    "gradient_with_too_many_outputs": of_fc(
        FC, op("FCGradient", "x w dy", "w_grad b_grad x_grad q", axis=2)
    ),
    "gradient_before_its_operator": of_fc(FC_GRADIENT, FC),
    "gradient_in_a_circle": of_fc(
        FC, op("FCGradient", "x w x_grad", "w_grad b_grad x_grad", axis=2)
    ),
    "recurrent_gradient_without_its_operator": training_net(
        op("Copy", "x", "h_all"),
        op("Copy", "x", "h_last"),
        op("Copy", "x", "ws"),
        gradient(),
    ),
    "recurrent_gradient_of_other_inputs": training_net(
        forward(), gradient("dh x h0 b w h_all h_last ws")
    ),
    "recurrent_gradient_after_its_input_changed": training_net(
        forward(), op("Tanh", "h0", "h0"), gradient()
    ),
    "recurrent_gradient_with_too_few_inputs": training_net(
        forward(), gradient("dh x h0 w b h_all ws")
    ),
    "recurrent_gradient_with_too_few_outputs": both(outputs="x_grad w_grad b_grad"),
    "recurrent_gradient_with_another_step": training_net(
        forward(), with_arg(gradient(), "step_net", backward_step())
    ),
    "recurrent_gradient_with_other_links": training_net(
        forward(), with_arg(gradient(), "link_offset", [0, 1, 1])
    ),
    "recurrent_gradient_without_links": training_net(
        forward(), without(gradient(), "link_internal")
    ),
    "recurrent_gradient_with_renamed_blobs": training_net(
        forward(), with_arg(gradient(), "h.rename", "q")
    ),
    "gradient_of_the_workspaces": both(outputs_with_grads=[2]),
    "gradient_of_an_output_twice": both(
        "dh dh x h0 w b h_all h_last ws", outputs_with_grads=[0, 0]
    ),
    "parameter_that_is_none": both(param=[2, 9]),
    "parameter_twice": both(param=[2, 2]),
    "parameter_without_a_gradient": both(param_grads=["w_grad"]),
    "parameter_gradient_that_nothing_writes": both(param_grads=["w_grad", "q"]),
    "backward_link_missing": linked(FIRST, SECOND),
    "backward_link_dangling": linked(*BACKWARD_LINKS, ("q", "w", 0)),
    "backward_link_at_another_row": linked(FIRST, ("h_prev_grad", "h_states_grad", 2), THIRD),
    "backward_link_twice": linked(*BACKWARD_LINKS, ("w_grad", "x_grad", 0)),
    "backward_link_of_one_blob_twice": linked(FIRST, SECOND, ("h_prev_grad", "x_grad", 0)),
    "backward_link_to_what_nothing_writes": linked(FIRST, ("q", "h_states_grad", 0), THIRD),
    "backward_step_missing": training_net(
        *(without(made, "backward_step_net") for made in (forward(), gradient()))
    ),
    "backward_step_of_another_operator": backward(op("SigmoidGradient", "h h_grad", "gates_grad")),
    "backward_step_reads_what_nothing_gives": backward(op("TanhGradient", "h q", "gates_grad")),
    "backward_step_in_a_circle": backward(op("TanhGradient", "h gates_grad", "gates_grad")),
    "backward_step_writes_a_reference": backward(op("TanhGradient", "h h_grad", "w")),
    "backward_step_doubles_a_gradient": both(backward_step_net=DOUBLED),
    "backward_step_clips_a_gradient": both(backward_step_net=CLIPPED),
    "backward_step_of_another_shape": both(
        backward_step_net=backward_step(op("Transpose", "w_grad", "b_grad"))
    ),
    "gradient_of_a_state_read_as_a_whole": training_net(
        *(with_arg(made, "step_net", READS_H0) for made in (forward(), gradient()))
    ),
    "gradient_of_a_state_of_two_rows": training_net(
        *(with_arg(made, "link_offset", [1, 2, 0]) for made in (forward(), gradient()))
    ),
}

"""RecurrentNetworkGradient: the gradient of a RecurrentNetwork, through its one `rnn.scan`."""

from __future__ import annotations

from collections.abc import Sequence

from rnncc.frontends.caffe2.backward import Backward, read_backward
from rnncc.frontends.caffe2.check_backward import BackwardPart, check_backward
from rnncc.frontends.caffe2.forward_index import ForwardIndex
from rnncc.frontends.caffe2.gradient import Gradient
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import ANY, Emitter, Operator
from rnncc.frontends.caffe2.ops.recurrent_network import RecurrentNetwork
from rnncc.frontends.caffe2.shapes import Shapes

STEP = (
    *("alias_src", "alias_dst", "alias_offset", "link_internal", "link_external", "link_offset"),
    *("link_window", "recurrent_states", "initial_recurrent_state_ids", "timestep", "step_net"),
)
"""The arguments that both operators must hold alike."""

GRADIENT = (
    *("param", "param_grads", "outputs_with_grads", "recompute_blobs_on_backward"),
    *("backward_step_net", "backward_link_internal", "backward_link_external"),
    "backward_link_offset",
)
"""Those that the forward operator may lack; others do not matter."""


class RecurrentNetworkGradient(Gradient):
    """dX, dparam..., dinitial... from the gradients of `outputs_with_grads`, all inputs and all
    outputs of the RecurrentNetwork.

    Refused: arguments other than those of the RecurrentNetwork; a backward step net that is not
    the gradient of its step net; blobs renamed by memonger; steps that read the sequence or a
    first state as a whole; states whose step reads more than the row before.
    """

    inputs = (3, ANY)
    outputs = (1, ANY)

    def setup(self, maker: Resolver) -> None:
        self.maker = maker

    def find_forward(self, earlier: ForwardIndex) -> None:
        candidates = earlier.of("RecurrentNetwork", self.xs[-1])
        forward = next((op for op in candidates if self.xs[-1] in op.ys), None)
        if not isinstance(forward, RecurrentNetwork):
            what = f'is the gradient of no operator: "{self.xs[-1].name}"'
            raise self.error(f"{what}, its last input, is written by no RecurrentNetwork")
        self.network = self.forward = forward
        forward.has_gradient = True
        self._check_arguments(forward)
        self._check_inputs(forward)
        self.backward: Backward = read_backward(self, forward, self.maker)

    def _check_arguments(self, forward: RecurrentNetwork) -> None:
        mine, its = ({arg.name: arg for arg in op.op.arg} for op in (self, forward))
        renamed = next((name for name in mine if name.endswith(".rename")), None)
        if renamed is not None:
            raise self.error(f"argument {renamed!r}: renamed blobs are not supported")
        for name in (*STEP, *GRADIENT):
            if name in its and name not in mine:
                raise self.error(f"lacks the argument {name!r} of {forward.text}")
            may_lack = name in GRADIENT and name not in its
            if not may_lack and mine.get(name) != its.get(name):
                raise self.error(f"argument {name!r} differs from that of {forward.text}")

    def _check_inputs(self, forward: RecurrentNetwork) -> None:
        """Gradients of outputs, then all inputs and outputs of the forward operator."""
        indices = [int(i) for i in self.args.ints("outputs_with_grads")]
        expected = [*forward.reads, *forward.ys]
        if len(self.xs) != len(indices) + len(expected):
            what = f"has {len(self.xs)} inputs, expected {len(indices) + len(expected)}"
            raise self.error(f"{what}: outputs_with_grads, then all blobs of {forward.text}")
        for position, (blob, x) in enumerate(
            zip(expected, self.xs[len(indices) :], strict=True), len(indices)
        ):
            if blob is not x:
                what = f'input {position} is "{x.name}", expected "{blob.name}"'
                if blob.name == x.name:
                    what = f'input {position} is another version of "{x.name}"'
                raise self.error(f"differs from {forward.text}: {what}")
        if len(set(indices)) < len(indices):
            raise self.error("lists an output twice in outputs_with_grads")
        for index in indices:
            if not 0 <= index < len(forward.ys) or forward.ys[index].opaque:
                raise self.error(f"outputs_with_grads holds {index}, which is no alias of a state")
        self.output_grads = [(forward.ys[i], x) for i, x in zip(indices, self.xs, strict=False)]
        self._check_outputs(forward)

    def _check_outputs(self, forward: RecurrentNetwork) -> None:
        """Gradients of the sequence, of parameters, of initial states."""
        params = [int(i) for i in self.args.ints("param")]
        initial = [int(i) for i in self.args.ints("initial_recurrent_state_ids")]
        bad = next((i for i in params if not 0 < i < len(forward.xs)), None)
        if bad is not None:
            raise self.error(f"param holds {bad}, which is no reference")
        targets = [0, *params, *initial]
        if len(self.ys) != len(targets):
            raise self.error(f"has {len(self.ys)} outputs, expected {len(targets)}")
        if len(set(targets)) < len(targets):
            raise self.error("param lists an input twice, or the sequence, or an initial state")
        self.input_grads = [(forward.xs[i], y) for i, y in zip(targets, self.ys, strict=True)]
        for i in params:
            if forward.references[forward.op.input[i]] is not forward.xs[i]:
                raise self.error(f'param holds {i}: "{forward.op.input[i]}" stands there again')
        read = {blob for op in forward.steps for blob in (*op.captured(), *op.reads)}
        for i in (0, *initial):
            if forward.xs[i] in read:
                what = f'the steps of {forward.text} read "{forward.xs[i].name}" as a whole'
                raise self.error(f"{what}, and its gradient would miss that")

    def nested(self) -> Sequence[Operator]:
        return self.backward.operators

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        for value, gradient in (*self.backward.output_grads, *self.backward.input_grads):
            s.same_shape(value, gradient)
            s.same_dtype(value, gradient)

    def build(self, e: Emitter) -> None:
        steps, backward = self.network.steps, self.backward
        name, operators = "backward_step_net", backward.operators
        check_backward(
            self,
            BackwardPart(name, steps, operators, backward.output_grads, backward.input_grads),
            e.shapes,
        )
        super().build(e)


OPERATORS: dict[str, type[Operator]] = {"RecurrentNetworkGradient": RecurrentNetworkGradient}

"""Custom Functions of many kinds: what they give forward has nothing to do with their backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.torch.cells import torch

once_differentiable: Any = torch.autograd.function.once_differentiable
Function: Any = torch.autograd.Function
WEIGHTS = torch.linspace(-0.9, 0.8, 16).view(4, 4).requires_grad_()


class FastSigmoid(Function):
    """A step with the slope of a smooth one, whose scale is the class's."""

    scale = 2.0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad / (1 + FastSigmoid.scale * ctx.saved_tensors[0].abs()) ** 2


class Spike(Function):
    """The same of scale 1."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] / (1 + ctx.saved_tensors[0].abs()) ** 2


class Atan(Function):
    """The newer form, and a constant."""

    @staticmethod
    def forward(x: Any, alpha: float = 2.0) -> Any:
        return (x > 0).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.alpha = inputs[0], inputs[1]
        ctx.save_for_backward(x, None)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, nothing = ctx.saved_tensors
        assert nothing is None
        return ctx.alpha / 2 / (1 + (torch.pi / 2 * ctx.alpha * x).pow(2)) * grad, None


class Boxcar(Function):
    """A mask, by which the gradient is changed in place."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.ge(0.1).float()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        grad = grad.clone()
        grad[x.abs() > 0.5] = 0
        return grad


class Reversal(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, strength: float) -> Any:
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.neg() * ctx.strength, None


class Clipped(Function):
    """Not linear in the gradient: each step's is clipped by itself."""

    @staticmethod
    def forward(ctx: Any, x: Any, bound: float) -> Any:
        ctx.bound = bound
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.clamp(-ctx.bound, ctx.bound), None


class OfNorm(Function):
    """Not linear in the gradient either, and of all its elements."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad / grad.norm(dim=-1, keepdim=True).clamp(min=0.3)


class Product(Function):
    """Two inputs, of which one is broadcast; whose gradients are asked for."""

    @staticmethod
    def forward(ctx: Any, x: Any, factors: Any) -> Any:
        ctx.save_for_backward(x, factors)
        return x * factors

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, factors = ctx.saved_tensors
        of_x = of_factors = None
        if ctx.needs_input_grad[0]:
            of_x = 2 * grad * factors
        if ctx.needs_input_grad[1]:
            of_factors = 3 * (grad * x)
        return of_x, of_factors


class Both(Function):
    """Two results, whose gradients meet, one of them marked, and one that is no float."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        s, c, marked = torch.sin(x), torch.cos(x[..., :2]), torch.exp(x)
        ctx.mark_non_differentiable(marked)
        ctx.save_for_backward(s, marked)
        ctx.size = x.shape[-1]
        return s, c, marked, x > 0

    @staticmethod
    def backward(ctx: Any, of_s: Any, of_c: Any, of_marked: Any, of_flags: Any) -> Any:
        s, marked = ctx.saved_tensors
        wide = torch.nn.functional.pad(of_c, (0, ctx.size - 2))
        return torch.tanh(of_s * wide + of_s) + 0.1 * wide * marked + s * of_s + of_marked


class Outer(Function):
    """A Function within forward, whose backward means nothing, and one within backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.slope = torch.sigmoid(x)
        return FastSigmoid.apply(x) + Clipped.apply(x, 0.1)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return FastSigmoid.apply(grad) + Reversal.apply(grad * ctx.slope, 2.0)


class Closing(Function):
    """Reads a parameter, which gets no gradient here."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x @ WEIGHTS

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad @ WEIGHTS.tanh()


class Straight(Function):
    """Of a parameter: rounded forward, as if it were not backward."""

    @staticmethod
    def forward(ctx: Any, w: Any) -> Any:
        ctx.save_for_backward(w)
        return torch.round(w * 4) / 4

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * (ctx.saved_tensors[0].abs() < 0.7)


class Unequal(Function):
    """A gradient for each use of a parameter by itself: not linear."""

    @staticmethod
    def forward(ctx: Any, w: Any) -> Any:
        return w * 1.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.sign() * 0.01


class ByVjp(Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return torch.tanh(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def vjp(ctx: Any, grad: Any) -> Any:
        return grad * ctx.saved_tensors[0]


class NoGradient(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.exp()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None


class Integers(Function):
    """What is no float has no gradient; neither has what is no tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any, rows: Any, name: str) -> Any:
        ctx.save_for_backward(rows)
        ctx.count = len(name)
        return x[:, rows] * 1.5, None, 3

    @staticmethod
    def backward(ctx: Any, grad: Any, *others: Any) -> Any:
        (rows,) = ctx.saved_tensors
        return grad[:, rows] * ctx.count, None, None


class Widened(Function):
    """A gradient that is larger than its input: PyTorch adds it up."""

    @staticmethod
    def forward(ctx: Any, x: Any, bias: Any) -> Any:
        return x + bias

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, grad * 0.5


class Switching(Function):
    """Without gradients all the same."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        with torch.no_grad():
            y = torch.relu(x)
        ctx.factor = 3.0 if torch.is_grad_enabled() else 0.5
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        with torch.no_grad():
            return grad * ctx.factor


class Telling(Function):
    """Leaves a tensor elsewhere, which has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, told: list[Any]) -> Any:
        told.append(x * 2)
        return x * 3

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 0.5, None


def telling(x: Any) -> Any:
    told: list[Any] = []
    y = Telling.apply(x, told)
    return y + told[0]


torch.compiler.allow_in_graph(allowed := type("Allowed", (FastSigmoid,), {}))
spike = FastSigmoid.apply
FACTORS = torch.linspace(0.5, 1.5, 4).requires_grad_()
ROWS = torch.tensor([3, 0, 2, 2])
library = torch.library.Library("rnncc_functions", "DEF")
library.define("composite(Tensor x) -> Tensor")
library.impl("composite", lambda x: FastSigmoid.apply(x), "CompositeImplicitAutograd")
library.define("overridden(Tensor x) -> Tensor")
library.impl("overridden", lambda x: torch.tanh(x), "CPU")
library.impl("overridden", lambda x: torch.tanh(x), "Meta")
library.impl("overridden", lambda x: FastSigmoid.apply(x), "Autograd")


def joined(x: Any) -> Any:
    s, c, marked, flags = Both.apply(x)
    return s * 0.5 + torch.where(flags, marked, marked * 0.1) * 0.2 + c.sum(-1, keepdim=True)


def one_of_both(x: Any) -> Any:
    return Both.apply(x)[0]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "fast sigmoid": lambda x: FastSigmoid.apply(x),
    "alias": lambda x: spike(x - 0.1),
    "arctangent": lambda x: Atan.apply(x, 2.0),
    "keyword": lambda x: Atan.apply(x, alpha=3.0),
    "boxcar": lambda x: Boxcar.apply(x),
    "reversal": lambda x: Reversal.apply(torch.tanh(x), 0.7),
    "clipped": lambda x: Clipped.apply(x, 0.05),
    "norm": lambda x: OfNorm.apply(x),
    "product": lambda x: Product.apply(x, FACTORS),
    "two results": joined,
    "one of two results": one_of_both,
    "nested": lambda x: Outer.apply(x),
    "closing": lambda x: Closing.apply(x),
    "straight through": lambda x: x @ Straight.apply(WEIGHTS),
    "each by itself": lambda x: x @ Unequal.apply(WEIGHTS) + x @ Unequal.apply(WEIGHTS),
    "vjp": lambda x: ByVjp.apply(x),
    "no gradient": lambda x: NoGradient.apply(x) + x * 0.5,
    "integers": lambda x: Integers.apply(x, ROWS, "abc")[0],
    "widened": lambda x: Widened.apply(x, FACTORS),
    "switching": lambda x: Switching.apply(x),
    "of each other": lambda x: Reversal.apply(Clipped.apply(FastSigmoid.apply(x) + x, 0.2), 0.5),
    "of a list": lambda x: torch.cat([Clipped.apply(part, 0.1) for part in x.split(2, -1)], -1),
    "telling": telling,
    "allowed in graphs": lambda x: allowed.apply(x),  # type: ignore[missing-attribute]
    "composite": lambda x: torch.ops.rnncc_functions.composite(x),
    "overridden": lambda x: torch.ops.rnncc_functions.overridden(x),
}

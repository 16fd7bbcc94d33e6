"""Second derivatives, forward mode, and the transforms of torch.func, beside PyTorch's loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from rnncc.errors import CompileError
from tests.torch.cells import torch
from tests.torch.strategies import cells
from tests.torch.transforms import check, loop, second, weighted

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
func: Any = torch.func
F64 = {"dtype": torch.float64}
XS, H, W = (torch.randn(*shape, **F64) for shape in ((3, 2, 4), (2, 4), (4, 4)))
"""What the cell here takes."""


def tanh_cell(w: Any) -> Callable[..., Any]:
    def cell(x: Any, h: Any) -> Any:
        h = torch.tanh(x + (h @ w if w.shape else h * w))
        return h * h, h

    return cell


@settings(max_examples=1, deadline=None, derandomize=True)
@given(cells())
def test_random_cells(cell: Any) -> None:
    check(cell)


def test_gradgradcheck() -> None:
    def whole(xs: Any, h: Any, w: Any) -> Any:
        return rt.scan(tanh_cell(w), xs, h)

    shapes = (2, 1, 2), (1, 2), (2, 2)
    inputs = [torch.randn(shape, **F64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradgradcheck(whole, inputs)


def firing_cell(x: Any, h: Any) -> Any:
    """What goes out has no derivatives."""
    h = torch.tanh(x + h)
    return (h > 0).to(h.dtype), h


def scalar(run: Any, w: Any, xs: Any = XS, h: Any = H) -> Any:
    return weighted(run(tanh_cell(w), xs, h))


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda run: func.grad(lambda w: scalar(run, w))(W),
    "vjp": lambda run: func.vjp(lambda x: run(tanh_cell(W), x, H)[0], XS)[1](XS),
    "jvp": lambda run: func.jvp(lambda x, w: run(tanh_cell(w), x, H), (XS, W), (XS, W)),
    "jvp beside constants": lambda run: func.jvp(lambda x: run(firing_cell, x, H), (XS,), (XS,)),
    "hessian": lambda run: func.hessian(lambda h: scalar(run, W, h=h))(H),
    "jacfwd": lambda run: func.jacfwd(lambda h: run(tanh_cell(W), XS, h)[1])(H),
    "jacrev": lambda run: func.jacrev(lambda h: run(tanh_cell(W), XS, h)[1])(H),
    "vmap": lambda run: func.vmap(lambda x: run(tanh_cell(W), x, H), 2)(torch.stack([XS, -XS], 2)),
    "ensemble": lambda run: func.vmap(lambda w: run(tanh_cell(w), XS, H))(
        torch.stack([W, -W, W * 2])
    ),
    "ensemble along the last axis": lambda run: func.vmap(lambda w: run(tanh_cell(w), XS, H), -1)(
        torch.stack([W, -W, W * 2], -1)
    ),
    "numbers": lambda run: func.vmap(func.grad(lambda w: scalar(run, w)))(W[0]),
    "gradients of samples": lambda run: func.vmap(
        lambda x, h: func.grad(lambda w: scalar(run, w, x, h))(W), (1, 0)
    )(XS.unsqueeze(2), H.unsqueeze(1)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    torch.testing.assert_close(TRANSFORMS[name](rt.scan), TRANSFORMS[name](loop))


def test_eight_cells_at_once_are_eight_calls() -> None:
    class Gated(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, x: Any, h: Any) -> Any:
            f, z = self.layer(torch.cat([x, h], -1)).chunk(2, -1)
            h = torch.lerp(h, torch.tanh(z), torch.sigmoid(f))
            return h, h

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = Gated()

        def forward(self, xs: Any) -> Any:
            return rt.scan(self.cell, xs, torch.zeros(2, 4))[0]

    models = [Whole() for _ in range(8)]
    stacked, _ = func.stack_module_state(models)
    whole = func.vmap(lambda given, xs: func.functional_call(models[0], given, (xs,)), (0, None))
    xs = XS.float()
    torch.testing.assert_close(whole(stacked, xs), torch.stack([one(xs) for one in models]))


def penalised(run: Any, cell: Any, xs: Any, h: Any) -> list[float]:
    """Losses of a training whose loss has a penalty on gradients."""
    optimiser, losses = torch.optim.Adam(cell.parameters(), 0.05), list[float]()
    for _ in range(4):
        xs = xs.detach().requires_grad_()
        ys, _ = run(cell, xs, h)
        (slopes,) = torch.autograd.grad(ys.sum(), xs, create_graph=True)
        loss = (ys - 0.5).square().mean() + (slopes.flatten(1).norm(dim=1) - 1).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def meta_trained(run: Any, cell: Any, xs: Any, h: Any) -> list[float]:
    """Losses of MAML: what is learned is where one step of training starts."""
    optimiser, losses = torch.optim.SGD(cell.parameters(), 0.05), list[float]()
    names = [name for name, _ in cell.named_parameters()]
    for _ in range(4):
        total: Any = 0.0
        for task in (-1.0, 1.0):
            ys, _ = run(cell, xs * task, h)
            inner = (ys - task).square().mean()
            grads = torch.autograd.grad(inner, list(cell.parameters()), create_graph=True)
            pairs = zip(names, cell.parameters(), grads, strict=True)
            adapted = {name: p - 0.1 * g for name, p, g in pairs}
            ys, _ = run(
                lambda x, h, given=adapted: func.functional_call(cell, given, (x, h)), xs, h
            )
            total = total + (ys + task * xs).square().mean()
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
        losses.append(total.item())
    return losses


class Minimal(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, x: Any, h: Any) -> Any:
        h = torch.tanh(self.layer(torch.cat([x, h], -1)))
        return h, h


@pytest.mark.parametrize("train", [penalised, meta_trained])
def test_training(train: Callable[..., list[float]]) -> None:
    found = list[list[float]]()
    for run in (rt.scan, loop):
        torch.manual_seed(0)
        found.append(train(run, Minimal().double(), XS, H))
    torch.testing.assert_close(*map(torch.tensor, found))


def test_first_derivatives_compile_no_second_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("nobody has asked for them")

    monkeypatch.setattr("rnncc.torch.nets.gradient_program", fail)
    xs = XS[:, :, :3].clone().requires_grad_()
    ys, _ = rt.scan(lambda x, h: (x * h, h + x), xs, H[:, :3])
    (slopes,) = torch.autograd.grad(ys.sum(), xs, create_graph=True)
    with pytest.raises(AssertionError, match="nobody"):
        slopes.sum().backward()


def test_modules() -> None:
    layer = torch.nn.RNN(4, 3).double()
    compiled = rt.compile(layer, (XS,))

    def found(run: Any) -> Any:
        return second(lambda _, xs, __: run(xs), layer, XS, (H, H))

    for one, other in zip(found(compiled), found(layer), strict=True):
        torch.testing.assert_close(one, other)
    given = {f"module.{name}": torch.stack([p, -p]) for name, p in layer.named_parameters()}
    made = func.vmap(lambda given: func.functional_call(compiled, given, (XS,))[0])(given)
    for i, one in enumerate(made):
        own = {name: p[i] for name, p in given.items()}
        torch.testing.assert_close(one, func.functional_call(compiled, own, (XS,))[0])


class Saved(torch.autograd.Function):
    """A step whose gradient is that of a bump."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x > 0).to(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] / (1 + ctx.saved_tensors[0].square()) ** 2


class SavedResult(Saved):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = torch.exp(x)
        ctx.save_for_backward(y)
        return y


class Once(Saved):
    backward = staticmethod(torch.autograd.function.once_differentiable(Saved.backward))


class Squared(Saved):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0].square()


class Applied(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, state: Any) -> Any:
        fired = self.function.apply(x - 0.5 * state[0])
        return fired * x, (fired + torch.tanh(state[0]), state[1] * x)


@pytest.mark.parametrize("name", ["erfinv", "ndtri", "logit"])
def test_third_derivatives_of_inverses(name: str) -> None:
    """Of what is computed by steps that approach it, too."""
    found = list[Any]()
    for run in (rt.scan, loop):
        x = torch.tensor([[0.1, 0.35, 0.6, 0.9]], **F64, requires_grad=True)
        y, found_here = run(lambda x, h: (getattr(torch.special, name)(x), h), x, H)[0], list[Any]()
        for _ in range(3):
            (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            found_here.append(y)
        found.append(found_here)
    torch.testing.assert_close(*found)


def test_functions_with_a_backward_of_their_own() -> None:
    cell = Applied(Saved)
    for one, other in zip(*(second(run, cell, XS, (H, H)) for run in (rt.scan, loop)), strict=True):
        torch.testing.assert_close(one, other)


class Stopped(torch.nn.Module):
    """A Function and a pool of what detached tensors and softmax's stopped maximum are part of."""

    def forward(self, x: Any, state: Any) -> Any:
        h = torch.log_softmax(x * state[0].detach() + state[0], -1)
        y = torch.nn.functional.adaptive_max_pool1d(h.unsqueeze(1), 2).squeeze(1).repeat(1, 2)
        return y, (torch.tanh(y + Saved.apply(h) * x), state[1] * x)


def test_stops_before_what_has_a_backward_of_its_own() -> None:
    for one, other in zip(
        *(second(run, Stopped(), XS, (H, H)) for run in (rt.scan, loop)), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (SavedResult, "reads more than the gradient and inputs saved"),
        (Once, "reads more than"),
        (Squared, "is not linear in the gradient"),
    ],
)
def test_functions_whose_second_derivatives_are_not_known(function: Any, reason: str) -> None:
    xs = XS.clone().requires_grad_()
    ys, _ = rt.scan(Applied(function), xs, (H, H))
    (slopes,) = torch.autograd.grad(ys.sum(), xs, create_graph=True)
    with pytest.raises(CompileError, match=f"no second derivatives.*backward {reason}"):
        slopes.sum().backward()


def test_records_of_operators_are_refused() -> None:
    """Compiled code is none of PyTorch's: a record would hold memory that nobody has written."""
    layer = torch.nn.RNN(4, 3).double()
    compiled = rt.compile(layer, (XS,))
    for run in (lambda x: compiled(x)[0], lambda x: rt.scan(tanh_cell(W), x, H)[0]):
        with pytest.raises(CompileError, match="cannot be recorded by make_fx"):
            func.linearize(run, XS)


def test_random_numbers_of_instances() -> None:
    def whole(x: Any) -> Any:
        return rt.scan(lambda x, h: (torch.dropout(x, 0.5, True), h), x, torch.zeros(2))[0]

    ones = torch.ones(2, 9, 30)
    same = func.vmap(whole, randomness="same")(ones)
    assert torch.equal(same[0], same[1])
    apart = func.vmap(whole, randomness="different")(ones)
    assert not torch.equal(apart[0], apart[1])
    with pytest.raises(RuntimeError, match="randomness"):
        func.vmap(whole)(ones)


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_that_come_in_a_batch(create_graph: bool) -> None:
    """Of one output and of both."""
    found = list[Any]()
    for run in (rt.scan, loop):
        xs, w = XS.clone().requires_grad_(), W.clone().requires_grad_()
        ys, last = run(tanh_cell(w), xs, H)
        several = torch.stack([ys, ys.exp()]).detach()
        rows = [torch.autograd.grad(last, xs, last.expand(3, 2, 4), True, is_grads_batched=True)]
        pair, seeds = (last.sum(), ys), (torch.tensor([1.0, -2.0], **F64), several)
        rows.append(
            torch.autograd.grad(
                pair, (xs, w), seeds, is_grads_batched=True, create_graph=create_graph
            )
        )
        if create_graph:
            rows.append(torch.autograd.grad(sum(x.square().sum() for x in rows[1]), (xs, w)))
        found.append(rows)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("inner", [None, "reverse-mode", "forward-mode"])
def test_tangents_that_come_in_a_batch(inner: str | None) -> None:
    """As `torch.autograd.functional` gives them, of outputs and of gradients."""
    forward = {"vectorize": True, "strategy": "forward-mode"}
    found = list[Any]()
    for run in (rt.scan, loop):

        def last(h: Any, run: Any = run) -> Any:
            return run(tanh_cell(W), XS, h)[1]

        if inner is None:
            found.append(torch.autograd.functional.jacobian(last, H, **forward))
        else:
            options = {"vectorize": True, "outer_jacobian_strategy": inner}
            found.append(
                torch.autograd.functional.hessian(lambda h: last(h).exp().sum(), H, **options)
            )
    torch.testing.assert_close(*found)


def test_tangents_that_reach_nothing() -> None:
    """Zeros, as of what an input does not move."""
    found = list[Any]()
    for run in (rt.scan, loop):

        def last(xs: Any, run: Any = run) -> Any:
            return run(lambda _, h: (h, h.sin()), xs, H)[1]

        found.append((func.jvp(last, (XS,), (XS,)), func.jacfwd(last)(XS)))
    torch.testing.assert_close(*found)


def test_tangents_of_tangents_that_are_zeros() -> None:
    """Tensors without memory, as autograd makes them."""
    found = list[Any]()
    for run in (rt.scan, loop):

        def last(u: Any, run: Any = run) -> Any:
            return run(lambda x, h: (h, h * 0.5 + x), XS * (1 + u[0]) + u[1], H * u[2])[1].sum(0)

        found.append(func.jacfwd(func.jacfwd(last))(torch.ones(3, **F64)))
    torch.testing.assert_close(*found)

"""Numbers with a slope, as types that numba knows: a function of numbers is compiled for them too.

A `Dual` holds a real number and its derivative along one argument (Clifford, 1873). What does not
depend on that argument is a Dual of the value alone, so that nothing is multiplied by a slope of
zero, which would turn an infinity into NaN. Python's numbers take the other operand's precision, so
that literals do not make everything float64.
"""

# numba's own code has few types, and those of intrinsics are not what a caller sees
# pyright: basic, reportCallIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.typeconv.castgraph import Conversion
from numba.extending import intrinsic, lower_cast, make_attribute_wrapper, models, register_model


class Dual(types.Type):
    """The type; `real` is float32 or float64, `sloped` tells whether there is a slope."""

    def __init__(self, real: types.Float, sloped: bool) -> None:
        self.real, self.sloped = real, sloped
        super().__init__(name=f"{'Dual' if sloped else 'Real'}({real})")

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        return Conversion.safe if self._holds(other) else None

    def unify(self, typingctx: Any, other: Any) -> Any:
        return self if self._holds(other) else None

    def _holds(self, other: Any) -> bool:
        return is_number(other) or (isinstance(other, Dual) and self.sloped)


def is_number(type_: Any) -> bool:
    """Whether a type is that of Python's own numbers."""
    return isinstance(type_, types.Float | types.Integer)


@register_model(Dual)
class _Model(models.StructModel):
    def __init__(self, manager: Any, type_: Dual) -> None:
        slope = [("slope", type_.real)] if type_.sloped else []
        super().__init__(manager, type_, [("value", type_.real), *slope])


make_attribute_wrapper(Dual, "value", "value")
make_attribute_wrapper(Dual, "slope", "slope")


def _made(context: Any, builder: Any, type_: Dual, value: Any, slope: Any = None) -> Any:
    struct = cgutils.create_struct_proxy(type_)(context, builder)
    struct.value = value
    if type_.sloped:
        struct.slope = context.get_constant(type_.real, 0) if slope is None else slope
    return struct._getvalue()


@lower_cast(types.Float, Dual)
@lower_cast(types.Integer, Dual)
@lower_cast(Dual, Dual)
def _cast(context: Any, builder: Any, value: Any, type_: Dual, x: Any) -> Any:
    if value == type_:
        return x
    if isinstance(value, Dual):
        x, value = builder.extract_value(x, 0), value.real
    return _made(context, builder, type_, context.cast(builder, x, value, type_.real))


def _maker(sloped: bool) -> Any:
    def typed(typingctx: Any, value: Any, slope: Any = None) -> Any:
        type_ = Dual(value, sloped)

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _made(context, builder, type_, *args)

        return (type_(value, slope) if sloped else type_(value)), code

    return typed


@intrinsic
def dual(typingctx: Any, value: Any, slope: Any) -> Any:
    """A Dual of two reals."""
    return _maker(True)(typingctx, value, slope)


@intrinsic
def plain(typingctx: Any, value: Any) -> Any:
    """A Dual without a slope."""
    return _maker(False)(typingctx, value)


@intrinsic
def value_of(typingctx: Any, x: Any, like: Any) -> Any:
    """The real number in a Dual, or a number as one, in the precision of another Dual."""
    type_ = x.real if isinstance(x, Dual) else like.real

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if isinstance(signature.args[0], Dual):
            return builder.extract_value(args[0], 0)
        return context.cast(builder, args[0], signature.args[0], type_)

    return type_(x, like), code


@intrinsic
def slope_of(typingctx: Any, x: Any, like: Any) -> Any:
    """The slope of a Dual, or 0 for what has none."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lists = signature.args[0]
        if isinstance(lists, Dual) and lists.sloped:
            return builder.extract_value(args[0], 1)
        return context.get_constant(like.real, 0)

    return like.real(x, like), code


@intrinsic
def real(typingctx: Any, x: Any, like: Any) -> Any:
    """A number in the precision of another one."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.cast(builder, args[0], signature.args[0], like)

    return like(x, like), code


def seeded(along: int | None) -> Any:
    """What makes a tuple of reals one of Duals, with slope 1 in one place."""

    @intrinsic
    def seed(typingctx: Any, values: Any) -> Any:
        real = values.dtype
        many = types.Tuple([Dual(real, i == along) for i in range(len(values))])

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            reals, one = cgutils.unpack_tuple(builder, args[0]), context.get_constant(real, 1)
            parts = [
                _made(context, builder, type_, x, one) for type_, x in zip(many, reals, strict=True)
            ]
            return context.make_tuple(builder, many, parts)

        return many(values), code

    return seed

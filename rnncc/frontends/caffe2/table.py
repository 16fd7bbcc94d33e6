"""The operators that the importer knows, and those it refuses with a reason."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from rnncc.frontends.caffe2.operator import Operator
from rnncc.frontends.caffe2.ops import (
    branch,
    cells,
    copies,
    do,
    elementwise,
    fill,
    linear,
    loop,
    parts,
    recurrent_network,
    sequence,
    shape,
)

Table = Mapping[str, type[Operator]]


class Late(Table):
    """Tables of which each is imported when something is in none before it: most nets hold neither
    gradients nor convolutions."""

    def __init__(self, *tables: Callable[[], Table]) -> None:
        self.tables = tables

    def __getitem__(self, kind: str) -> type[Operator]:
        for table in self.tables:
            if kind in table():
                return table()[kind]
        raise KeyError(kind)

    def __iter__(self) -> Iterator[str]:
        for table in self.tables:
            yield from table()

    def __len__(self) -> int:
        return sum(len(table()) for table in self.tables)


@cache
def _gradients() -> Table:
    from rnncc.frontends.caffe2.ops import (
        gradients,
        hierarchies,
        lengths_gradients,
        recurrent_gradient,
    )

    return {
        **gradients.OPERATORS,
        **lengths_gradients.GRADIENTS,
        **recurrent_gradient.OPERATORS,
        **hierarchies.GRADIENTS,
    }


def _layers() -> Table:
    from rnncc.frontends.caffe2.ops import layers

    return layers.OPERATORS


def _functions() -> Table:
    from rnncc.frontends.caffe2.ops import functions

    return functions.OPERATORS


def _features() -> Table:
    from rnncc.frontends.caffe2.ops import features

    return features.OPERATORS


@cache
def _spatial() -> Table:
    from rnncc.frontends.caffe2.ops import extremes, spatial

    return {**spatial.OPERATORS, **extremes.OPERATORS}


def _images() -> Table:
    from rnncc.frontends.caffe2.ops import images

    return images.OPERATORS


def _rows() -> Table:
    from rnncc.frontends.caffe2.ops import rows

    return rows.OPERATORS


@cache
def _segments() -> Table:
    from rnncc.frontends.caffe2.ops import lengths, packing, segments

    return {**segments.OPERATORS, **lengths.OPERATORS, **packing.OPERATORS}


def _paths() -> Table:
    from rnncc.frontends.caffe2.ops import paths

    return paths.OPERATORS


def _reductions() -> Table:
    from rnncc.frontends.caffe2.ops import reductions

    return reductions.OPERATORS


def _norms() -> Table:
    from rnncc.frontends.caffe2.ops import norms

    return norms.OPERATORS


def _entropies() -> Table:
    from rnncc.frontends.caffe2.ops import entropies

    return entropies.OPERATORS


def _losses() -> Table:
    from rnncc.frontends.caffe2.ops import losses

    return losses.OPERATORS


def _hierarchies() -> Table:
    from rnncc.frontends.caffe2.ops import hierarchies

    return hierarchies.OPERATORS


def _control_gradients() -> Table:
    from rnncc.frontends.caffe2.ops import control_gradient

    return control_gradient.GRADIENTS


FAMILIES: dict[str, Table] = {
    "Elementwise": {**elementwise.OPERATORS, **copies.OPERATORS},
    "Products and rows": linear.OPERATORS,
    "Shapes": {**parts.OPERATORS, **shape.OPERATORS},
    "Sequences": sequence.OPERATORS,
    "Cells": cells.OPERATORS,
    "Constants and Dropout": fill.OPERATORS,
    "Recurrent nets": recurrent_network.OPERATORS,
    "Control": {**do.OPERATORS, **branch.OPERATORS, **loop.OPERATORS},
}

_PLAIN = {kind: operator for family in FAMILIES.values() for kind, operator in family.items()}
_SELDOM = (
    _gradients,
    _layers,
    _functions,
    _features,
    _rows,
    _segments,
    _paths,
    _reductions,
    _spatial,
    _images,
    _norms,
    _entropies,
    _losses,
    _hierarchies,
)
OPERATORS: Table = Late(lambda: _PLAIN, *_SELDOM)
"""Operator type -> the class that imports it; its docstring is the formula, and ends with the forms
that are refused."""

FAMILIES["Cells"] = Late(lambda: cells.OPERATORS, _layers)
FAMILIES["Activations and angles"] = Late(_functions)
FAMILIES["Features"] = Late(_features)
FAMILIES["Rows and layouts"] = Late(_rows)
FAMILIES["Paddings and segments"] = Late(_segments)
FAMILIES["Best paths"] = Late(_paths)
FAMILIES["Reductions and distances"] = Late(_reductions)
FAMILIES["Windows and extremes"] = Late(_spatial)
FAMILIES["Images"] = Late(_images)
FAMILIES["Norms of channels"] = Late(_norms)
FAMILIES["Losses"] = Late(_entropies, _losses, _hierarchies)
FAMILIES["Sums and gradients"] = Late(_gradients)

GRADIENTS: Table = Late(_control_gradients)
"""Operator type -> the class of those that are marked as gradients."""

REFUSED: dict[str, str] = {
    **fill.REFUSED,
    "ONNXWhile": "of loops, While is read",
    "Recurrent": "its weights are in cuDNN's own layout",
}
"""Operator type -> why it is not supported."""

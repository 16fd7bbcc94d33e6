# pyright: basic, reportMissingImports=false
"""The text of a Python function while it is written, and the function that it becomes."""

from __future__ import annotations

import ast
import builtins
import math
import re
from itertools import count
from keyword import iskeyword
from types import FunctionType
from typing import Any

import torch


class Text:
    """Lines of a function, and the names of TorchScript's values in them.

    Attributes:
        names: of each value the expression that reads it.
        sizes: values that traced code takes for tensors, and that are numbers here.
        types: names of values that are dtypes.
        held: what the function's globals are.
        file, line: of the user's code, where the next lines come from.
        depth: of indentation.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.names, self._taken = dict[str, str](), set[str]()
        self.sizes, self.types = set[str](), set[str]()
        self.held: dict[str, Any] = {"torch": torch, "math": math}
        self.file, self.line, self.depth = f"<TorchScript {name}>", 1, 0
        self._lines, self._origins = list[str](), list[int]()
        self._numbers = count()

    def function(self, defaults: tuple[Any, ...]) -> FunctionType:
        """What was written, as a function whose lines are the user's."""
        tree = ast.parse("\n".join(self._lines))
        for node in ast.walk(tree):
            if isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword):
                node.lineno = node.end_lineno = self._origins[node.lineno - 1]
                node.col_offset = node.end_col_offset = 0
        exec(compile(tree, self.file, "exec"), self.held)
        function = self.held[self.name]
        function.__defaults__ = defaults or None
        return function

    def take(self, value: Any, name: str) -> None:
        """Give a value a name of its own."""
        self.names[value.debugName()] = name
        self._taken.add(name)

    def put(self, line: str) -> None:
        """Add a line."""
        self._lines.append("    " * self.depth + line)
        self._origins.append(self.line)

    def new(self, value: Any) -> str:
        """A new name for a value."""
        stem = re.sub(r"\W", "_", value.debugName().split(".")[0])
        if not stem.isidentifier() or iskeyword(stem):
            stem = f"v{stem}"
        name = stem
        while name in self._taken or name in self.held or hasattr(builtins, name):
            name = f"{stem}_{next(self._numbers)}"
        self.take(value, name)
        return name

    def hold(self, stem: str, thing: Any) -> str:
        """A name for what no text can say."""
        name = f"_{stem}{next(self._numbers)}"
        self.held[name] = thing
        return name

    def read(self, value: Any) -> str:
        """A value; a size that traced code takes for a tensor as one."""
        text = self.names[value.debugName()]
        return f"torch.tensor({text})" if value.debugName() in self.sizes else text

    def assign(self, node: Any, text: str) -> None:
        """Compute something where it stands."""
        outputs = list(node.outputs())
        if not outputs:
            self.put(text)
        else:
            self.put(f"{', '.join(self.new(value) for value in outputs)} = {text}")

    def same(self, node: Any, text: str) -> None:
        """Let results be what is there already."""
        for output in node.outputs():
            self.names[output.debugName()] = text

"""Writes the list of aten operators in docs/torch.md."""

from __future__ import annotations

import re
from pathlib import Path

from tools.wrapping import wrap

PAGE = Path(__file__).parents[1] / "docs/torch.md"
_LIST = re.compile(r"(?<=apart into these:\n\n)(`[^\n]*\n)+")


def listed() -> str:
    """The names, in order, without overloads, as a paragraph."""
    from rnncc.frontends.torch.aten import OPERATORS

    names = {re.split(r"[.]", name.removeprefix("rnncc::"))[0] for name in OPERATORS}
    return wrap(", ".join(f"`{name}`" for name in sorted(names)))


def page(text: str) -> str:
    """The page with the list as it should be."""
    return _LIST.sub(listed(), text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))

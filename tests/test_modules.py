"""How the tests themselves are laid out."""

from __future__ import annotations

import re
from pathlib import Path

IMPORT = re.compile(r"^\s*(?:from|import) (tests\.[\w.]*\btest_\w+)", re.MULTILINE)


def test_no_test_module_imports_another() -> None:
    """What several need lies in a module without tests, where it is looked for."""
    modules = Path(__file__).parent.rglob("*.py")
    found = {str(path): IMPORT.findall(path.read_text("utf-8")) for path in modules}
    assert len(found) > 100
    assert {name: imported for name, imported in found.items() if imported} == {}

"""This machine, as LLVM tells of it."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import llvmlite.binding
from rnncc_runtime.signals import undisturbed

from rnncc.records import record

llvm = cast(Any, llvmlite.binding)  # its type stubs are of an older version


@record
class Host:
    """This machine; `features` has `+NAME` or `-NAME` for each one that LLVM knows."""

    triple: str
    cpu: str
    features: str

    @property
    def has(self) -> frozenset[str]:
        """The names of features that are there."""
        return frozenset(f[1:] for f in self.features.split(",") if f.startswith("+"))


@cache
@undisturbed()
def host() -> Host:
    """What code for this process may use."""
    features = llvm.get_host_cpu_features().flatten()
    return Host(llvm.get_default_triple(), llvm.get_host_cpu_name(), features)

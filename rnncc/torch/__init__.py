"""Recurrent nets of PyTorch, compiled (docs/torch.md).

ys, state = rnncc.torch.scan(cell, xs, state)  # a loop of one's own cell, with gradients
net = rnncc.torch.compile(module, (x,))  # a whole module
rnncc.torch.build(module, (x,), out="build")  # the same as a library
"""

from __future__ import annotations

from rnncc.torch.supported import refusal, trying

if (reason := refusal()) is not None:
    raise ImportError(reason)

with trying():
    from rnncc.frontends.torch.watching.reading import prove_watching
    from rnncc.torch.compiled_module import CompiledModule
    from rnncc.torch.divergences import let_divergences_be_read
    from rnncc.torch.elementwise import elementwise
    from rnncc.torch.exports import export
    from rnncc.torch.modules import build, compile
    from rnncc.torch.scanning import scan
    from rnncc.torch.scripted import unscripted

    prove_watching()
    let_divergences_be_read()

__all__ = ["CompiledModule", "build", "compile", "elementwise", "export", "scan", "unscripted"]

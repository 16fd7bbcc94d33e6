# pyright: basic, reportMissingImports=false
"""Parameters that code finds elsewhere than where they are registered, as in a list of a module's.

PyTorch exports the data of such a parameter, a constant, whose gradients are lost. Here it is the
parameter, and where the module has that registered, too, its input.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._export.passes import lift_constants_pass as _lifting
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node
from torch.utils.weak import WeakTensorKeyDictionary

from rnncc.frontends.torch.patches import ThreadScope

_parameters: Any = WeakTensorKeyDictionary()


keeping_parameters = ThreadScope()
"""Within it, it is noted which constants of what this thread exports are parameters."""
_NAME = "lift_constants_pass"
_theirs: Any = vars(_lifting).get(_NAME)


def _lifted(module: GraphModule, signature: Any, attributes: Any) -> dict[str, Any]:
    """PyTorch's constants of a graph; which parameters' data they are is noted."""
    if keeping_parameters:
        _read_once(module)
    nodes = module.graph.find_nodes(op="get_attr") if keeping_parameters else []
    lifted = [getattr(module, node.target, None) for node in nodes]
    parameters = {
        memory: p
        for p in lifted
        if isinstance(p, torch.nn.Parameter) and p.numel() and (memory := _memory(p))
    }
    constants: dict[str, Any] = _theirs(module, signature, attributes)
    for x in constants.values() if parameters else ():
        if (parameter := parameters.get(_memory(x))) is not None:
            _parameters[x] = parameter
    return constants


def _read_once(module: GraphModule) -> None:
    """Let all that reads a parameter read it from one node: PyTorch writes one for each use, and
    makes a constant of each, which a loop of many steps has hundreds of."""
    first = dict[int, Node]()
    for node in module.graph.find_nodes(op="get_attr"):
        value = getattr(module, node.target, None)
        known = first.setdefault(id(value), node) if isinstance(value, torch.nn.Parameter) else node
        # What the signature names as a result stays.
        if known is not node and all(user.op != "output" for user in node.users):
            node.replace_all_uses_with(known)
            module.graph.erase_node(node)


def _memory(x: Any) -> Any:
    if not isinstance(x, torch.Tensor) or not torch._C._has_storage(x):
        return None
    return x.data_ptr(), x.shape, x.stride()


if _theirs is not None:
    setattr(_lifting, _NAME, _lifted)


def parameter_of(x: Any) -> Any:
    """The parameter whose data a constant is; the constant itself where it is none's."""
    return _parameters.get(x, x)


def join_parameters(program: ExportedProgram) -> None:
    """Let what reads a constant that is a parameter of the module's read the parameter."""
    places = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    specs = program.graph_signature.input_specs
    inputs = {
        id(program.state_dict[spec.target]): places[spec.arg.name]
        for spec in specs
        if spec.kind == InputKind.PARAMETER and spec.target is not None
    }
    for spec in specs:
        if spec.kind == InputKind.CONSTANT_TENSOR and spec.target is not None:
            own = inputs.get(id(parameter_of(program.constants[spec.target])))
            if own is not None:
                places[spec.arg.name].replace_all_uses_with(own)

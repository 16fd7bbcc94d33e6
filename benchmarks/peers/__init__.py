"""What rnncc is measured against: a module each, as `rnncc.bench.contenders` says.

Inputs and parameters are those of `benchmarks.cells`, and `Workload.result()` is the output y, for
tests.
"""

from __future__ import annotations

from rnncc.bench.contenders import Contender

PEERS = [
    Contender("ONNX Runtime", "benchmarks.peers.onnx_runtime", "onnxruntime"),
    Contender("OpenVINO", "benchmarks.peers.openvino_runtime", "openvino"),
    Contender("PyTorch", "benchmarks.peers.torch_eager", "torch"),
    Contender("PyTorch bf16", "benchmarks.peers.torch_eager", "torch", "bf16"),
    Contender("PyTorch compiled", "benchmarks.peers.torch_compiled", "torch", slow=True),
    Contender("JAX", "benchmarks.peers.jax_scan", "jax"),
    Contender("IREE", "benchmarks.peers.iree_scan", "iree"),
    Contender("RTNeural", "benchmarks.peers.rtneural", "RTNeural/RTNeural.h"),
    Contender("PyTorch", "benchmarks.peers.torch_cuda", "torch", device="cuda"),
    Contender("PyTorch bf16", "benchmarks.peers.torch_cuda", "torch", "bf16", device="cuda"),
    Contender("JAX", "benchmarks.peers.jax_cuda", "jax", device="cuda"),
]

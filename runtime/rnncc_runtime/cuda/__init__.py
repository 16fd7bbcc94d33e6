"""Models on NVIDIA GPUs: needs NumPy and the driver, and no package of CUDA's.

model = rnncc_runtime.load("build/liblstm.so")  # a library made with --gpu: a `CudaModel`
outputs = model.run({"x": x})  # arrays of CuPy, JAX, PyTorch, ... on the GPU, or of NumPy
"""

from rnncc_runtime.cuda.arrays import DeviceArray
from rnncc_runtime.cuda.device import Device
from rnncc_runtime.cuda.model import CudaModel
from rnncc_runtime.cuda.stream import CudaStream
from rnncc_runtime.cuda.training import CudaTape, CudaTrainableModel

__all__ = ["CudaModel", "CudaStream", "CudaTape", "CudaTrainableModel", "Device", "DeviceArray"]

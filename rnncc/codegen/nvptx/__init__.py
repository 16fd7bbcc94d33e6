"""NVIDIA GPUs: each kernel program as one persistent launch, as PTX (docs/nvptx.md)."""

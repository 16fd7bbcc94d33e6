"""Recurrent models as people have them, each compared with ONNX Runtime.

The scripts of this folder make them: of Keras by tf2onnx, of PyTorch by both of its exporters,
quantised and optimised by ONNX Runtime, and out of packages on the index. `python -m
tests.frontends.onnx.corpus DIR` compares what lies in a folder.
"""

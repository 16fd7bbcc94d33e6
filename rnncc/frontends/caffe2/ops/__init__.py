"""Caffe2's operators, one class each, one file a family."""

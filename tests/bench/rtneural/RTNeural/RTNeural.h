// The part of RTNeural's interface that rnncc uses, for tests: a layer that gives, for each unit,
// the first gate's weight of the first input times that input, and the first gate's bias.
#pragma once
#include <vector>

namespace RTNeural {
using Rows = std::vector<std::vector<float>>;

template <typename T, int In, int Out>
struct LSTMLayerT {
  std::vector<T> weights, bias;
  void setWVals(const Rows &w) { weights = w[0]; }
  void setUVals(const Rows &) {}
  void setBVals(const std::vector<T> &b) { bias = b; }
};

template <typename T, int In, int Out>
struct GRULayerT {
  std::vector<T> weights, bias;
  void setWVals(const Rows &w) { weights = w[0]; }
  void setUVals(const Rows &) {}
  void setBVals(const Rows &b) { bias = b[0]; }
};

template <typename T, int In, int Out, typename Layer>
struct ModelT {
  Layer layer;
  T out[Out];
  template <int>
  Layer &get() { return layer; }
  void reset() {}
  T forward(const T *x) {
    for (int i = 0; i < Out; ++i) out[i] = layer.weights[i] * x[0] + layer.bias[i];
    return out[0];
  }
  const T *getOutputs() const { return out; }
};
}  // namespace RTNeural

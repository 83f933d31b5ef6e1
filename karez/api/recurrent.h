// Recurrent layers: LSTM and GRU, each a scan over the time steps of its input.
#pragma once

#include <string>
#include <vector>

#include "karez/api/nn.h"

namespace karez::nn {

// Sizes of a recurrent layer.
struct RecurrentShape {
  int layers = 1;
  bool bias = true;
  // x and output are [n, t, ...] instead of [t, n, ...]. This form keeps the batch split if it is split over devices or
  // into micro-batches.
  bool batch_first = false;
};

// x [t, n, in] -> output [t, n, width], the last layer's states; hidden (and for LSTM cell) [layers, n, width], the
// final state of each layer. Initial states are zero or given. Weights have PyTorch's names and shapes ("weight_ih_l0"
// [gates * width, in], ...) and initial values: uniform within 1 / sqrt(width). The contribution of the input to the
// gates is one product for all trips; that of the state is one product per trip.
struct LSTM : Module {
  struct Result {
    Tensor output, hidden, cell;
  };
  LSTM(Module& parent, const std::string& name, std::int64_t in, std::int64_t width, RecurrentShape shape = {});
  Result operator()(Term x) const;
  Result operator()(Term x, Term hidden, Term cell) const;
  std::vector<Parameter> weights;  // for each layer: weight_ih, weight_hh, and with biases bias_ih, bias_hh
  std::int64_t width;
  RecurrentShape shape;

 private:
  Result run(const Term& x, const Term* hidden, const Term* cell) const;
};

// Gated recurrent units in PyTorch's form.
struct GRU : Module {
  struct Result {
    Tensor output, hidden;
  };
  GRU(Module& parent, const std::string& name, std::int64_t in, std::int64_t width, RecurrentShape shape = {});
  Result operator()(Term x) const;
  Result operator()(Term x, Term hidden) const;
  std::vector<Parameter> weights;
  std::int64_t width;
  RecurrentShape shape;

 private:
  Result run(const Term& x, const Term* hidden) const;
};

}  // namespace karez::nn

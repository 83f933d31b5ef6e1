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
  // If true, x and output are [n, t, ...] instead of [t, n, ...]. In this form a batch that is split over devices or
  // into micro-batches stays split.
  bool batch_first = false;
};

// Long short-term memory. Maps x [t, n, in] to output [t, n, width], the states of the last layer, and to hidden and
// cell [layers, n, width], the final states of each layer. Initial states default to zero. Weights have the names and
// shapes of PyTorch ("weight_ih_l0" [gates * width, in], ...). As in PyTorch, their initial values are uniform in
// [-b, b) with b = 1 / sqrt(width). The input's contribution to the gates is one product for all time steps; the
// state's contribution is one product per step.
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

// Gated recurrent units in PyTorch's form; shapes and weights are as in LSTM, without a cell state.
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

// Recurrent layers: LSTM and GRU, each a scan over the trips of its input.
#pragma once

#include <string>
#include <vector>

#include "karez/api/nn.h"

namespace karez::nn {

// Sizes of a recurrent layer.
struct RecurrentShape {
  int layers = 1;
  bool bias = true;
  // x and output are [n, t, ...] instead of [t, n, ...]. Where the batch is split over devices, or into micro-batches,
  // this is the form that keeps it so.
  bool batch_first = false;
};

// x [t, n, in] -> output [t, n, width], the last layer's states; hidden (and of an LSTM cell) [layers, n, width], each
// layer's last. States begin with zeros, or as given. Weights are named and shaped as PyTorch's ("weight_ih_l0" [gates
// * width, in], ...) and begin as those do: uniform within 1 / sqrt(width). What an input gives to the gates is one
// product for all trips; what the state gives is one a trip.
struct LSTM : Module {
  struct Result {
    Tensor output, hidden, cell;
  };
  LSTM(Module& parent, const std::string& name, std::int64_t in, std::int64_t width, RecurrentShape shape = {});
  Result operator()(Term x) const;
  Result operator()(Term x, Term hidden, Term cell) const;
  std::vector<Parameter> weights;  // of each layer: weight_ih, weight_hh, and with biases bias_ih, bias_hh
  std::int64_t width;
  RecurrentShape shape;

 private:
  Result run(const Term& x, const Term* hidden, const Term* cell) const;
};

// Gated recurrent units, in the form that PyTorch has.
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

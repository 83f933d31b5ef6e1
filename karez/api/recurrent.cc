// Implements LSTM and GRU: each layer is a scan over the time steps that computes the gates.
#include "karez/api/recurrent.h"
#include "karez/api/namespace.h"

#include <cmath>

#include "karez/api/scan.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/compose.h"

namespace karez::nn {
namespace {

std::vector<Parameter> make_weights(Module& module, std::string_view kind, std::int64_t in, std::int64_t width,
                                    std::int64_t gates, const RecurrentShape& s) {
  require(in >= 1 && width >= 1 && s.layers >= 1, kind, " '", module.path(),
          "': in, width and layers must be at least 1, got ", in, ", ", width, " and ", s.layers);
  const auto init = uniform_init(1 / std::sqrt(static_cast<double>(width)));
  std::vector<Parameter> out;
  for (int layer = 0; layer < s.layers; ++layer) {
    out.push_back(module.make_parameter(cat("weight_ih_l", layer), {gates * width, layer == 0 ? in : width}, init));
    out.push_back(module.make_parameter(cat("weight_hh_l", layer), {gates * width, width}, init));
    if (!s.bias) continue;
    out.push_back(module.make_parameter(cat("bias_ih_l", layer), {gates * width}, init));
    out.push_back(module.make_parameter(cat("bias_hh_l", layer), {gates * width}, init));
  }
  return out;
}

Tensor linear(const Tensor& x, const Parameter& weight, const Parameter* bias) {
  Trace& t = Trace::current();
  const ValueId id = t.value(Term(x)), w = t.read(weight);
  return t.tensor(bias == nullptr ? build::linear(t.builder, id, w) : build::linear(t.builder, id, w, t.read(*bias)));
}

// The weights of one layer.
struct Layer {
  const Parameter* weights;
  bool has_bias;
  // Returns the contribution of the input to the gates, for all trips.
  Tensor input_gates(const Tensor& x) const { return linear(x, weights[0], has_bias ? weights + 2 : nullptr); }
  // Returns the contribution of the state to the gates, for one trip.
  Tensor state_gates(const Tensor& h) const { return linear(h, weights[1], has_bias ? weights + 3 : nullptr); }
};

Tensor gate(const Tensor& gates, std::int64_t number, std::int64_t width) {
  return slice(gates, {0, number * width}, {gates.size(0), width});
}

using Trip = Scanned (*)(const Layer&, const std::vector<Tensor>& state, const Tensor& from_input, std::int64_t width);

Scanned lstm_trip(const Layer& layer, const std::vector<Tensor>& state, const Tensor& from_input, std::int64_t width) {
  const Tensor gates = from_input + layer.state_gates(state[0]);
  const Tensor input = sigmoid(gate(gates, 0, width)), forget = sigmoid(gate(gates, 1, width));
  const Tensor candidate = tanh(gate(gates, 2, width)), output = sigmoid(gate(gates, 3, width));
  const Tensor cell = forget * state[1] + input * candidate;
  const Tensor hidden = output * tanh(cell);
  return {{hidden, cell}, {hidden}};
}

Scanned gru_trip(const Layer& layer, const std::vector<Tensor>& state, const Tensor& from_input, std::int64_t width) {
  const Tensor from_state = layer.state_gates(state[0]);
  const Tensor reset = sigmoid(gate(from_input, 0, width) + gate(from_state, 0, width));
  const Tensor update = sigmoid(gate(from_input, 1, width) + gate(from_state, 1, width));
  const Tensor candidate = tanh(gate(from_input, 2, width) + reset * gate(from_state, 2, width));
  const Tensor hidden = (1 - update) * candidate + update * state[0];
  return {{hidden}, {hidden}};
}

struct LayerResults {
  Tensor output;
  std::vector<Tensor> states;  // each [layers, n, width]
};

LayerResults run_layers(std::string_view kind, const Module& module, const Term& x,
                        const std::vector<const Term*>& initial_states, const std::vector<Parameter>& weights,
                        std::int64_t width, const RecurrentShape& shape, std::size_t num_states, Trip trip) {
  return at_line(x.where, module.path(), [&](Trace& t) {
    Tensor sequence = t.tensor(t.value(x));
    require(ErrorKind::shape, sequence.rank() == 3, kind, " '", module.path(), "': the input must have shape [",
            shape.batch_first ? "n, t" : "t, n", ", in], got ", sequence.type);
    const auto reordered = [&](const Tensor& value) { return shape.batch_first ? transpose(value, {1, 0, 2}) : value; };
    const std::int64_t in = weights[0].shape()[1], n = sequence.size(shape.batch_first ? 0 : 1);
    require(ErrorKind::shape, sequence.size(2) == in, kind, " '", module.path(), "': expects ", in,
            " input features, got ", sequence.size(2));
    const Shape state_shape = {shape.layers, n, width};
    std::vector<Tensor> initial;
    for (const Term* term : initial_states) {
      initial.push_back(t.tensor(t.value(*term)));
      require(ErrorKind::shape, initial.back().shape() == state_shape, kind, " '", module.path(),
              "': an initial state must have shape ", state_shape, ", got ", initial.back().type);
    }
    std::vector<std::vector<Term>> final_states(num_states);
    for (int l = 0; l < shape.layers; ++l) {
      const Layer layer{&weights[static_cast<std::size_t>(l) * (shape.bias ? 4 : 2)], shape.bias};
      std::vector<Term> carry;
      for (std::size_t s = 0; s < num_states; ++s)
        carry.push_back(initial.empty() ? full({n, width}, 0, sequence.dtype(), x.where)
                                        : reshape(slice(initial[s], {l, 0, 0}, {1, n, width}), {n, width}));
      const auto body = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& rows) {
        return trip(layer, state, rows[0], width);
      };
      const Scanned out = scan(body, carry, {reordered(layer.input_gates(sequence))}, {}, x.where);
      sequence = reordered(out.ys[0]);
      for (std::size_t s = 0; s < num_states; ++s) final_states[s].push_back(reshape(out.carry[s], {1, n, width}));
    }
    LayerResults results;
    for (const auto& states : final_states)
      results.states.push_back(shape.layers == 1 ? std::get<Tensor>(states[0].value) : concat(states));
    results.output = sequence;
    return results;
  });
}

}  // namespace

LSTM::LSTM(Module& parent, const std::string& name, std::int64_t in, std::int64_t w, RecurrentShape s)
    : Module(parent, name),
      width(w),
      shape(s) {
  weights = make_weights(*this, "LSTM", in, w, 4, s);
}
LSTM::Result LSTM::operator()(Term x) const { return run(x, nullptr, nullptr); }
LSTM::Result LSTM::operator()(Term x, Term hidden, Term cell) const { return run(x, &hidden, &cell); }
LSTM::Result LSTM::run(const Term& x, const Term* hidden, const Term* cell) const {
  std::vector<const Term*> initial_states;
  if (hidden != nullptr) initial_states = {hidden, cell};
  LayerResults results = run_layers("LSTM", *this, x, initial_states, weights, width, shape, 2, lstm_trip);
  return {results.output, results.states[0], results.states[1]};
}

GRU::GRU(Module& parent, const std::string& name, std::int64_t in, std::int64_t w, RecurrentShape s)
    : Module(parent, name),
      width(w),
      shape(s) {
  weights = make_weights(*this, "GRU", in, w, 3, s);
}
GRU::Result GRU::operator()(Term x) const { return run(x, nullptr); }
GRU::Result GRU::operator()(Term x, Term hidden) const { return run(x, &hidden); }
GRU::Result GRU::run(const Term& x, const Term* hidden) const {
  std::vector<const Term*> initial_states;
  if (hidden != nullptr) initial_states = {hidden};
  LayerResults results = run_layers("GRU", *this, x, initial_states, weights, width, shape, 1, gru_trip);
  return {results.output, results.states[0]};
}

}  // namespace karez::nn

// Runs training steps under a limit on the memory of a device. Reports the memory and the predicted time of each plan,
// and how far it splits the parameters and the optimiser's state.
#pragma once

#include <algorithm>
#include <cmath>
#include <ctime>
#include <optional>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "bench/models.h"
#include "bench/namespace.h"

namespace karez::bench {

struct CapCase {
  const char* name;
  const char* mesh;
  CostTable costs = {};
  bool by_batch = false;  // a rule splits the batch along "data", as in data parallelism
  int steps = 3;
  std::int64_t batch = 64;  // of the MLP
  std::vector<LayoutRule> rules = {};
};

// Layout rules for CapMlp: parameters and the optimiser's state are each split along "data" or not split.
inline std::vector<LayoutRule> zero_rules(bool split_parameters, bool split_state) {
  const auto parameters = split_parameters ? P("data") : P(nullptr), state = split_state ? P("data") : P(nullptr);
  return {{"fc*.weight", parameters}, {"fc*.bias", parameters}, {"adam.*.*.weight", state}, {"adam.*.*.bias", state}};
}

struct CapResult {
  std::int64_t cap = 0, planned = 0, measured = 0;  // bytes of the device that needs the most memory; cap 0: no limit
  double predicted = 0,
         predicted_uncapped = 0;     // us of calls and transfers, with and without the limit; 0: not in the summary
  double seconds = 0;                // predicted us of a launch
  double compile_seconds = 0;        // CPU seconds
  double parameters = 0, state = 0;  // bytes on the first device, divided by the bytes of the unsplit tensors
  bool reduce_scatters = false;      // gradients are reduce-scattered
  bool late_gather = false;          // parameters are gathered late
  std::string recomputed;
  std::vector<double> losses;
  std::string summary, error;
};

// Returns the number in the first group of the first match, or 0 if nothing matches.
inline double number_in(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? std::stod(match[1]) : 0;
}

// Trains with Adam on cross-entropy in f64. If the limit is too small, `error` is set and there are no losses.
template <class Model, class... Arguments>
CapResult train_under_cap(const CapCase& c, std::int64_t cap, const TensorType& input, std::int64_t labels,
                          std::int64_t classes, Arguments... arguments) {
  CapResult out;
  out.cap = cap;
  World world({.devices = Mesh::parse(c.mesh).size(), .seed = 3, .costs = c.costs, .memory = cap});
  Model net(arguments...);
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  auto step = compile(world.mesh(c.mesh),
                      [&](Tensor x, Tensor y) {
                        if (c.by_batch) x = with_layout(x, P("data"));
                        Tensor loss = cross_entropy(net(x), y);
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.rules = c.rules});
  const std::clock_t begin = std::clock();
  try {
    step.compile({input, {DType::i32, {labels}}});
  } catch (const Error& error) {
    out.error = error.what();
    return out;
  }
  out.compile_seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (int s = 0; s < c.steps; ++s) {
    HostArray x(input), y(TensorType{DType::i32, {labels}});
    if (input.dtype == DType::i32)
      for (std::int32_t& token : x.data<std::int32_t>())
        token = static_cast<std::int32_t>(random() % static_cast<unsigned>(classes));
    else
      for (double& value : x.data<double>()) value = normal(random);
    for (std::int32_t& label : y.data<std::int32_t>())
      label = static_cast<std::int32_t>(random() % static_cast<unsigned>(classes));
    out.losses.push_back(step(x, y).item());
  }
  out.planned = step.peak_bytes();
  for (const auto& [device, bytes] : world.counters().peak_bytes) out.measured = std::max(out.measured, bytes);
  double total_bytes[2] = {0, 0}, first_device_bytes[2] = {0, 0};
  for (const auto& variable : step.graph().variables)
    total_bytes[variable.name.starts_with("adam.")] +=
        static_cast<double>(count_of(variable.type.shape) * size_of(variable.type.dtype));
  for (const auto& block : step.plan().blocks)
    if (block.kind == plan::BlockKind::variable && block.device.index == 0)
      first_device_bytes[block.name.starts_with("adam.")] += static_cast<double>(block.bytes);
  out.parameters = first_device_bytes[0] / total_bytes[0], out.state = first_device_bytes[1] / total_bytes[1];
  out.summary = step.summary();
  out.predicted = number_in(out.summary, "calls and transfers of ([0-9.]+) us");
  out.predicted_uncapped = number_in(out.summary, "calls and transfers of .* without that limit ([0-9.]+) us");
  out.seconds = out.predicted > 0 ? out.predicted : 1e6 * step.layout_seconds();
  for (const auto& transfer : step.plan().transfers)
    out.reduce_scatters = out.reduce_scatters || transfer.kind == plan::CollectiveKind::reduce_scatter;
  out.late_gather = out.summary.find("gathered right before") != std::string::npos;
  std::smatch match;
  if (std::regex_search(out.summary, match, std::regex("  recomputed: (.*)\n"))) out.recomputed = match[1];
  return out;
}

inline double max_relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(a[i]));
  return largest;
}

// An MLP whose state is about as large as its activations.
struct CapMlp : nn::Module {
  CapMlp() : Module(DType::f64) {}
  nn::Linear fc1{*this, "fc1", 64, 128}, fc2{*this, "fc2", 128, 128}, fc3{*this, "fc3", 128, 64},
      fc4{*this, "fc4", 64, 10};
  Tensor operator()(Tensor x) { return fc4(tanh(fc3(tanh(fc2(tanh(fc1(x))))))); }
};
inline CapResult mlp_under_cap(const CapCase& c, std::int64_t cap) {
  return train_under_cap<CapMlp>(c, cap, {DType::f64, {c.batch, 64}}, c.batch, 10);
}
// Trains a transformer of two layers.
inline CapResult gpt_under_cap(const CapCase& c, std::int64_t cap) {
  constexpr GptShape small = {.layers = 2, .width = 32, .heads = 4, .length = 16, .vocabulary = 32};
  return train_under_cap<Gpt>(c, cap, {DType::i32, {8, 16}}, 8 * 16, 32, small, DType::f64);
}

}  // namespace karez::bench

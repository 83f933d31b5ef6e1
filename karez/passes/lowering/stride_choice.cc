// Tries different strides for a call's operands and compares kernel and copy times.
#include "karez/passes/lowering/stride_choice.h"

#include <algorithm>

namespace karez::passes {
namespace {

// Returns calls with candidate strides of the inputs, those with the fewest changes first.
std::vector<CallSpec> stride_candidates(const KernelCatalog& catalog, const CallSpec& call) {
  std::vector<CallSpec> out;
  if (auto suggested = catalog.suggest(call)) {
    suggested->out = call.out;
    out.push_back(std::move(*suggested));
  }
  CallSpec like_result = call, row_major_if_dense = call, all_row_major = call;
  for (View& view : like_result.in)
    if (!has_zero_stride(view) && view.shape == call.out[0].shape) view.strides = call.out[0].strides;
  for (View& view : row_major_if_dense.in)
    if (!has_zero_stride(view)) view = View(view.type());
  for (View& view : all_row_major.in) view = View(view.type());
  out.push_back(std::move(like_result));
  out.push_back(std::move(row_major_if_dense));
  out.push_back(std::move(all_row_major));
  return out;
}

}  // namespace

bool has_zero_stride(const View& view) {
  for (std::size_t d = 0; d < view.shape.size(); ++d)
    if (view.strides[d] == 0 && view.shape[d] > 1) return true;
  return false;
}

double kernel_seconds(const CostTable& costs, const Cost& work, const KernelChoice& choice) {
  return costs.seconds(work) / choice.rate;
}

Cost copy_work(const View& view) {
  return {WorkClass::move, 0, 2.0 * static_cast<double>(view.count() * size_of(view.dtype))};
}

CallSpec copy_call(const View& from, const View& to) {
  CallSpec call;
  call.op = "copy";
  call.in = {from};
  call.out = {to};
  return call;
}

std::optional<StrideChoice> choose_strides(const KernelCatalog& catalog, const CostTable& costs, const CallSpec& call,
                                           const Cost& work) {
  std::optional<StrideChoice> cheapest;
  if (auto choice = catalog.find(call)) {
    cheapest =
        StrideChoice{call, std::vector<bool>(call.in.size(), false), *choice, kernel_seconds(costs, work, *choice)};
    if (choice->rate >= 1 || call.out.empty() || call.op == "copy") return cheapest;
  } else if (call.out.empty()) {
    return cheapest;
  }
  for (CallSpec& candidate : stride_candidates(catalog, call)) {
    StrideChoice trial{std::move(candidate), {}, {}, 0};
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      trial.copied.push_back(!same_order(call.in[i].shape, call.in[i].strides, trial.call.in[i].strides));
      if (!trial.copied[i]) {
        trial.call.in[i] = call.in[i];
        continue;
      }
      auto copy = catalog.find(copy_call(call.in[i], trial.call.in[i]));
      if (!copy) return cheapest;
      trial.seconds += kernel_seconds(costs, copy_work(call.in[i]), *copy);
    }
    auto choice = catalog.find(trial.call);
    if (!choice) continue;
    trial.choice = *choice;
    trial.seconds += kernel_seconds(costs, work, *choice);
    if (!cheapest || trial.seconds < cheapest->seconds) cheapest = std::move(trial);
  }
  return cheapest;
}

}  // namespace karez::passes

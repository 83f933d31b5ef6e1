// Tries other strides for a call's operands and compares kernel and copy times.
#include "karez/passes/lowering/stride_choice.h"

#include <algorithm>

namespace karez::passes {
namespace {

// Candidate strides of the inputs, fewest changes first.
std::vector<CallSpec> stride_candidates(const KernelCatalog& catalog, const CallSpec& call) {
  std::vector<CallSpec> out;
  if (auto suggested = catalog.suggest(call)) {
    suggested->out = call.out;
    out.push_back(std::move(*suggested));
  }
  CallSpec like_result = call, plain = call, whole = call;
  for (View& view : like_result.in)
    if (!has_zero_stride(view) && view.shape == call.out[0].shape) view.strides = call.out[0].strides;
  for (View& view : plain.in)
    if (!has_zero_stride(view)) view = View(view.type());
  for (View& view : whole.in) view = View(view.type());
  out.push_back(std::move(like_result));
  out.push_back(std::move(plain));
  out.push_back(std::move(whole));
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
  std::optional<StrideChoice> best;
  if (auto choice = catalog.find(call)) {
    best = StrideChoice{call, std::vector<bool>(call.in.size(), false), *choice, kernel_seconds(costs, work, *choice)};
    if (choice->rate >= 1 || call.out.empty() || call.op == "copy") return best;
  } else if (call.out.empty()) {
    return best;
  }
  for (CallSpec& candidate : stride_candidates(catalog, call)) {
    StrideChoice made{std::move(candidate), {}, {}, 0};
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      made.copied.push_back(!same_order(call.in[i].shape, call.in[i].strides, made.call.in[i].strides));
      if (!made.copied[i]) {
        made.call.in[i] = call.in[i];
        continue;
      }
      auto copy = catalog.find(copy_call(call.in[i], made.call.in[i]));
      if (!copy) return best;
      made.seconds += kernel_seconds(costs, copy_work(call.in[i]), *copy);
    }
    auto choice = catalog.find(made.call);
    if (!choice) continue;
    made.choice = *choice;
    made.seconds += kernel_seconds(costs, work, *choice);
    if (!best || made.seconds < best->seconds) best = std::move(made);
  }
  return best;
}

}  // namespace karez::passes

// Finds the generated kernel of a pointwise call and prepares it.
#include "karez/kernels/cpu/generated_call.h"

#include <array>
#include <string>

#include "karez/kernels/cpu/team.h"

namespace karez::kernels {

const GeneratedPointwise* find_generated(const CallSpec& call, const BroadcastPattern& pattern) {
  std::string types;
  for (const Operand2d& operand : pattern.inputs) {
    if (operand.broadcast != Broadcast::dense && operand.broadcast != Broadcast::scalar) return nullptr;
    if (is_half(operand.dtype)) return nullptr;
    types += operand.dtype == DType::b8 ? 'b' : 'f';
  }
  if (is_half(pattern.out)) return nullptr;
  types += pattern.out == DType::b8 ? ">b" : ">f";
  const auto& text = call.attrs.text("expr");
  for (const GeneratedPointwise& row : generated_pointwise())
    if (text == row.expr && types == row.types) return &row;
  return nullptr;
}

namespace {
constexpr std::int64_t grain = 32768;  // fewer elements are not worth a second thread
}  // namespace

namespace {

// For each operand: whether it is a single element.
std::array<std::uint8_t, max_pointwise_inputs> scalars_of(const BroadcastPattern& pattern) {
  std::array<std::uint8_t, max_pointwise_inputs> scalar{};
  for (std::size_t i = 0; i < pattern.inputs.size(); ++i) scalar[i] = pattern.inputs[i].broadcast == Broadcast::scalar;
  return scalar;
}

}  // namespace

PreparedKernel prepare_generated(const GeneratedPointwise& row, const BroadcastPattern& pattern, int team) {
  return [run = row.run, scalar = scalars_of(pattern), team, count = pattern.rows * pattern.columns,
          inputs = pattern.inputs.size()](const KernelArgs& args) {
    std::array<const void*, max_pointwise_inputs> in{};
    for (std::size_t i = 0; i < inputs; ++i) in[i] = args.in[i];
    parallel_for(team, count, grain, [&](std::int64_t begin, std::int64_t end, int) {
      run(begin, end, in.data(), scalar.data(), args.out[0]);
    });
  };
}

PreparedKernel prepare_generated_group(const GeneratedPointwise& row, const BroadcastPattern& pattern, int team,
                                       std::int64_t calls) {
  return [run = row.run, scalar = scalars_of(pattern), pattern, team, calls](const KernelArgs& args) {
    const std::size_t operands = pattern.inputs.size();
    const std::int64_t elements = pattern.rows * pattern.columns;
    parallel_for(team, calls, 1, [&](std::int64_t begin, std::int64_t end, int) {
      std::array<const void*, max_pointwise_inputs> in;
      const bool are_adjacent = adjacent_calls(pattern, args, begin, end) > 1;
      for (std::int64_t call = begin; call < end;) {
        const std::int64_t count = are_adjacent ? adjacent_calls(pattern, args, call, end) : 1;
        for (std::size_t i = 0; i < operands; ++i) in[i] = args.in[static_cast<std::size_t>(call) * operands + i];
        run(0, count * elements, in.data(), scalar.data(), args.out[static_cast<std::size_t>(call)]);
        call += count;
      }
    });
  };
}

}  // namespace karez::kernels

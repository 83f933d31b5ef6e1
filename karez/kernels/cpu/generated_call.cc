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

PreparedKernel prepare_generated(const GeneratedPointwise& row, const BroadcastPattern& pattern, int team) {
  std::array<std::uint8_t, max_pointwise_inputs> scalar{};
  for (std::size_t i = 0; i < pattern.inputs.size(); ++i) scalar[i] = pattern.inputs[i].broadcast == Broadcast::scalar;
  return [run = row.run, scalar, team, count = pattern.rows * pattern.columns,
          inputs = pattern.inputs.size()](const KernelArgs& args) {
    std::array<const void*, max_pointwise_inputs> in{};
    for (std::size_t i = 0; i < inputs; ++i) in[i] = args.in[i];
    parallel_for(team, count, grain, [&](std::int64_t begin, std::int64_t end, int) {
      run(begin, end, in.data(), scalar.data(), args.out[0]);
    });
  };
}

}  // namespace karez::kernels

// Finds the generated kernel of a pointwise call and prepares it.
#include "karez/kernels/cpu/generated_call.h"

#include <algorithm>
#include <array>
#include <cstring>
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

namespace {

// A kernel takes about as long for an incomplete vector as for a hundred elements, so small calls of such sizes are
// computed together, from copies of their operands.
constexpr std::int64_t vector_elements = 16, max_copied = 64, block = 512;
constexpr std::size_t max_copied_operands = 3;

struct CopiedCalls {
  const GeneratedPointwise& row;
  const BroadcastPattern& pattern;
  const std::array<std::uint8_t, max_pointwise_inputs>& scalar;
  const KernelArgs& args;
  // Not initialised, because that would take as long as ten calls.
  alignas(64) std::array<std::array<std::byte, block * sizeof(float)>, max_copied_operands + 1> blocks;

  CopiedCalls(const GeneratedPointwise& generated, const BroadcastPattern& call_pattern,
              const std::array<std::uint8_t, max_pointwise_inputs>& is_scalar, const KernelArgs& arguments)
      : row(generated),
        pattern(call_pattern),
        scalar(is_scalar),
        args(arguments) {}

  // Runs calls from `call` on, at most to `end` - 1, which must share their scalars. Returns their number.
  std::int64_t run(std::int64_t call, std::int64_t end) {
    const std::size_t operands = pattern.inputs.size();
    std::byte* const* const in = args.in.data() + static_cast<std::size_t>(call) * operands;
    const std::int64_t count = std::min(end - call, block / pattern.columns);
    std::array<const void*, max_copied_operands> from;
    for (std::size_t i = 0; i < operands; ++i) {
      from[i] = in[i];
      if (scalar[i] != 0) {
        for (std::int64_t k = 1; k < count; ++k)
          if (in[static_cast<std::size_t>(k) * operands + i] != in[i]) return run(call, call + k);
      }
    }
    for (std::size_t i = 0; i < operands; ++i) {
      if (scalar[i] != 0) continue;
      from[i] = blocks[i].data();
      const auto bytes = static_cast<std::size_t>(pattern.columns * size_of(pattern.inputs[i].dtype));
      for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k)
        std::memcpy(blocks[i].data() + k * bytes, in[k * operands + i], bytes);
    }
    std::byte* const results = blocks[operands].data();
    row.run(0, count * pattern.columns, from.data(), scalar.data(), results);
    const auto bytes = static_cast<std::size_t>(pattern.columns * size_of(pattern.out));
    for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k)
      std::memcpy(args.out[static_cast<std::size_t>(call) + k], results + k * bytes, bytes);
    return count;
  }
};

}  // namespace

PreparedKernel prepare_generated_group(const GeneratedPointwise& row, const BroadcastPattern& pattern, int team,
                                       std::int64_t calls) {
  return [row = &row, scalar = scalars_of(pattern), pattern, team, calls](const KernelArgs& args) {
    const std::size_t operands = pattern.inputs.size();
    const std::int64_t elements = pattern.rows * pattern.columns;
    const bool may_copy = pattern.rows == 1 && elements <= max_copied && elements % vector_elements != 0 &&
                          operands <= max_copied_operands;
    parallel_for(team, calls, 1, [&](std::int64_t begin, std::int64_t end, int) {
      const bool are_adjacent = adjacent_calls(pattern, args, begin, end) > 1;
      if (may_copy && !are_adjacent) {
        CopiedCalls copied(*row, pattern, scalar, args);
        for (std::int64_t call = begin; call < end;) call += copied.run(call, end);
        return;
      }
      std::array<const void*, max_pointwise_inputs> in;
      for (std::int64_t call = begin; call < end;) {
        const std::int64_t count = are_adjacent ? adjacent_calls(pattern, args, call, end) : 1;
        for (std::size_t i = 0; i < operands; ++i) in[i] = args.in[static_cast<std::size_t>(call) * operands + i];
        row->run(0, count * elements, in.data(), scalar.data(), args.out[static_cast<std::size_t>(call)]);
        call += count;
      }
    });
  };
}

}  // namespace karez::kernels

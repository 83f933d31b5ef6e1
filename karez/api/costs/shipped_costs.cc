// The cost tables that `karez doctor --kernels --costs FILE` wrote on these processors. If a processor was measured
// both on cores that share a cache and on cores that do not, its table contains the geometric means of the two
// measurements.
#include "karez/api/costs/shipped_costs.h"

#include "karez/base/text.h"

namespace karez {
namespace {

constexpr ShippedCosts tables[] = {
    {"AMD EPYC, family 26 model 2",
     R"(origin "measured on AMD EPYC, family 26 model 2, avx512, on 2026-11-23, with cores that share a cache and with cores that do not; links and teams are means of the two"
link alpha=2e-06 beta=1e-10
link @local alpha=6e-07 beta=1.1e-10
matmul_flops=3.49e+11
conv_flops=2.81e+11
memory_bytes=1.04e+11
call=1.06e-07
rate avx512 team 1 matmul.vector=3.01e+10
rate avx512 team 1 matmul.thin=1.12e+11
rate avx512 team 1 matmul.small=1.27e+11
rate avx512 team 1 matmul.square=2.05e+11
rate avx512 team 1 conv.few=3.51e+10
rate avx512 team 1 conv.some=6.8e+10
rate avx512 team 1 conv.many=1.55e+11
rate avx512 team 1 conv_input.few=5.54e+10
rate avx512 team 1 conv_input.some=1.06e+11
rate avx512 team 1 conv_input.many=2.08e+11
rate avx512 team 1 conv_weight.few=4.48e+10
rate avx512 team 1 conv_weight.some=8.49e+10
rate avx512 team 1 conv_weight.many=1.76e+11
rate avx512 team 1 pointwise.l1=1.04e+11
rate avx512 team 1 pointwise.l2=1.14e+11
rate avx512 team 1 pointwise.l3=8.32e+10
rate avx512 team 1 pointwise.memory=3.6e+10
rate avx512 team 1 reduce.l1=7.9e+10
rate avx512 team 1 reduce.l2=7.95e+10
rate avx512 team 1 reduce.l3=5.83e+10
rate avx512 team 1 reduce.memory=2.95e+10
rate avx512 team 1 pool.l1=6.42e+10
rate avx512 team 1 pool.l2=6.68e+10
rate avx512 team 1 pool.l3=5.61e+10
rate avx512 team 1 pool.memory=1.51e+10
rate avx512 team 1 index.l1=1.32e+11
rate avx512 team 1 index.l2=1.25e+11
rate avx512 team 1 index.l3=1.15e+11
rate avx512 team 1 index.memory=6.15e+10
rate avx512 team 1 move.l1=9.85e+10
rate avx512 team 1 move.l2=9.25e+10
rate avx512 team 1 move.l3=6.49e+10
rate avx512 team 1 move.memory=2.45e+10
rate avx512 team 1 update.l1=1.17e+11
rate avx512 team 1 update.l2=1.17e+11
rate avx512 team 1 update.l3=1.17e+11
rate avx512 team 1 update.memory=4.8e+10
rate avx512 team 1 functions=4.13e+09
rate avx512 team 2 matmul.vector=5.01e+10
rate avx512 team 2 matmul.thin=1.12e+11
rate avx512 team 2 matmul.small=1.27e+11
rate avx512 team 2 matmul.square=3.49e+11
rate avx512 team 2 conv.few=6.14e+10
rate avx512 team 2 conv.some=1.21e+11
rate avx512 team 2 conv.many=2.81e+11
rate avx512 team 2 conv_input.few=9.79e+10
rate avx512 team 2 conv_input.some=1.81e+11
rate avx512 team 2 conv_input.many=3.94e+11
rate avx512 team 2 conv_weight.few=7.21e+10
rate avx512 team 2 conv_weight.some=1.4e+11
rate avx512 team 2 conv_weight.many=2.91e+11
rate avx512 team 2 pointwise.l1=1.04e+11
rate avx512 team 2 pointwise.l2=1.14e+11
rate avx512 team 2 pointwise.l3=1.52e+11
rate avx512 team 2 pointwise.memory=8.58e+10
rate avx512 team 2 reduce.l1=7.9e+10
rate avx512 team 2 reduce.l2=9.51e+10
rate avx512 team 2 reduce.l3=1.03e+11
rate avx512 team 2 reduce.memory=5.45e+10
rate avx512 team 2 pool.l1=6.42e+10
rate avx512 team 2 pool.l2=6.68e+10
rate avx512 team 2 pool.l3=1.07e+11
rate avx512 team 2 pool.memory=2.86e+10
rate avx512 team 2 index.l1=1.32e+11
rate avx512 team 2 index.l2=1.25e+11
rate avx512 team 2 index.l3=1.92e+11
rate avx512 team 2 index.memory=1.75e+11
rate avx512 team 2 move.l1=9.85e+10
rate avx512 team 2 move.l2=9.25e+10
rate avx512 team 2 move.l3=9.78e+10
rate avx512 team 2 move.memory=4.85e+10
rate avx512 team 2 update.l1=1.17e+11
rate avx512 team 2 update.l2=1.17e+11
rate avx512 team 2 update.l3=1.76e+11
rate avx512 team 2 update.memory=8.69e+10
rate avx512 team 2 functions=8e+09
)"},
};

}  // namespace

std::span<const ShippedCosts> all_shipped_costs() { return tables; }

CostTable costs_for(const device::Processor& processor) {
  for (const ShippedCosts& shipped : tables)
    if (shipped.processor == processor.name) return CostTable::parse(shipped.text).with_isa(processor.isa);
  CostTable out;
  out.origin = cat(sbp::default_origin, "; `karez doctor --kernels --save` measures this one");
  if (!processor.name.empty()) out.origin += cat(" (", processor.name, ", ", processor.isa, ")");
  return out;
}

}  // namespace karez

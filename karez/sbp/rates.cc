// Names of the rates, and the rate that applies to given work.
#include "karez/sbp/rates.h"

#include <algorithm>
#include <iterator>

namespace karez::sbp {
namespace {

constexpr std::string_view names[] = {
    "matmul.vector",   "matmul.thin",      "matmul.small",     "matmul.square",  //
    "conv.few",        "conv.some",        "conv.many",                          //
    "conv_input.few",  "conv_input.some",  "conv_input.many",                    //
    "conv_weight.few", "conv_weight.some", "conv_weight.many",                   //
    "pointwise.l1",    "pointwise.l2",     "pointwise.l3",     "pointwise.memory", "reduce.l1",
    "reduce.l2",       "reduce.l3",        "reduce.memory",    "pool.l1",          "pool.l2",
    "pool.l3",         "pool.memory",      "index.l1",         "index.l2",         "index.l3",
    "index.memory",    "move.l1",          "move.l2",          "move.l3",          "move.memory",
    "update.l1",       "update.l2",        "update.l3",        "update.memory",    "functions",
};
static_assert(std::size(names) == rate_count && names[functions_rate] == "functions");

constexpr std::size_t first_of(std::string_view kind) {
  const auto* at = std::find_if(std::begin(names), std::end(names),
                                [&](std::string_view name) { return name.substr(0, name.find('.')) == kind; });
  return static_cast<std::size_t>(at - std::begin(names));
}

std::size_t product(const Work& work) {
  if (work.min_extent < 4) return 0;
  if (work.min_extent < 16) return 1;
  return work.flops <= 1 << 20 ? 2 : 3;
}
std::size_t channels(const Work& work) { return work.min_extent <= 4 ? 0 : work.min_extent <= 8 ? 1 : 2; }
std::size_t level(const Work& work) {
  return work.bytes <= 32 << 10 ? 0 : work.bytes <= 1 << 20 ? 1 : work.bytes <= 16 << 20 ? 2 : 3;
}

}  // namespace

std::string_view rate_name(std::size_t rate) { return names[rate]; }

std::size_t find_rate(std::string_view name) {
  return static_cast<std::size_t>(std::find(std::begin(names), std::end(names), name) - std::begin(names));
}

std::size_t rate_of(const Work& work) {
  constexpr std::size_t matmul = first_of("matmul"), conv = first_of("conv"), conv_input = first_of("conv_input"),
                        conv_weight = first_of("conv_weight"), pointwise = first_of("pointwise"),
                        reduce = first_of("reduce"), pool = first_of("pool"), index = first_of("index"),
                        move = first_of("move"), update = first_of("update");
  switch (work.work) {
    case WorkClass::none: return rate_count;
    case WorkClass::matmul: return matmul + product(work);
    case WorkClass::conv: return conv + channels(work);
    case WorkClass::conv_input: return conv_input + channels(work);
    case WorkClass::conv_weight: return conv_weight + channels(work);
    case WorkClass::memory: return pointwise + level(work);
    case WorkClass::reduce: return reduce + level(work);
    case WorkClass::pool: return pool + level(work);
    case WorkClass::index: return index + level(work);
    case WorkClass::move: return move + level(work);
    case WorkClass::update: return update + level(work);
  }
  return rate_count;
}

}  // namespace karez::sbp

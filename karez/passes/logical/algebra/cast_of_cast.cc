// Merges two successive casts into one if the first one keeps every number.
#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {
namespace {

// Returns whether every number of type `from` is a number of type `to`.
bool keeps_numbers(DType from, DType to) {
  switch (from) {
    case DType::b8: return to != DType::b8;
    case DType::u8: return to != DType::b8 && to != DType::u8;
    case DType::i32: return to == DType::i64 || to == DType::f64;
    case DType::f16:
    case DType::bf16: return to == DType::f32 || to == DType::f64;
    case DType::f32: return to == DType::f64;
    case DType::i64:
    case DType::f64: return false;
  }
  return false;
}

bool is_integer(DType dtype) { return dtype == DType::u8 || dtype == DType::i32 || dtype == DType::i64; }

}  // namespace

// Each cast is a function of the number, with one exception: from floats to integers it saturates, and between integers
// it keeps the lowest bits. i32 -> f64 -> u8 therefore differs from i32 -> u8 (for 256: 255 and 0).
std::optional<Replacement> cast_of_cast(const Graph& graph, const Node& node) {
  if (node.op->name != "cast") return std::nullopt;
  const Node* inner = producer_on_mesh(graph, node.inputs[0], "cast");
  if (inner == nullptr) return std::nullopt;
  const ValueId x = inner->inputs[0];
  const DType first = graph.type(x).dtype, second = graph.type(node.inputs[0]).dtype,
              third = graph.type(node.outputs[0]).dtype;
  if (!keeps_numbers(first, second)) return std::nullopt;
  if (first == third) return Replacement{.value = x};
  if (is_integer(first) && tensor::is_float(second) && is_integer(third)) return std::nullopt;
  return Replacement{.value = x, .as_operand = true};
}

}  // namespace karez::passes

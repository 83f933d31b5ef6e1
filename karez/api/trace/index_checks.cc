// Finds the index arguments of a program, and checks their elements before a launch.
#include "karez/api/trace/index_checks.h"

#include <charconv>

#include "karez/base/text.h"
#include "karez/graph/op.h"

namespace karez {

bool passes_elements(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 1) return false;
  const TensorType &source = graph.type(node.inputs[0]), &result = graph.type(node.outputs[0]);
  const bool only_moves =
      node.op->role == Role::transfer || (node.op->role == Role::window && source.count() == result.count());
  const bool only_repeats = node.op->name == "broadcast" && result.count() > 0;
  const bool only_widens = node.op->name == "cast" && source.dtype == DType::i32 && result.dtype == DType::i64;
  return only_moves || only_repeats || only_widens;
}

namespace {

// Returns the value from which `value` takes its elements. Nodes between the two pass elements, so each element of the
// returned value occurs in `value` at least once.
ValueId elements_of(const Graph& graph, ValueId value) {
  while (true) {
    const Node& node = graph.node(graph.value(value).producer);
    if (!passes_elements(graph, node)) return value;
    value = node.inputs[0];
  }
}

const Node& node_of(const Graph& graph, ValueId value) { return graph.node(graph.value(value).producer); }

std::optional<std::int64_t> constant_of(const Graph& graph, ValueId value) {
  const Node& node = node_of(graph, elements_of(graph, value));
  if (node.op->name != "constant" || !node.attrs.has("value")) return std::nullopt;
  const double number = node.attrs.real("value");
  const auto integer = static_cast<std::int64_t>(number);
  return static_cast<double>(integer) == number ? std::optional(integer) : std::nullopt;
}

// Returns the number of an argument, such as 3 for "arg3"; nullopt for any other node.
std::optional<int> argument_of(const Node& node, std::string_view prefix) {
  if (node.op->role != Role::source || !node.attrs.has("name")) return std::nullopt;
  const std::string& name = node.attrs.text("name");
  int number = 0;
  if (!name.starts_with(prefix) ||
      std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number).ptr != name.data() + name.size())
    return std::nullopt;
  return number;
}

}  // namespace

std::vector<IndexCheck> index_checks(const Graph& graph, std::string_view prefix) {
  std::vector<IndexCheck> checks;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.node(n);
    if (!node.op->indices) continue;
    const graph::IndexOperand indices = node.op->indices({&graph, n});
    IndexCheck check{n, 0, indices.limit, {}, node.attrs.text("of", "the index"), describe(graph, n)};
    ValueId value = elements_of(graph, node.inputs[static_cast<std::size_t>(indices.operand)]);
    if (const Node& select = node_of(graph, value); select.op->name == "select") {
      const Node& comparison = node_of(graph, elements_of(graph, select.inputs[0]));
      const auto replacement = constant_of(graph, select.inputs[2]);
      if (comparison.op->name != "ne" || !replacement || *replacement < 0 || *replacement >= check.limit) continue;
      value = elements_of(graph, select.inputs[1]);
      if (elements_of(graph, comparison.inputs[0]) != value) continue;
      check.ignored = constant_of(graph, comparison.inputs[1]);
      if (!check.ignored) continue;
    }
    const auto argument = argument_of(node_of(graph, value), prefix);
    if (!argument) continue;
    check.argument = *argument;
    checks.push_back(std::move(check));
  }
  return checks;
}

void IndexCheck::validate(const std::vector<Argument>& arguments, bool is_single_rank) const {
  const Argument& indices = arguments[static_cast<std::size_t>(argument)];
  if (!indices.array.valid() || indices.batch_rows != nullptr || (indices.part && !is_single_rank)) return;
  const TensorType& type = indices.array.type();
  const auto check = [&](const auto elements) {
    const std::int64_t count = type.count();
    auto is_invalid = [&](std::int64_t i) {
      const std::int64_t index = elements[static_cast<std::size_t>(i)];
      return (index < 0 || index >= limit) && index != ignored;
    };
    bool any_invalid = false;  // found by a loop without branches, because usually all indices are valid
    for (std::int64_t i = 0; i < count; ++i) any_invalid |= is_invalid(i);
    for (std::int64_t i = 0; any_invalid; ++i) {
      if (!is_invalid(i)) continue;
      Ints position(type.shape.size(), 0);
      std::int64_t rest = i;
      for (std::size_t d = position.size(); d-- > 0; rest /= type.shape[d]) position[d] = rest % type.shape[d];
      fail(ErrorKind::data, where, ": ", name, " ", elements[static_cast<std::size_t>(i)], " at ", position,
           " is outside ", limit == 0 ? "an empty table" : cat("0 to ", limit - 1),
           ignored ? cat(" and not ", *ignored) : "", "; nothing was launched");
    }
  };
  if (type.dtype == DType::i32) check(indices.array.data<std::int32_t>());
  else if (type.dtype == DType::i64) check(indices.array.data<std::int64_t>());
}

}  // namespace karez

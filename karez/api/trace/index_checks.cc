// Finds index arguments of a function, and checks them before a launch.
#include "karez/api/trace/index_checks.h"

#include <charconv>

#include "karez/base/text.h"
#include "karez/graph/op.h"

namespace karez {
namespace {

// The value with the elements that this one contains, each at least once: skips nodes that only move or repeat
// elements.
ValueId elements_of(const Graph& graph, ValueId value) {
  while (true) {
    const Node& node = graph.node(graph.value(value).producer);
    if (node.inputs.size() != 1) return value;
    const TensorType &from = graph.type(node.inputs[0]), &to = graph.type(value);
    const bool moves = node.op->role == Role::transfer || (node.op->role == Role::window && from.count() == to.count());
    const bool repeats = node.op->name == "broadcast" && to.count() > 0;
    const bool widens = node.op->name == "cast" && from.dtype == DType::i32 && to.dtype == DType::i64;
    if (!moves && !repeats && !widens) return value;
    value = node.inputs[0];
  }
}

const Node& node_of(const Graph& graph, ValueId value) { return graph.node(graph.value(value).producer); }

std::optional<std::int64_t> constant_of(const Graph& graph, ValueId value) {
  const Node& node = node_of(graph, elements_of(graph, value));
  if (node.op->name != "constant" || !node.attrs.has("value")) return std::nullopt;
  const double number = node.attrs.real("value");
  const auto whole = static_cast<std::int64_t>(number);
  return static_cast<double>(whole) == number ? std::optional(whole) : std::nullopt;
}

// The number of an argument: 3 for "arg3".
std::optional<int> argument_of(const Node& node) {
  if (node.op->role != Role::source || !node.attrs.has("name")) return std::nullopt;
  const std::string& name = node.attrs.text("name");
  int number = 0;
  if (!name.starts_with("arg") ||
      std::from_chars(name.data() + 3, name.data() + name.size(), number).ptr != name.data() + name.size())
    return std::nullopt;
  return number;
}

}  // namespace

std::vector<IndexCheck> index_checks(const Graph& graph) {
  std::vector<IndexCheck> checks;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.node(n);
    if (!node.op->indices) continue;
    const graph::IndexOperand indices = node.op->indices({&graph, n});
    IndexCheck check{0, indices.limit, {}, node.attrs.text("of", "the index"), describe(graph, n)};
    ValueId value = elements_of(graph, node.inputs[static_cast<std::size_t>(indices.operand)]);
    if (const Node& select = node_of(graph, value); select.op->name == "select") {
      const Node& differs = node_of(graph, elements_of(graph, select.inputs[0]));
      const auto instead = constant_of(graph, select.inputs[2]);
      if (differs.op->name != "ne" || !instead || *instead < 0 || *instead >= check.limit) continue;
      value = elements_of(graph, select.inputs[1]);
      if (elements_of(graph, differs.inputs[0]) != value) continue;
      check.ignored = constant_of(graph, differs.inputs[1]);
      if (!check.ignored) continue;
    }
    const auto argument = argument_of(node_of(graph, value));
    if (!argument) continue;
    check.argument = *argument;
    checks.push_back(std::move(check));
  }
  return checks;
}

void IndexCheck::validate(const std::vector<Argument>& arguments, bool alone) const {
  const Argument& given = arguments[static_cast<std::size_t>(argument)];
  if (!given.array.valid() || (given.part && !alone)) return;
  const TensorType& type = given.array.type();
  const auto look = [&](const auto elements) {
    const std::int64_t count = type.count();
    auto wrong = [&](std::int64_t i) {
      const std::int64_t index = elements[static_cast<std::size_t>(i)];
      return (index < 0 || index >= limit) && index != ignored;
    };
    bool any = false;  // a loop without branches, since usually all indices are valid
    for (std::int64_t i = 0; i < count; ++i) any |= wrong(i);
    for (std::int64_t i = 0; any; ++i) {
      if (!wrong(i)) continue;
      Ints at(type.shape.size(), 0);
      std::int64_t rest = i;
      for (std::size_t d = at.size(); d-- > 0; rest /= type.shape[d]) at[d] = rest % type.shape[d];
      fail(ErrorKind::data, where, ": ", name, " ", elements[static_cast<std::size_t>(i)], " at ", at, " is outside ",
           limit == 0 ? "an empty table" : cat("0 to ", limit - 1), ignored ? cat(" and not ", *ignored) : "",
           "; nothing was launched");
    }
  };
  if (type.dtype == DType::i32) look(given.array.data<std::int32_t>());
  else if (type.dtype == DType::i64) look(given.array.data<std::int64_t>());
}

}  // namespace karez

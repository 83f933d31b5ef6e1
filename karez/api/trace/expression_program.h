// ExpressionProgram: several expressions joined into one program, and a key that describes its structure.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "karez/api/trace/expression.h"

namespace karez {

// A list of expressions in dependency order, with arguments and results.
struct ExpressionProgram {
  // Refers to a value of a part, or to an argument.
  struct ValueSource {
    int part = -1, argument = -1;
    ValueId id = {};
    bool operator==(const ValueSource&) const = default;
  };
  struct Part {
    std::shared_ptr<const Expression> expression;
    std::vector<ValueSource> operands;
  };
  std::vector<Part> parts;
  LazyValues arguments;
  std::vector<ValueSource> results;                                  // distinct
  std::vector<std::pair<std::shared_ptr<LazyValue>, int>> bindings;  // values, each with the index of its result
};

// Assembles a program on one mesh. Operands that must first be computed on another mesh are in `other_mesh_operands`.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(const Mesh& mesh) : mesh_(mesh) {}

  void add(const std::shared_ptr<const Expression>& expression);  // also adds the expressions of its operands
  void add_result(const std::shared_ptr<LazyValue>& value);

  ExpressionProgram program;
  LazyValues other_mesh_operands;

 private:
  void add_part(std::shared_ptr<const Expression> expression);
  ExpressionProgram::ValueSource source_of(const std::shared_ptr<LazyValue>& value);

  const Mesh& mesh_;
  std::map<const Expression*, int> parts_;
  std::map<const void*, int> arguments_;
};

// Writes the nodes of an expression into a trace, without updates of variables, and returns the new ids of its values.
// `read` returns the value of a parameter.
base::ById<ValueId, ValueId> write_nodes(Trace& t, const Expression& expression, std::span<const ValueId> operands,
                                         const std::function<ValueId(const Parameter&)>& read);

// Writes one node of a graph, whose inputs have new ids, and sets the new ids of its outputs.
void write_node(Trace& t, const graph::Graph& graph, const graph::Node& node, base::ById<ValueId, ValueId>& new_ids);

// Returns whether the node may fail in a launch (an index out of range). The key of a program then contains the user's
// line.
bool may_fail(const graph::Graph& graph, const graph::Node& node);

// Returns the part of a key that describes the nodes of a graph, without lines, layouts and operands.
std::string key_of(const graph::Graph& graph);

// Returns a key that contains everything on which the plan depends; with `lines`, also the user's source lines.
std::string key_of(const ExpressionProgram& program, const Mesh& mesh, bool lines);

}  // namespace karez

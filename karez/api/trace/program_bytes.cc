// Implements kept_bytes: follows constants through the expressions of a program.
#include "karez/api/trace/program_bytes.h"

#include <algorithm>
#include <map>
#include <vector>

#include "karez/api/namespace.h"

namespace karez {
namespace {

// Measured as the growth of the process on one device: a program of three functions takes 45 KB, and one of 670 nodes
// takes 2.0 MB (bench/growing_shapes).
constexpr std::int64_t bytes_per_program = 16 << 10, bytes_per_node = 3 << 10;

// Finds the values that depend only on constants and that other nodes or the caller read.
class ConstantValues {
 public:
  explicit ConstantValues(const ExpressionProgram& program) {
    for (const ExpressionProgram::Part& part : program.parts) add(part);
    for (const ExpressionProgram::ValueSource& result : program.results)
      if (result.part >= 0) read(parts_[static_cast<std::size_t>(result.part)][result.id]);
  }

  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const Value& value : values_)
      if (value.is_read) sum += value.bytes;
    return sum;
  }

 private:
  struct Value {
    std::int64_t bytes = 0;
    bool is_read = false;
  };
  static constexpr int none = -1;  // stands for a value that depends on operands or variables

  void read(int value) {
    if (value != none) values_[static_cast<std::size_t>(value)].is_read = true;
  }

  int add_value(std::int64_t bytes) {
    values_.push_back({bytes, false});
    return static_cast<int>(values_.size()) - 1;
  }

  void add(const ExpressionProgram::Part& part) {
    const Graph& graph = part.expression->graph();
    ById<ValueId, int> constants(graph.values.size(), none);
    std::size_t operand = 0;
    for (const Node& node : graph.nodes) {
      if (node.op->role == Role::source) {
        const ExpressionProgram::ValueSource& source = part.operands[operand++];
        if (source.part >= 0) constants[node.outputs[0]] = parts_[static_cast<std::size_t>(source.part)][source.id];
        continue;
      }
      const bool is_constant =
          node.op->role == Role::constant ||
          (node.op->pure && !node.inputs.empty() && node.regions.empty() &&
           std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) { return constants[in] != none; }));
      if (!is_constant) {
        for (ValueId in : node.inputs) read(constants[in]);
        continue;
      }
      for (ValueId out : node.outputs) {
        if (node.op->role == Role::window) constants[out] = constants[node.inputs[0]];  // a view
        else constants[out] = add_value(node.attrs.has("value") ? 0 : graph.type(out).bytes());
      }
    }
    parts_.push_back(std::move(constants));
  }

  std::vector<Value> values_;
  std::vector<ById<ValueId, int>> parts_;  // by part: for each value its index in `values_`, or `none`
};

// Returns the number of devices of the mesh on the rank that has most of them.
std::int64_t devices_of_rank(const Mesh& mesh) {
  std::map<int, std::int64_t> devices;
  for (const DeviceName device : mesh.devices) ++devices[device.rank];
  std::int64_t most = 1;
  for (const auto& [rank, count] : devices) most = std::max(most, count);
  return most;
}

}  // namespace

std::int64_t kept_bytes(const ExpressionProgram& program, const Mesh& mesh, std::string_view key) {
  std::int64_t nodes = 0;
  for (const ExpressionProgram::Part& part : program.parts)
    nodes += static_cast<std::int64_t>(part.expression->graph().nodes.size());
  const std::int64_t devices = devices_of_rank(mesh);
  return bytes_per_program + devices * (nodes * bytes_per_node + ConstantValues(program).bytes()) +
         static_cast<std::int64_t>(key.size());
}

}  // namespace karez

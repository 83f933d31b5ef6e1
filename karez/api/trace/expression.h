// Expressions and lazy values. Outside of a trace, each API function writes a separate graph, which is kept until one
// of its values is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/api/argument.h"
#include "karez/api/array.h"
#include "karez/api/device_mesh.h"
#include "karez/api/trace/trace.h"

namespace karez {

struct SharedGraph;

// A value outside of any trace. The value drops its expression once it is computed.
struct LazyValue {
  const TensorType type;
  const HostArray host = {};  // a host value, which the user passed; read its bytes by `complete_host`
  const std::shared_ptr<data::BatchRows> batch_rows = {};  // makes rows that `host` lacks; usually null
  std::weak_ptr<const void> handle = {};                   // expires when the user can no longer read the value

  std::shared_ptr<const Expression> producer() const;  // the expression that makes the value; null if the value exists
  ValueId id() const;                                  // in the graph of the producer
  void move_to(std::shared_ptr<const Expression> producer, ValueId id);  // of a value that does not exist yet
  Array array() const;  // invalid for a host value and for a value not computed yet
  void set_array(Array array);
  // Returns whether the user fixed the layout, in the expression or by passing an array; valid after the computation.
  bool has_user_layout() const;
  // The same for all tensors that refer to one array, unless gradients with respect to one of them may be requested.
  const void* identity() const;

  // The record of the computation, which exists longer than the producer if gradients may be requested.
  struct Record {
    std::shared_ptr<const Expression> expression;
    ValueId id;
  };
  Record record() const;
  void set_record(Record record);
  void release_record();
  bool is_released() const;  // whether there was a record
  // The leaf that has this value, of which the pointer is the identity; null if this is not the value of a leaf.
  std::shared_ptr<const void> leaf() const;
  void set_leaf(std::shared_ptr<const void> leaf);
  // Functions that see and replace the gradient of the value, in the order of their registration.
  using GradientHooks = std::vector<std::shared_ptr<TensorHook>>;
  GradientHooks gradient_hooks() const;
  void set_gradient_hooks(GradientHooks hooks);
  bool requires_gradient() const { return leaf() != nullptr || is_released() || record().expression != nullptr; }

  // The host value with all its rows; invalid if this is not a host value.
  const HostArray& complete_host() const;

  LazyValue(TensorType type, HostArray host, std::shared_ptr<data::BatchRows> batch_rows = {})
      : type(std::move(type)),
        host(std::move(host)),
        batch_rows(std::move(batch_rows)) {}
  LazyValue(TensorType type, Array array) : type(std::move(type)), array_(std::move(array)) {}
  LazyValue(TensorType type, ValueId id, std::shared_ptr<const Expression> producer)
      : type(std::move(type)),
        producer_(std::move(producer)),
        id_(id) {}
  ~LazyValue();

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Expression> producer_;
  ValueId id_ = {};
  Record record_ = {};
  bool is_released_ = false;
  std::shared_ptr<const void> leaf_;
  GradientHooks gradient_hooks_;
  bool has_user_layout_ = true;
  Array array_;
};
using LazyValues = std::vector<std::shared_ptr<LazyValue>>;

// The inputs of an expression's graph are named "operand0", "operand1" ...
inline constexpr std::string_view operand_name = "operand";

// The argument of a call that reads a host value without a copy.
Argument host_argument(const LazyValue& value);

// The graph that one API function (relu, a layer) writes. The input nodes of the graph are the operands, in order;
// these are values outside of the graph. An expression does not keep its world alive.
struct Expression : std::enable_shared_from_this<Expression> {
  Expression();

  Trace trace;  // its graph is empty if the expression shares one
  std::shared_ptr<const SharedGraph> shared;
  std::string shared_line;  // the user's line, which the nodes of a shared graph do not have
  const graph::Graph& graph() const;
  const std::string& line_of(const graph::Node& node) const { return shared != nullptr ? shared_line : node.where; }
  void share(std::shared_ptr<const SharedGraph> recorded);  // replaces the graph
  LazyValues operands;
  std::vector<std::weak_ptr<LazyValue>> values;  // the values of existing tensors
  std::weak_ptr<WorldState> world;
  bool has_world = false, has_mesh = false;  // whether world and mesh are known; operands determine them
  bool has_parameter_mesh = false;           // the mesh is the one that stores a parameter that the expression reads
  bool complete = false;                     // the API function has returned
  bool requires_gradient = false;            // an operand requires a gradient, or a parameter is read
  std::vector<std::pair<Parameter, std::uint64_t>> reads;  // parameters, with the number of writes before
  std::vector<std::pair<Parameter, Tensor>> saved_reads;   // values of states such as that of random numbers
  // A value of this expression, which computes gradients, that is also a value of a record which is kept.
  struct Copy {
    ValueId id;  // in this expression
    std::weak_ptr<const Expression> record;
    ValueId record_id;
  };
  std::vector<Copy> copies = {};
  std::shared_ptr<const ModuleHook> hook = {};  // if the values are the outputs of a part with a hook
  int depth = 1;  // length of the longest chain of uncomputed expressions that ends with this one
  // The numbers (see DeferredReads) of the first and the last uncomputed expression that reads variables, among this
  // expression and those that it needs; 0 if there is none.
  std::int64_t first_read = 0, last_read = 0;
  int generation = -1;              // of the world when this expression read variables; -1 if it reads none
  SourceLine where = {};            // the user's line, if the expression is deferred
  std::exception_ptr failure = {};  // why the expression could not run before a variable changed

  const Mesh& mesh() const { return trace.graph.meshes[0]; }
  ValueId operand(const std::shared_ptr<LazyValue>& value);
  // Adds an operand, without a node, if it is new, and returns its index; `add_inputs` adds the nodes that are missing,
  // and returns the last one's value.
  std::size_t bind(const std::shared_ptr<LazyValue>& value);
  ValueId add_inputs();
  // Adds a number as an operand, so that expressions with different numbers have the same structure.
  ValueId number(DType dtype, double value);
  void bind_number(DType dtype, double value);  // without a node
  void add_value(Tensor& tensor);               // `tensor` is a value of this expression
  // If the expression has no mesh yet, uses that of the innermost Interactive scope; throws outside of all scopes.
  void require_mesh(std::string_view what);
  void join_world(const std::shared_ptr<WorldState>& world_state);  // throws if the expression has another world
  void place_on(const std::shared_ptr<WorldState>& world_state, const Mesh& mesh);
  // If the world stores the parameter and no earlier parameter has set the mesh, uses the mesh that stores the
  // parameter. Operands are transferred to this mesh.
  void place_with(const Parameter& parameter);
  // From a value to an operand or parameter. An op without a gradient on the path is an error of backward.
  bool passes_gradient(ValueId value) const;
  LazyValues pending_values() const;  // uncomputed values that the user can still read
  // A value that backward reads and that no tensor has, after its computation.
  void save(ValueId id, std::shared_ptr<LazyValue> value) const;
  std::vector<std::pair<ValueId, std::shared_ptr<LazyValue>>> saved_values() const;
  // The operands, then the inputs and operands of the hook; null after the last.
  std::shared_ptr<LazyValue> record_operand(std::size_t index) const;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<ValueId, std::shared_ptr<LazyValue>>> saved_;

  std::size_t inputs_ = 0;  // the number of operands that have nodes
};

// The memory of expressions and lazy values, of which programs make thousands a second: the allocator of the process
// merges and divides freed blocks of their size again and again.
std::pmr::polymorphic_allocator<> expression_memory();
template <class... Arguments> std::shared_ptr<LazyValue> make_lazy_value(Arguments&&... arguments) {
  return std::allocate_shared<LazyValue>(expression_memory(), std::forward<Arguments>(arguments)...);
}

// Returns the world of an expression; throws if the world no longer exists or was never set.
std::shared_ptr<WorldState> world_of(const Expression& expression);
// Returns the mesh on which an expression is computed. Pass null for a value without an expression.
DeviceMesh mesh_of(const Expression* expression);

// An expression at the end of a chain of this length is computed immediately, which keeps programs small and bounds
// memory.
inline constexpr int max_expression_depth = 128;
// The same for expressions that need so many uncomputed expressions that read variables.
inline constexpr std::int64_t max_expression_reads = 128;

}  // namespace karez

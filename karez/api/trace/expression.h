// Tensors outside of a trace: each API function writes its own graph, which is kept until one of its values is needed.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/api/array.h"
#include "karez/api/trace/trace.h"

namespace karez {

struct WorldState;

// A value outside of any trace. Its expression is dropped after the value is computed.
struct LazyValue {
  const TensorType type;
  const HostArray host = {};              // given by the user
  const ValueId id = {};                  // in the expression that makes it
  std::weak_ptr<const void> handle = {};  // expired: the user can no longer read the value

  std::shared_ptr<const Expression> producer() const;  // the expression that makes it; null if the value exists
  Array array() const;                                 // the value, unless it is not computed yet or is a host value
  void set_array(Array array);
  // Whether its expression, or the array it was given as, fixes its layout; valid after its computation.
  bool has_user_layout() const;
  const void* identity() const;  // equal for tensors of one array

  LazyValue(TensorType type, HostArray host) : type(std::move(type)), host(std::move(host)) {}
  LazyValue(TensorType type, Array array) : type(std::move(type)), array_(std::move(array)) {}
  LazyValue(TensorType type, ValueId id, std::shared_ptr<const Expression> from)
      : type(std::move(type)),
        id(id),
        producer_(std::move(from)) {}

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Expression> producer_;
  bool has_user_layout_ = true;
  Array array_;
};
using LazyValues = std::vector<std::shared_ptr<LazyValue>>;

// The graph of one API function (relu, a layer). Its input nodes are operands that refer to values outside of it, in
// order. It keeps no world alive.
struct Expression : std::enable_shared_from_this<Expression> {
  Expression();

  Trace trace;
  LazyValues operands;
  std::vector<std::weak_ptr<LazyValue>> values;  // of existing tensors
  std::weak_ptr<WorldState> world;
  bool has_world = false, has_mesh = false;  // whether an operand determines its world and mesh (the first one's)
  bool has_parameter_mesh = false;           // its mesh is the one that stores a parameter of it
  bool complete = false;                     // the API function has returned
  int depth = 1;                             // length of the longest chain of uncomputed expressions that ends here

  const Mesh& mesh() const { return trace.graph.meshes[0]; }
  ValueId operand(const std::shared_ptr<LazyValue>& value);
  // Adds an operand too, so that expressions with other numbers have the same structure.
  ValueId number(DType dtype, double value);
  void add_value(Tensor& tensor);  // `tensor` is a value of this expression
  // Requires a mesh: its own, otherwise that of Interactive, otherwise an error.
  void require_mesh(std::string_view what);
  void place_on(const std::shared_ptr<WorldState>& of, const Mesh& mesh);
  // Uses the mesh of the first parameter that the world stores; operands are transferred to it.
  void place_with(const Parameter& parameter);
  LazyValues pending_values() const;  // uncomputed values that the user can still read

 private:
  ValueId input(const std::shared_ptr<LazyValue>& value);
  void join_world(const std::shared_ptr<WorldState>& of);
};

// Longer chains of expressions are computed immediately, which keeps programs small and memory bounded.
inline constexpr int max_expression_depth = 64;

}  // namespace karez

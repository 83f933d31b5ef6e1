// Tensors outside of a trace: what a word of the user's wrote, kept as a graph of its own until a value of it is
// wanted.
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

// A value outside of any trace. What made it goes once it is there.
struct LazyValue {
  const TensorType type;
  const HostArray host = {};              // given by the user
  const ValueId id = {};                  // in the expression that makes it
  std::weak_ptr<const void> handle = {};  // while it lives somebody may ask for the value

  std::shared_ptr<const Expression> producer() const;  // what makes it; null: it is there
  Array array() const;                                 // where it is there, and not the host's
  void set_array(Array array);
  bool has_user_layout() const;  // what made it, or what gave it, says how it lies; known once it is there
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

// One word's graph (relu's; a layer's). Its input nodes are operands that stand on values outside of it, in order. It
// keeps no world alive.
struct Expression : std::enable_shared_from_this<Expression> {
  Expression();

  Trace trace;
  LazyValues operands;
  std::vector<std::weak_ptr<LazyValue>> values;  // that tensors name
  std::weak_ptr<WorldState> world;
  bool has_world = false, has_mesh = false;  // whose arrays it takes, and which mesh they lie on: the first one's
  bool has_parameter_mesh = false;           // it is the mesh where a parameter of it is stored
  bool complete = false;                     // the word has returned
  int depth = 1;                             // of what is to be made before it, one upon the other

  const Mesh& mesh() const { return trace.graph.meshes[0]; }
  ValueId operand(const std::shared_ptr<LazyValue>& value);
  ValueId number(DType dtype, double value);  // an operand too: another number is the same expression
  void add_value(Tensor& tensor);             // which names a value of this expression
  void require_mesh(std::string_view what);   // for this; else that of Interactive, or an error
  void place_on(const std::shared_ptr<WorldState>& of, const Mesh& mesh);
  void place_with(const Parameter& parameter);  // where the first that the world stores is stored; operands come to it
  LazyValues pending_values() const;            // the values that somebody may ask for, and that are not there

 private:
  ValueId input(const std::shared_ptr<LazyValue>& value);
  void join_world(const std::shared_ptr<WorldState>& of);
};

// More than so many words, one upon the other, do not wait to be asked for: programs stay small, and memory bounded.
inline constexpr int max_expression_depth = 64;

}  // namespace karez

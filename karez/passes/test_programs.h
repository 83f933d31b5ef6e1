// Small training steps and a catalog that supports every op, for the tests of this component.
#pragma once

#include <string>
#include <vector>

#include "karez/ops/all_ops.h"
#include "karez/ops/build.h"
#include "karez/ops/compose.h"
#include "karez/ops/gradient.h"
#include "karez/passes/compile.h"
#include "karez/passes/namespace.h"
#include "karez/passes/pipeline.h"

namespace karez::passes::testing {

// Supports every call except those of the op `missing`, with any strides. The kernel is named after the op. Row
// programs are supported if `rows` is set.
class AnyCatalog : public KernelCatalog {
 public:
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    if (call.op == missing || (call.op == "row_program" && !rows)) return std::nullopt;
    return KernelChoice{"any." + call.op, 0};
  }
  std::optional<CallSpec> suggest(const CallSpec& call) const override {
    return call.op == missing ? std::nullopt : std::optional(call);
  }
  std::string list(std::string_view op) const override {
    return op == missing ? cat("no kernel implements '", op, "'") : "any." + std::string(op);
  }
  std::string missing;
  bool rows = false;
};

inline const OpTable& table() {
  static const OpTable ops = all_ops();
  return ops;
}
inline const AnyCatalog& catalog() {
  static const AnyCatalog any;
  return any;
}

// Adds a variable to the graph, and returns the value of the node that reads it.
ValueId parameter(Builder& b, const std::string& name, const TensorType& type);

// Builds one step of SGD with momentum for an MLP with sizes[0] inputs and sizes.back() classes.
Graph mlp_step(const Mesh& mesh, const std::vector<std::int64_t>& sizes, std::int64_t batch);

Compilation compilation(Graph graph);

}  // namespace karez::passes::testing

// Graphs of gradients that backward has written outside of compiled functions. Records of equal structure share a
// graph, so that a training loop differentiates its model once.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "karez/api/interactive.h"
#include "karez/api/trace/joined_graph.h"
#include "karez/api/trace/shared_call.h"

namespace karez {

// Recorded expressions whose gradients are about to be taken, with numbers for their values and parameters, and a key
// that is equal for records of equal structure.
class NumberedRecord {
 public:
  NumberedRecord(const Expressions& expressions, const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                 const GradientTargets& targets, const BackwardOptions& options);

  // The gradients by the graph of an earlier record, or nullopt if there is none.
  std::optional<std::vector<Tensor>> find(const SourceLine& where) const;
  // Keeps the graph of the expression that made these gradients for later records.
  void add(const JoinedGraph::Written& written, const std::vector<Tensor>& gradients) const;

 private:
  void add(const Expression& expression);
  void put(const std::shared_ptr<LazyValue>& value);
  void put(const Parameter& parameter);
  std::vector<Tensor> write(Trace& t, const GradientGraph& graph) const;

  const Expressions& expressions_;
  std::shared_ptr<WorldState> world_;  // null if this record cannot share a graph
  std::string key_;
  LazyValues values_;
  std::vector<Parameter> parameters_;
  std::map<const LazyValue*, std::size_t> numbers_;
  std::map<const void*, std::size_t> identities_;
  std::map<const Expression*, std::size_t> parts_;
};

}  // namespace karez

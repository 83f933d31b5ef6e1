// JoinedGraph: recorded expressions joined into one graph with their gradients.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "karez/api/interactive.h"
#include "karez/api/trace/expression.h"

namespace karez {

using Expressions = std::vector<std::shared_ptr<const Expression>>;

// Throws if the parameter was written after one of the expressions read it.
void require_unchanged(const Parameter& parameter, const Expressions& expressions);

// The joined expressions with their gradients. Nothing runs: the graph only shows which values the gradients need.
//
// The graph is on the mesh of the first expression that has one. Values on other meshes are operands.
//
// Functions of hooks get values outside of the graph. Before each of them, the gradients that exist so far are written
// into an expression, and become operands of the rest.
class JoinedGraph {
 public:
  // Each expression comes after those that make its operands. Values of expressions on other meshes that the user can
  // read must exist. With `create_graph` the gradients are recorded, so values with hooks stay results of the
  // expressions that recorded them: gradients of the gradients then call the hooks too.
  JoinedGraph(const Expressions& expressions, const BackwardOptions& options, SourceLine where);

  // The expression of the gradients, and the values of the record that it computes too.
  struct Written {
    std::shared_ptr<const Expression> expression;
    std::vector<std::pair<std::shared_ptr<LazyValue>, ValueId>> moved;
  };
  // Returns the gradients of the sum of outputs[i] * seeds[i].
  std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                                const GradientTargets& targets);
  const Written& written() const { return last_; }  // by `gradients`

 private:
  void add(const Expression& expression);
  void add_hooks(const Expression& expression, const base::ById<ValueId, ValueId>& new_ids);
  std::vector<ValueId> build(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                             const GradientTargets& targets);
  void run_existing();
  // Writes values, and values of the record that the user can read and that do not exist yet, into one expression, and
  // returns the values. Values that exist become operands. With `for_hook`, all written values exist afterwards.
  std::vector<Tensor> write(std::span<const ValueId> roots, bool for_hook);
  std::vector<Tensor> write_into(Trace& t, std::span<const ValueId> roots, bool for_hook);

  void keep_copies(Expression& expression, std::span<const ValueId> written,
                   const base::ById<ValueId, ValueId>& new_ids) const;

  std::vector<Tensor> tensors_of(std::span<const ValueId> ids);
  std::vector<ValueId> ids_of(const std::vector<Tensor>& tensors);
  ValueId value_of(const std::shared_ptr<LazyValue>& value);  // a value of the record, or an operand
  ValueId read(const Parameter& parameter);
  bool is_stored_on_another_mesh(const Parameter& parameter) const;
  // Adds the seed to `stops`, as a copy: a later gradient of the result flows through it.
  ValueId weighted_sum(const Tensor& output, const Tensor& seed, std::vector<ValueId>& stops);
  base::ById<ValueId, bool> needed_from(std::span<const ValueId> roots) const;
  void require_unchanged(const base::ById<ValueId, bool>& needed) const;

  const Expressions& expressions_;
  bool create_graph_, retain_graph_, zeros_;
  SourceLine where_;
  std::shared_ptr<Expression> scratch_ = std::make_shared<Expression>();
  std::map<const Expression*, base::ById<ValueId, ValueId>> added_;  // with the ids of their values in the graph
  std::map<const LazyValue*, ValueId> ids_;
  std::vector<std::pair<std::shared_ptr<LazyValue>, ValueId>> values_;  // of the record
  std::map<ValueId, std::pair<const Expression*, ValueId>> recorded_;   // where the values of the record come from
  std::map<ValueId, std::shared_ptr<LazyValue>> existing_;
  Written last_;
  std::vector<Tensor> written_;  // for hooks; as long as they are here, they are results of their expressions
  std::map<ValueId, Parameter> parameters_;
  std::vector<ops::GradientHook> hooks_;
  std::vector<ops::ValueHook> value_hooks_;
};

}  // namespace karez

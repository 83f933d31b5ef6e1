// Merges pointwise calls into the pointwise calls that read their results, so that a chain needs one pass over memory.
#include <algorithm>
#include <utility>
#include <vector>

#include "karez/base/expr.h"
#include "karez/graph/op.h"
#include "karez/passes/lowering/fuse/repeated_calls.h"
#include "karez/passes/lowering/fuse/rules.h"

namespace karez::passes {
namespace {

// Longer expressions are not merged: a value that is read twice doubles the text.
constexpr std::size_t max_text = 1000;

bool is_pointwise(const LocalCall& call) {
  return !SegmentCalls::is_removed(call) && call.spec.op == "pointwise" && call.spec.out.size() == 1;
}

// Whether the result keeps all bits of the expression's value, which is computed in f32.
bool keeps_value(const LocalCall& call, const Expr& expr) {
  const DType dtype = call.spec.out[0].dtype;
  return dtype == DType::f32 || (dtype == DType::b8 && base::is_boolean(expr->kind));
}

// Operands of a call that is being made. Equal ones are one variable.
struct Operands {
  std::vector<LocalId> values;
  std::vector<View> views;
  Expr variable(LocalId value, const View& view) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] == value && views[i] == view) return base::expr_variable(static_cast<int>(i));
    values.push_back(value);
    views.push_back(view);
    return base::expr_variable(static_cast<int>(values.size()) - 1);
  }
};

constexpr std::size_t max_operands = 16;  // a catalog may allow fewer

// `reader` with the expression of `call` in place of its result. False if that is not possible.
bool merge(SegmentCalls& segment, const LocalCall& call, const Expr& expr, LocalCall& reader) {
  if (!is_pointwise(reader) || reader.acts != call.acts || reader.kernel != call.kernel) return false;
  if (call.in.size() + reader.in.size() > max_operands) return false;
  const LocalId result = call.out[0];
  Operands operands;
  std::vector<Expr> with(reader.in.size());
  for (std::size_t k = 0; k < reader.in.size(); ++k) {
    if (segment.root(reader.in[k]) != segment.root(result)) {
      with[k] = operands.variable(reader.in[k], reader.spec.in[k]);
    } else if (!segment.is_same(reader.in[k], result) || reader.spec.in[k] != call.spec.out[0]) {
      return false;  // it reads a part, or other strides
    }
  }
  std::vector<Expr> inner(call.in.size());
  for (std::size_t k = 0; k < call.in.size(); ++k) inner[k] = operands.variable(call.in[k], call.spec.in[k]);
  const Expr value = substitute(expr, inner);
  for (Expr& one : with)
    if (one == nullptr) one = value;
  const std::string text = print(substitute(base::parse_expr(reader.spec.attrs.text("expr")), with));
  if (text.size() > max_text) return false;
  reader.in = std::move(operands.values);
  reader.spec.in = std::move(operands.views);
  reader.spec.attrs.set("expr", text);
  reader.merged.insert(reader.merged.begin(), call.merged.begin(), call.merged.end());
  reader.merged.insert(reader.merged.begin() + static_cast<std::ptrdiff_t>(call.merged.size()), call.node);
  const auto choice = segment.catalog().find(reader.spec);
  if (!choice || choice->kernel != call.kernel || choice->rate < 1) return false;
  reader.workspace = choice->workspace;
  return true;
}

// Merged calls read the operands of call `i` later. Whether memory that would be free by then is at most that of the
// result, which is not needed any more. If there is no call between them, little is alive that was not alive before.
bool saves_memory(const SegmentCalls& segment, const std::vector<LocalCall>& calls, std::size_t i, std::size_t last) {
  const LocalCall& call = calls[i];
  if (std::all_of(calls.begin() + static_cast<std::ptrdiff_t>(i) + 1, calls.begin() + static_cast<std::ptrdiff_t>(last),
                  SegmentCalls::is_removed))
    return true;
  std::vector<LocalId> roots;
  std::int64_t longer = 0;
  for (LocalId in : call.in) {
    const LocalId root = segment.root(in);
    if (std::find(roots.begin(), roots.end(), root) != roots.end() || segment.is_needed_until(root, last)) continue;
    roots.push_back(root);
    longer += stored_bytes(segment.view(root));
  }
  return longer <= stored_bytes(call.spec.out[0]);
}

}  // namespace

int fuse_chains(SegmentCalls& segment) {
  int changes = 0;
  std::vector<LocalCall>& calls = segment.calls();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const LocalCall& call = calls[i];
    if (!is_pointwise(call) || !call.spec.attrs.has("expr")) continue;
    const Expr expr = base::parse_expr(call.spec.attrs.text("expr"));
    if (!keeps_value(call, expr)) continue;
    const std::vector<std::size_t> readers = segment.readers(call);
    if (readers.empty() || (readers.size() > 1 && !may_repeat(call, expr))) continue;
    if (!saves_memory(segment, calls, i, readers.back())) continue;
    SegmentCalls::NewCalls merged;
    for (std::size_t reader : readers) {
      merged.emplace_back(reader, calls[reader]);
      if (!merge(segment, call, expr, merged.back().second)) break;
      if (reader == readers.back()) changes += segment.replace(i, std::move(merged));
    }
  }
  return changes;
}

}  // namespace karez::passes

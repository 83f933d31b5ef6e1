// The definition of an op (types, index signature, localise hook, gradient, cost), the table of ops, and the Builder.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "karez/graph/graph.h"
#include "karez/graph/namespace.h"
#include "karez/sbp/cost.h"

namespace karez::graph {

class Builder;

// Marks a dimension that is never split (h and w of a convolution, a sliced or padded axis): it has this label instead
// of a letter, in a Signature and in its text. Such dimensions are independent of each other: their sizes may differ.
inline constexpr const char* never_split = "_";

// The letter of each dimension of each operand and result; all shardings follow from it.
struct Signature {
  Signature();
  Signature(const Signature&);
  Signature(Signature&&) noexcept;
  Signature& operator=(const Signature&);
  Signature& operator=(Signature&&) noexcept;
  ~Signature();

  std::vector<std::vector<std::string>> in, out;  // per operand, per dimension: a letter or never_split
  std::map<std::string, Reduce>
      reduced;  // letters of inputs that no output has, with their Partial kind (default: sum)
  std::map<std::string, std::int64_t>
      divides;  // letters that are split only by divisors of this extent (merged and split dimensions of a reshape)
  std::vector<std::vector<int>> linear;  // groups of operands through which Partial(sum) passes together
  bool picks = false;  // each element of a result is one element of an operand of a linear group (concat, select), not
                       // a sum of several
  bool moves = false;  // only moves elements (reshape, transpose, ...): operand 0's Partial of any kind passes
  // Reduced letters of dimensions from which an index picks an element: if such a dimension is split, the partial
  // result is the element on one device and exactly 0 on the others.
  std::set<std::string> masked;
  // The effect of an operand outside of a linear group on the group. Float operands that are not listed are factors;
  // all others are harmless.
  enum class OutsideEffect {
    factor,     // multiplies it: 0 times infinity is NaN
    divisor,    // divides it: 0 divided by 0 is NaN
    condition,  // selects which element is taken
    unknown,    // determines a factor: even a finite operand may give an infinite one
  };
  std::map<int, OutsideEffect> outside;
};
// Examples: "m k, k n -> m n | linear {0} {1}"; "i j -> i | j by max"; "n c _ _, o c _ _ -> n o _ _ | linear {0} {1}";
// "i j -> j i | moves". "a b -> a | a divides 12" (a reshape [12, 4] -> [48]); "()" or an empty place between commas is
// a scalar; an empty left side means no operand, or one scalar if the node has one operand. "v d, i -> i d | v masked |
// linear {0}"; "i, i -> i | linear {0} | outside 1 divisor".
Signature parse_signature(std::string_view text);
std::string print(const Signature& signature);
inline std::ostream& operator<<(std::ostream& out, const Signature& signature) { return out << print(signature); }

// One legal assignment of SBP entries to the operands and results of a node on one mesh axis.
struct Sharding {
  std::vector<Sbp> in, out;
  bool operator==(const Sharding&) const = default;
};
std::string print(const Sharding& sharding);  // "S(0), B -> S(0)"

using Cost = Work;

// The argument of localise: the logical node and, for one device, the box that it holds of each input and output.
struct LocalView {
  NodeView node;
  std::vector<Box> in, out;
};

// The function of an op in a step. Passes test this and the fields of OpDef, never an op's name (except in a rule about
// one op).
enum class Role {
  compute,     // a kernel runs it in every launch
  source,      // an input of the user: an actor of the host produces it
  state,       // a variable as stored before the launch: its bytes exist already
  constant,    // a function of its attributes alone: computed once, when the plan is loaded
  window,      // a view of its operand's bytes through other strides (see OpDef::window)
  update,      // next versions of variables, written over the old ones; a run of updates ends a step
  store,       // writes operand 1 over operand 0, a variable's old version
  transition,  // a change of layout along one mesh axis
  transfer,    // moves its operand to another placement: the only node with an operand that may be on a mesh other than
               // its result
  accumulate,  // the sum of its operand over all acts of a launch, in their order
  micro_join,  // its operand of all acts of a launch, concatenated along {axis}
  micro_slice,  // in each act, one of {parts} equal parts along {axis} of its operand, which is filled once per launch
};

// How an op treats bf16 and f16 operands and results (see karez/passes/logical/cast.h).
enum class HalfPolicy {
  widen,            // computed in f32, with f32 results under mixed precision: sums, norms, losses, updates
  widen_and_round,  // computed in f32; under mixed precision its results are halves if its operands are
  keep,             // passes halves through unchanged: it moves elements
  multiply,         // a product, the purpose of mixed precision: with {wide=true} a bf16 product has an f32 result
};

// Whether its results are filled once per launch, by all its acts together.
inline bool combines_acts(Role role) { return role == Role::accumulate || role == Role::micro_join; }

// A result that shows its operand's bytes: its view, and the byte of the operand at which it starts.
struct OffsetView {
  View view;
  std::int64_t offset = 0;
};

// The operand that holds indices; the kernel throws for an index below 0 or not below `limit`.
struct IndexOperand {
  int operand = 0;
  std::int64_t limit = 0;
};

struct OpDef {
  std::string name{};
  std::string doc{};
  int inputs = 0;  // -1: any number
  // Shape and dtype of the outputs; throws if operands do not match, with both sizes in the message.
  std::function<std::vector<TensorType>(std::span<const TensorType>, const Attrs&)> infer{};
  std::variant<std::string, std::function<Signature(const NodeView&)>> index{};
  // Attributes of the local call. Absent: the logical ones, with "shape", if present, set to the local shape of output
  // 0.
  std::function<Attrs(const LocalView&)> localise{};
  // Gradients of the inputs from those of the outputs. An invalid id, in the argument or the result, means no gradient.
  // Absent: see no_grad.
  std::function<std::vector<ValueId>(Builder&, const NodeView&, std::span<const ValueId>)> grad{};
  std::string no_grad{};  // why there is no gradient ("integers", "zero almost everywhere", "an update")
  std::function<Cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&)>
      cost{};        // absent: memory, bytes in + out
  bool pure = true;  // equal inputs and attributes give equal outputs: CSE and folding may act
  // Outputs that may reuse an input's bytes: of pointwise ops and updates (state).
  std::vector<std::pair<int, int>> in_place{};  // (input, output)
  std::string expr{};                           // pointwise ops: the scalar expression over x, y, z
  double transcendentals = 0;                   // in expr, in evaluations of e^x per element
  WorkClass work = WorkClass::memory;           // used if there is no `cost`
  Role role = Role::compute;
  // Of a window: the view of the local operand that is the local result of this shape. None if the operand's strides do
  // not allow such a view; the operand must then be copied to row-major order.
  std::function<std::optional<OffsetView>(const View& operand, const Shape& shape, const Attrs& local)> window{};
  HalfPolicy half_policy = HalfPolicy::widen;
  bool may_fail = false;  // its kernel may throw for some values of its operands
  std::function<IndexOperand(const NodeView&)> indices{};
  bool elementwise = false;  // element i of the result depends on elements i of the operands alone
  bool commutative = false;  // with two operands: swapping them gives the same result
  bool associative =
      false;  // a (b c) may be computed as (a b) c if that shares work, see docs/decisions/canonical-sums.md
  bool overflows_regrouped = false;  // but other pairs may over- or underflow when those of the program do not: only
                                     // with CompileOptions::reassociate
  std::string call_name{};           // the name of the call that runs it, if different from the op's
  std::optional<int> shared_operands{};  // of an update whose kernels take many parameters in one call: the number of
                                         // its last operands, which all parameters share
};

class OpTable {
 public:
  OpTable() = default;
  explicit OpTable(std::vector<OpDef> rows);     // throws on repeated names
  const OpDef& at(std::string_view name) const;  // throws on an unknown name, with similar names in the message
  const OpDef* find(std::string_view name) const;
  std::vector<const OpDef*> rows() const;

 private:
  std::map<std::string, OpDef, std::less<>> rows_;  // stable addresses: nodes point to rows
};

Signature signature_of(const NodeView& node);
// All legal shardings of a node on one mesh axis of `size` devices, in a fixed order: all Broadcast first, then letters
// in order of appearance, then linear groups, then moves. A letter with a `divides` extent needs size to divide it.
std::vector<Sharding> shardings(const NodeView& node, int size);
// All legal combinations over the axes of the mesh, one Sharding per axis: the product of the above without those that
// do not nest (see divides).
std::vector<std::vector<Sharding>> mesh_shardings(const NodeView& node, const Mesh& mesh);

Attrs localise(const LocalView& view);  // by the op's hook or the default rule
Cost cost_of(const OpDef& op, std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs);

// Adds nodes to a graph: infers types, records path and source line, and reports errors with that line.
class Builder {
 public:
  Builder(Graph& graph, const OpTable& ops) : graph_(&graph), ops_(&ops) {}

  // Returns the outputs of the new node. It is placed on the builder's mesh. If that is 0 (none chosen), it is placed
  // on the mesh of its largest operand on a mesh other than 0, if there is one (ties: the mesh with the most bytes of
  // operands, including earlier transfers to it; then the first). Operands on other meshes are transferred; one on mesh
  // 0 stays there until the program is complete, see karez/passes/logical/place.h.
  std::vector<ValueId> add(std::string_view op, std::span<const ValueId> inputs, Attrs attrs = {});
  ValueId one(std::string_view op, std::initializer_list<ValueId> inputs,
              Attrs attrs = {});  // for a node with one output
  ValueId transfer_to_mesh(
      ValueId value,
      int mesh);  // the value itself if it is on this mesh, otherwise its transfer; each value is transferred once

  Graph& graph() { return *graph_; }
  const OpTable& ops() const { return *ops_; }
  const TensorType& type(ValueId id) const { return graph_->type(id); }

  std::string path;  // recorded in every new node
  std::string where;
  int mesh = 0;  // the mesh of new nodes; 0: that of their operands or, in the end, of their consumers

 private:
  int placement_of(const OpDef& op, std::span<const ValueId> inputs) const;
  ValueId find_transferred(
      ValueId value,
      int target) const;  // an earlier result of transfer_to_mesh; invalid: none, or it has been dropped
  Graph* graph_;
  const OpTable* ops_;
  std::map<std::pair<ValueId, int>, ValueId> transferred_;  // by value and mesh; a hint: nodes may have been dropped
};

}  // namespace karez::graph

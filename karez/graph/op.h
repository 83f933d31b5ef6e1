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

// The label that replaces the letter of a dimension that is never split, such as h and w of a convolution, or a sliced
// or padded axis. Dimensions with this label may differ in size.
inline constexpr const char* never_split = "_";

// The index signature of a node: a letter for each dimension of each operand and result. All legal shardings are
// derived from the letters.
struct Signature {
  Signature();
  Signature(const Signature&);
  Signature(Signature&&) noexcept;
  Signature& operator=(const Signature&);
  Signature& operator=(Signature&&) noexcept;
  ~Signature();

  std::vector<std::vector<std::string>> in, out;  // per operand, per dimension: a letter or never_split
  std::map<std::string, Reduce> reduced;          // letters that only inputs have: the kind of Partial (default: sum)
  std::map<std::string, std::int64_t>
      divides;  // for letters of merged dimensions of a reshape: the number of parts must divide this extent
  std::vector<std::vector<int>> linear;  // groups of operands through which Partial(sum) passes together
  bool picks = false;  // each element of a result is one element of an operand of a linear group (concat, select), not
                       // a sum of several
  bool moves = false;  // only moves elements (reshape, transpose, ...), so any kind of Partial of operand 0 passes to
                       // the results
  // Reduced letters of dimensions from which an index selects an element. If such a dimension is split, the partial
  // result is the element on one device and exactly 0 on the others.
  std::set<std::string> masked;
  // The effect of an operand outside a linear group on the group. Float operands that are not listed are factors;
  // operands of other types have no effect.
  enum class OutsideEffect {
    factor,     // multiplies the group: 0 times infinity is NaN
    divisor,    // divides the group: 0 divided by 0 is NaN
    condition,  // selects an element of the group
    unknown,    // determines a factor: even a finite operand may give an infinite one
  };
  std::map<int, OutsideEffect> outside;
};
// Parses the text of a signature, such as:
//   "m k, k n -> m n | linear {0} {1}"                matmul
//   "n c _ _, o c _ _ -> n o _ _ | linear {0} {1}"    conv2d
//   "i j -> i | j by max"                             reduce_max
//   "i j -> j i | moves"                              transpose
//   "a _ -> a | a divides 12 | moves"                 reshape [12, 4] -> [48]
//   "v d, i -> i d | v masked | linear {0}"           gather
//   "i, i -> i | linear {0} | outside 1 divisor"      div
// "()" or an empty operand between commas is a scalar. An empty left side means no operands, or one scalar operand if
// the node has one operand.
Signature parse_signature(std::string_view text);
std::string print(const Signature& signature);
inline std::ostream& operator<<(std::ostream& out, const Signature& signature) { return out << print(signature); }

// One legal assignment of SBP entries to the operands and results of a node on one mesh axis.
struct Sharding {
  std::vector<Sbp> in, out;
  bool operator==(const Sharding&) const = default;
};

using Cost = Work;

// The argument of localise: the logical node, and the box of each input and output that one device holds.
struct LocalView {
  NodeView node;
  std::vector<Box> in, out;
};

// The function of an op in a step. Passes test the role and the fields of OpDef, never the name of an op (except in a
// rule about one op).
enum class Role {
  compute,      // a kernel runs it in every launch
  source,       // an input of the user, which an actor of the host produces
  state,        // a variable as stored before the launch
  constant,     // a function of its attributes, computed once when the plan is loaded
  window,       // a view of the bytes of its operand through other strides (see OpDef::window)
  update,       // new values of variables, which overwrite the old ones; updates come last in a step
  store,        // overwrites operand 0, the old value of a variable, with operand 1
  transition,   // a change of layout along one mesh axis
  transfer,     // moves its operand to another placement: only here may operand and result be on different meshes
  accumulate,   // the sum of its operand over all acts of a launch, in the order of the acts
  micro_join,   // the operands of all acts of a launch, concatenated along {axis}
  micro_slice,  // in each act, one of {parts} equal parts of its operand along {axis}; the operand is filled once per
                // launch
};

// How an op treats bf16 and f16 operands and results (see karez/passes/logical/cast.h).
enum class HalfPolicy {
  widen,            // computed in f32; results are f32 under mixed precision: sums, norms, losses, updates
  widen_and_round,  // computed in f32; under mixed precision, half operands give half results
  keep,             // only moves elements, so halves are unchanged
  multiply,         // a product: computed in half precision; with {wide=true}, a bf16 product has an f32 result
};

// Returns whether a node with this role combines its acts: its results are filled once per launch, by all acts
// together.
inline bool combines_acts(Role role) { return role == Role::accumulate || role == Role::micro_join; }

// A result that shares the bytes of its operand: the view, and its offset in the operand in bytes.
struct OffsetView {
  View view;
  std::int64_t offset = 0;
};

// The operand that holds indices. The kernel throws for an index that is negative or not less than `limit`.
struct IndexOperand {
  int operand = 0;
  std::int64_t limit = 0;
};

struct OpDef {
  std::string name{};
  std::string doc{};
  int inputs = 0;         // -1 stands for any number
  std::string example{};  // a call for the tests of types and shardings, "cumsum(f32[6, 4]) {axis=1}"
  // Returns the types of the outputs. Throws if the operands do not match; the message contains both sizes.
  std::function<std::vector<TensorType>(std::span<const TensorType>, const Attrs&)> infer{};
  std::variant<std::string, std::function<Signature(const NodeView&)>> index{};
  // Returns the attributes of the local call. By default, they are the logical ones, with "shape" set to the local
  // shape of output 0 if there is such an attribute.
  std::function<Attrs(const LocalView&)> localise{};
  // Returns the gradients of the inputs, given those of the outputs. An invalid id, in the argument or the result,
  // means no gradient. If absent, no_grad gives the reason.
  std::function<std::vector<ValueId>(Builder&, const NodeView&, std::span<const ValueId>)> grad{};
  std::string no_grad{};  // why there is no gradient ("integers", "zero almost everywhere", "an update")
  std::function<Cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&)>
      cost{};        // by default: WorkClass `work`, all bytes of inputs and outputs
  bool pure = true;  // equal inputs and attributes give equal outputs, so CSE and folding are allowed
  // Outputs that may reuse the bytes of an input: for pointwise ops and updates.
  std::vector<std::pair<int, int>> in_place{};  // (input, output)
  std::string expr{};                           // pointwise ops: the scalar expression over x0, x1, x2
  double transcendentals = 0;                   // time of the functions in expr, in evaluations of e^x per element
  WorkClass work = WorkClass::memory;           // used if there is no `cost`
  Role role = Role::compute;
  // For a window: returns the view of the local operand that gives the local result, which has the shape `shape`.
  // Returns nullopt if the strides of the operand do not allow such a view; the operand must then be copied to
  // row-major order.
  std::function<std::optional<OffsetView>(const View& operand, const Shape& shape, const Attrs& local)> window{};
  HalfPolicy half_policy = HalfPolicy::widen;
  bool may_fail = false;  // the kernel may throw for some values of the operands
  std::function<IndexOperand(const NodeView&)> indices{};
  bool elementwise = false;  // element i of the result depends only on elements i of the operands
  bool commutative = false;  // with two operands: swapping them gives the same result
  bool associative = false;  // a (b c) may be computed as (a b) c to share work, see docs/decisions/canonical-sums.md
  bool overflows_regrouped = false;  // associative, but a regrouped form may overflow or underflow where the original
                                     // does not; regrouped only with CompileOptions::reassociate
  std::string call_name{};           // name of the call that runs the op, if it differs from the op's name
  std::optional<int> shared_operands{};  // for an update whose kernels update many parameters in one call: the number
                                         // of trailing operands that all parameters share
};

class OpTable {
 public:
  OpTable() = default;
  explicit OpTable(std::vector<OpDef> rows);     // throws on repeated names
  const OpDef& at(std::string_view name) const;  // throws on an unknown name, with similar names in the message
  const OpDef* find(std::string_view name) const;
  std::vector<const OpDef*> rows() const;

 private:
  std::map<std::string, OpDef, std::less<>> rows_;  // nodes point to rows, so addresses must not change
};

Signature signature_of(const NodeView& node);
// Returns all legal shardings of a node on one mesh axis of `size` devices, in a fixed order: first all Broadcast, then
// letters in order of appearance, then linear groups, then moves. A letter in `divides` is split only if `size` divides
// its extent.
std::vector<Sharding> shardings(const NodeView& node, int size);
// Returns all legal combinations of one Sharding per mesh axis. A combination is illegal if it gives a value an invalid
// layout, or if several axes split a letter in `divides` and the product of their sizes does not divide its extent.
std::vector<std::vector<Sharding>> mesh_shardings(const NodeView& node, const Mesh& mesh);

Attrs localise(const LocalView& view);  // calls the hook of the op, or applies the default rule
Cost cost_of(const OpDef& op, std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs);

// Adds nodes to a graph: infers their types, records their module path and source line, and reports errors with this
// line.
class Builder {
 public:
  Builder(Graph& graph, const OpTable& ops) : graph_(&graph), ops_(&ops) {}

  // Adds a node and returns its outputs. The node is placed on the builder's mesh. If this is 0 (no mesh is chosen),
  // the node is placed on the mesh of its largest operand that is not on mesh 0, if there is one. If operands on
  // several meshes are equally large, the mesh that has the most bytes of operands, including earlier transfers to it,
  // is chosen, then the mesh of the first operand. Operands on other meshes are transferred; an operand on mesh 0 stays
  // on it until the program is complete, see karez/passes/logical/place.h.
  std::vector<ValueId> add(std::string_view op, std::span<const ValueId> inputs, Attrs attrs = {});
  // Adds a copy of a node of another graph. The operands have the types of the operands there, so that the types of the
  // results are known. Regions are not copied.
  std::vector<ValueId> add_copy(const Graph& from, const Node& node, std::span<const ValueId> operands);
  ValueId one(std::string_view op, std::initializer_list<ValueId> inputs,
              Attrs attrs = {});  // for a node with one output
  ValueId transfer_to_mesh(ValueId value,
                           int mesh);  // returns the value itself if it is on this mesh, otherwise its transfer; a
                                       // value is transferred to a mesh only once

  Graph& graph() { return *graph_; }
  const OpTable& ops() const { return *ops_; }
  const TensorType& type(ValueId id) const { return graph_->type(id); }

  std::string path;  // recorded in every new node
  std::string where;
  int mesh = 0;  // mesh of new nodes; 0 stands for the mesh of their operands or, if these have none, of their readers

 private:
  const Node& add_node(std::string_view op, std::span<const ValueId> inputs, Attrs attrs);
  const Node& append(const OpDef& row, std::vector<ValueId> inputs, Attrs attrs, std::vector<TensorType> types,
                     int placement);
  int placement_of(const OpDef& op, std::span<const ValueId> inputs) const;
  ValueId find_transferred(
      ValueId value,
      int target) const;  // an earlier result of transfer_to_mesh; invalid if there is none or it was removed
  Graph* graph_;
  const OpTable* ops_;
  std::map<std::pair<ValueId, int>, ValueId> transferred_;  // by value and mesh; nodes may have been removed since
};

}  // namespace karez::graph

// An op's definition: types, index signature, localise hook, gradient, cost; and the table of all ops.
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

// The one way to say that a dimension is never split: it carries this instead of a letter, in a Signature as in its
// text (h and w of a convolution, a cut or padded axis). Such dimensions have nothing to do with each other: their
// sizes may differ.
inline constexpr const char* never_split = "_";

// Which dimension of which operand carries which letter; from it all shardings follow.
struct Signature {
  Signature();
  Signature(const Signature&);
  Signature(Signature&&) noexcept;
  Signature& operator=(const Signature&);
  Signature& operator=(Signature&&) noexcept;
  ~Signature();

  std::vector<std::vector<std::string>> in, out;  // per operand, per dimension: a letter or never_split
  std::map<std::string, Reduce>
      reduced;  // letters of inputs that no output carries, with their Partial kind (sum unless said)
  std::map<std::string, std::int64_t>
      divides;  // letters whose split must divide this extent (merged and split dimensions of a reshape)
  std::vector<std::vector<int>> linear;  // groups of operands through which Partial(sum) passes together
  bool picks =
      false;  // each element of a result is one of the operands' of a linear group (concat, select), no sum of them
  bool moves = false;  // only moves elements (reshape, transpose, ...): operand 0's Partial of any kind passes
  // Reduced letters of elements that are picked by an index: split there, a part is the element itself on one device
  // and exactly 0 on the others.
  std::set<std::string> masked;
  // What operands outside of a linear group do to it; floats that are not named here are factors, all others are
  // harmless.
  enum class OutsideEffect {
    factor,     // multiplies it: a 0 times an infinity is NaN
    divisor,    // divides it: a 0 by a 0 is NaN
    condition,  // decides which element is taken
    unknown,    // makes what multiplies it: even a finite one may make an infinity
  };
  std::map<int, OutsideEffect> outside;
};
// "m k, k n -> m n | linear {0} {1}"; "i j -> i | j by max"; "n c _ _, o c _ _ -> n o _ _ | linear {0} {1}"; "i j -> j
// i | moves". "a b -> a | a divides 12" (a reshape [12, 4] -> [48]); "()" or nothing between commas is a scalar;
// nothing before "->" is no operand, or one scalar where the node has one operand. "v d, i -> i d | v masked | linear
// {0}"; "i, i -> i | linear {0} | outside 1 divisor".
Signature parse_signature(std::string_view text);
std::string print(const Signature& signature);
inline std::ostream& operator<<(std::ostream& out, const Signature& signature) { return out << print(signature); }

// One legal way to lay a node on one mesh axis.
struct Sharding {
  std::vector<Sbp> in, out;
  bool operator==(const Sharding&) const = default;
};
std::string print(const Sharding& sharding);  // "S(0), B -> S(0)"

using Cost = Work;

// What localise sees: the node (logical) and, for one device, the box of each input and output that it holds.
struct LocalView {
  NodeView node;
  std::vector<Box> in, out;
};

// What an op is in a step. Passes ask for this and for the fields of OpDef, never for an op's name (a rule about one op
// excepted).
enum class Role {
  compute,      // a kernel runs it in every launch
  source,       // what the user feeds: the host's actor makes it
  state,        // a variable as the launch finds it: its bytes are there
  constant,     // a function of its attributes alone: made once, when the plan is loaded
  window,       // its operand's bytes seen through other strides (see OpDef::window)
  update,       // next versions of variables, written over the old ones; a run of updates ends a step
  store,        // operand 1, written over operand 0, a variable's old version
  transition,   // a change of layout along one mesh axis
  transfer,     // its operand on another placement: the only node whose operand may lie on another mesh than its result
  accumulate,   // of its operand in all acts of a launch the sum, in their order
  micro_join,   // its operand in all acts of a launch, one behind the other along {axis}
  micro_slice,  // of its operand, which is there once a launch, in each act one of {parts} equal parts along {axis}
};

// What becomes of it where operands or results are bf16 or f16 (see karez/passes/logical/cast.h).
enum class HalfPolicy {
  widen,            // computed in f32, also its results under mixed precision: sums, norms, losses, updates
  widen_and_round,  // computed in f32; under mixed precision its results are halves where its operands are
  keep,             // halves go through it as they are: it moves elements
  multiply,         // a product, what mixed precision is for: of bf16 it is an f32 with {wide=true}
};

// Its results are filled once a launch, by all its acts together.
inline bool combines_acts(Role role) { return role == Role::accumulate || role == Role::micro_join; }

// A result that is the operand's bytes: how they are seen, from which byte of the operand on.
struct OffsetView {
  View view;
  std::int64_t offset = 0;
};

// Which operand holds indices; a kernel given one below 0 or not below `limit` throws.
struct IndexOperand {
  int operand = 0;
  std::int64_t limit = 0;
};

struct OpDef {
  std::string name{};
  std::string doc{};
  int inputs = 0;  // -1: any number
  // Shape and dtype of the outputs; throws on operands that do not fit, naming both sizes.
  std::function<std::vector<TensorType>(std::span<const TensorType>, const Attrs&)> infer{};
  std::variant<std::string, std::function<Signature(const NodeView&)>> index{};
  // Attributes of the local call. None: the logical ones, with "shape" (if there is one) the local shape of output 0.
  std::function<Attrs(const LocalView&)> localise{};
  // Gradients of the inputs from those of the outputs (an invalid id: none flows). Invalid in the result: none. Absent:
  // see no_grad.
  std::function<std::vector<ValueId>(Builder&, const NodeView&, std::span<const ValueId>)> grad{};
  std::string no_grad{};  // why there is none ("integers", "zero almost everywhere", "an update")
  std::function<Cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&)>
      cost{};        // absent: memory, bytes in + out
  bool pure = true;  // equal inputs and attributes give equal outputs: CSE and folding may act
  // Output i may take input i's bytes: pointwise ops and updates (state) say so.
  std::vector<std::pair<int, int>> in_place{};  // (input, output)
  std::string expr{};                           // pointwise ops: the scalar expression over x, y, z
  double transcendentals = 0;                   // in it, as evaluations of e^x for each element
  WorkClass work = WorkClass::memory;           // where no `cost` says it
  Role role = Role::compute;
  // Of a window: the local result of this shape on the local operand; none where these strides cannot say it and only a
  // copy in row-major order can.
  std::function<std::optional<OffsetView>(const View& operand, const Shape& shape, const Attrs& local)> window{};
  HalfPolicy half_policy = HalfPolicy::widen;
  bool may_fail = false;  // its kernel may throw for some values of its operands
  std::function<IndexOperand(const NodeView&)> indices{};
  bool elementwise = false;  // element i of the result depends on elements i of the operands alone
  bool commutative = false;  // of two operands: swapped they give the same
  bool associative =
      false;  // a (b c) may be computed as (a b) c where that shares work, see docs/decisions/canonical-sums.md
  bool overflows_regrouped = false;      // but other pairs may over- or underflow where the program's do not: only with
                                         // CompileOptions::reassociate
  std::string call_name{};               // the call that runs it, if it is not named like the op
  std::optional<int> shared_operands{};  // of an update whose kernels take many parameters in one call: its last
                                         // operands that are the same for all
};

class OpTable {
 public:
  OpTable() = default;
  explicit OpTable(std::vector<OpDef> rows);     // repeated names are errors
  const OpDef& at(std::string_view name) const;  // unknown: an error with near names
  const OpDef* find(std::string_view name) const;
  std::vector<const OpDef*> rows() const;

 private:
  std::map<std::string, OpDef, std::less<>> rows_;  // stable addresses: nodes point at rows
};

Signature signature_of(const NodeView& node);
// All legal shardings of a node on one mesh axis of `size` devices, in a fixed order: all Broadcast first, then letters
// in order of appearance, then linear groups, then moves. A letter with a `divides` extent needs size to divide it.
std::vector<Sharding> shardings(const NodeView& node, int size);
// All legal ways over all axes of the mesh, one Sharding per axis: the product of the above less what does not nest
// (see divides).
std::vector<std::vector<Sharding>> mesh_shardings(const NodeView& node, const Mesh& mesh);

Attrs localise(const LocalView& view);  // the op's hook or the default rule
Cost cost_of(const OpDef& op, std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs);

// Adds nodes to a graph: infers types, records path and source line, fails with the user's line.
class Builder {
 public:
  Builder(Graph& graph, const OpTable& ops) : graph_(&graph), ops_(&ops) {}

  // The outputs of the new node. It lies on the builder's mesh; where that is 0, which is no decision, on that of the
  // operand of most bytes among those on other meshes, if there is one (ties: where most bytes of operands are at hand,
  // those that have travelled there counted; then the first). Operands on yet other meshes are transferred; one on mesh
  // 0 stays where it is until the program is whole, see karez/passes/logical/place.h.
  std::vector<ValueId> add(std::string_view op, std::span<const ValueId> inputs, Attrs attrs = {});
  ValueId one(std::string_view op, std::initializer_list<ValueId> inputs,
              Attrs attrs = {});  // of a node with one output
  ValueId transfer_to_mesh(
      ValueId value,
      int mesh);  // the value itself if it lies there, else what a transfer brings; each value travels once

  Graph& graph() { return *graph_; }
  const OpTable& ops() const { return *ops_; }
  const TensorType& type(ValueId id) const { return graph_->type(id); }

  std::string path;  // stamped on every new node
  std::string where;
  int mesh = 0;  // where the user wants new nodes; 0: wherever their operands or, in the end, their readers lie

 private:
  int placement_of(const OpDef& op, std::span<const ValueId> inputs) const;
  ValueId find_transferred(
      ValueId value,
      int target) const;  // what transfer_to_mesh brought there; invalid: nothing, or it was dropped since
  Graph* graph_;
  const OpTable* ops_;
  std::map<std::pair<ValueId, int>, ValueId>
      transferred_;  // by value and mesh; a hint: nodes may have been dropped since
};

}  // namespace karez::graph

// compile: turns a function of tensors into a function of arrays that runs on a mesh, traced and planned once for each
// signature of argument types.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "karez/api/array.h"
#include "karez/api/functions.h"
#include "karez/api/loss_scale.h"
#include "karez/api/world.h"
#include "karez/plan/plan.h"

namespace karez {

class Trace;

// The placement of a part of the program: modules (and parameters) with a path that matches the glob, and all below
// them, run on a different mesh from the function's, or at one coordinate of the axis `stage` of the function's mesh.
struct PlacementRule {
  std::string module;
  std::variant<DeviceMesh, int> where;
};

// Options that, with the mesh, determine how a function is planned.
struct FunctionOptions {
  // Layouts of parameters by glob: {{"fc*.weight", P("model", nullptr)}}, {"block0", ...} for all below; a rule that
  // matches nothing is an error.
  std::vector<LayoutRule> rules = {};
  // Placements by module path: {{"block0", mesh_a}, {"block1", mesh_b}}, or {{"block0", 0}, {"block1", 1}} on a mesh
  // with an axis `stage`. An operation that no rule matches is placed with its operand of most bytes (ties: the first),
  // a gradient with the value it belongs to, an input or parameter where it is first read. Values that are read on
  // another placement are transferred. A rule that matches nothing and a rule that contradicts another are errors.
  std::vector<PlacementRule> placements = {};
  // Recomputation (activation checkpointing) by module path: {"block*"}. Values inside a matching module that gradients
  // need are not stored: they are computed again from the inputs of the module, bit for bit, including dropout. This
  // takes less memory (peak_bytes()) and more time. Each outermost matching module is a region: everything called in
  // the modules below it, and the functions between those calls, but not the functions before the first or after the
  // last of them. Values that leave the region are stored. A glob that matches no module is an error.
  std::vector<std::string> remat = {};
  // Mixed precision: "bf16" or "f16". Products and convolutions, including those of gradients, take operands of that
  // type and accumulate in f32. Their results, and operations that follow, keep that type in memory, except e^x,
  // logarithms, powers, sums, norms, softmax and losses, which are f32 like parameters, gradients and results. bf16
  // products use the processor's bf16 instructions if it has them; otherwise operands are widened to f32 for each
  // product, which a warning reports once. f16 is only a storage type: each product runs in f32 between casts, which
  // summary() counts. f16 scales the loss: see LossScale. An unknown name, and a program that multiplies f64, are
  // errors.
  std::string amp = {};
  LossScale loss_scale = {};
  // The batch (dimension 0 of the first argument that has dimensions, and of every argument with as many rows) is cut
  // into this many equal parts, which the step processes one after the other. Memory for the backward pass is needed
  // for one part only; gradients and losses are summed over the parts, updates happen once, and results are returned
  // whole. Losses and weights equal those of microbatches = 1 up to the order of sums, and dropout drops the same
  // elements. Only batch norm treats each part separately, as it does when gradients are accumulated over several
  // steps. Sums that depend only on inputs (such as the number of labels that count) are taken over the whole batch
  // first. Errors: a number that does not divide the batch (the message lists the nearest that do), and a body that
  // needs more of the batch than a sum (its statistics, a maximum over it, rows of different parts together); the
  // message names the op and its line.
  int microbatches = 1;
  // Numbers of arguments that have as many rows as the batch but are not part of it (a mask [t, t], positions).
  std::vector<int> unbatched = {};
  bool train = true;       // dropout is active
  bool check_nan = false;  // as WorldOptions::check_nan, for this function only
  // Allow products to be paired differently to share work; the new pairs may overflow or underflow.
  bool reassociate = false;
  std::string name = "main";
  std::vector<std::string> off = {};  // names of passes to disable
  bool keep_text = false;             // keep the text of each pass's output
  int keep = 16;  // number of signatures kept; the least recently called one is dropped first, and compiled again if it
                  // returns
};

// An argument of a compiled function: an array on its mesh (a result of another call), a host array, a number (a scalar
// tensor), or a batch of a source, which the plan itself reads. Each device reads its own part of an array on the mesh;
// its layout belongs to the signature, and the call that makes it may still be running. The bytes of a host array are
// copied before the call returns, so the caller may then overwrite them. A host array that is moved in by its only
// owner is donated and not copied. The signature also contains whether an argument comes from a source: the next batch
// is read during a launch, which needs memory for a second batch.
struct Argument {
  Feed feed;        // or
  HostArray array;  // this, or
  Array on_mesh;    // this
  bool donated = false;
  bool part = false;      // `array` is this rank's part, see `local`
  std::int64_t rows = 0;  // of the whole

  Argument(Feed batch) : feed(std::move(batch)) {}
  Argument(const HostArray& shared) : array(shared) {}
  Argument(HostArray&& moved) : array(std::move(moved)), donated(array.unique()) {}
  Argument(Array value) : on_mesh(std::move(value)) {}
  // A tensor outside of a trace: starts the computation of its array; host bytes are read in place.
  Argument(const Tensor& outside, SourceLine where);
  Argument(float value) : Argument(HostArray::of<float>({}, {value})) {}
  Argument(double value) : Argument(HostArray::of<double>({}, {value})) {}
};

// This rank's own rows of an argument: those that its devices hold if the whole is split over its rows (dimension 0)
// along the first axes of the mesh. Without `rows`, the number of rows of the whole, every rank of the mesh has as many
// rows as this one, in the order of the ranks. With `rows`, ranks may share rows (data=2,model=2: rows = twice those of
// a part) or have one more than others (5 rows on two ranks: 3 and 2). A part of another size is an error that lists
// the possible sizes. In a world of one rank the array is the whole.
//   Placements: the mesh is that of the placement on which the function reads the argument. Arrays of ranks without a
//   device of it are not read, but their shapes must still be right. Micro-batches: each takes an equal number of rows
//   of each device, one device's after the other's, so that no rows are transferred; losses, gradients and results are
//   those of the whole, results in the whole's order. Dropout drops different elements from those of the whole. Rows
//   that devices and micro-batches do not divide, and a body that depends on the position of a row in the batch, are
//   errors.
Argument local(HostArray array, std::int64_t rows = 0);

// The immediate result of a call; it keeps the call's results alive. Waiting throws the launch's error.
class Future {
 public:
  void wait() const;
  bool done() const;
  std::size_t size() const;
  Array value(std::size_t i = 0) const;  // does not wait
  // The only element of a result, as a number of type T; waits.
  template <class T = double> T item(std::size_t i = 0, SourceLine where = SourceLine::current()) const {
    const Array one = value(i);
    require(one.type().count() == 1, "output ", i, " is ", one.type(), "; item reads a single element");
    return one.item<T>(where);
  }

 private:
  friend class Function;
  struct State;
  explicit Future(std::shared_ptr<const State> running) : state_(std::move(running)) {}
  std::shared_ptr<const State> state_;
};

// During its lifetime, values that this thread's trace makes are placed on the mesh, unless a rule of the function
// (FunctionOptions::placements) places them elsewhere.
class Placed {
 public:
  explicit Placed(const DeviceMesh& mesh, SourceLine where = SourceLine::current());
  ~Placed();
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

 private:
  Trace* trace_;
  int scope_, mesh_;  // the trace's previous values
};

// During its lifetime, values that this thread's trace makes belong to this module path: placements and recomputation
// match the path, random numbers depend on it, and errors name it. The layers of nn do this themselves.
class Within {
 public:
  explicit Within(const std::string& path, SourceLine where = SourceLine::current());
  ~Within();
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  Trace* trace_;
  std::string path_;  // the trace's previous values
  int mesh_;
};

// Sets paths of parameters in the program that this thread traces, until the end of the function's body: its rules and
// placements match these paths. Other parameters use their names. A path that is already set is kept.
void set_trace_paths(const std::vector<std::pair<Parameter, std::string>>& paths);

using Body = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

namespace traced {

// Whether an argument of this type makes a call of a function part of the enclosing program.
template <class T>
inline constexpr bool is_operand =
    std::same_as<std::remove_cvref_t<T>, Tensor> || std::same_as<std::remove_cvref_t<T>, Tensors> ||
    std::same_as<std::remove_cvref_t<T>, Parameter> || std::same_as<std::remove_cvref_t<T>, Term>;

}  // namespace traced

// A report on one plan: its text, and a page with actors, transfers, memory and the predicted launch. It owns a copy of
// the plan.
class PlanPage {
 public:
  std::string text() const;  // the plan, in the format that `karez plan` reads
  std::string html() const;  // one self-contained document

 private:
  friend class Function;
  struct Content;
  explicit PlanPage(std::shared_ptr<const Content> shown) : content_(std::move(shown)) {}
  std::shared_ptr<const Content> content_;
};

// A compiled function. Copies share the compiled programs. Threads may call it concurrently; its body runs on one
// thread at a time. The body may call other compiled functions and read and write variables, but not call itself.
class Function {
 public:
  // arguments -1: any number.
  Function(DeviceMesh mesh, int arguments, Body body, FunctionOptions options, SourceLine where);

  // With arrays, numbers or batches of sources: runs the function. An argument that the body does not use still belongs
  // to the signature. With at least one tensor or parameter: inside the body of another function, inserts its body
  // there, see `inlined`; elsewhere, computes the tensors and runs the function.
  template <class... Arguments> auto operator()(Arguments&&... arguments) const {
    if constexpr ((traced::is_operand<Arguments> || ...)) {
      static_assert((std::constructible_from<Term, Arguments> && ...),
                    "a call with tensors takes tensors, parameters, arrays and numbers, but no source");
      return inlined({Term(std::forward<Arguments>(arguments))...});
    } else {
      return call({Argument(std::forward<Arguments>(arguments))...});
    }
  }
  Future call(std::vector<Argument> arguments) const;

  // Plans for host arrays of these types without a launch: the functions below then report on that plan, and a call
  // with such arguments runs it. If another function has since stored a variable in another layout, the call plans
  // again. A call with sources, or with arrays on the mesh, has a separate plan.
  void compile(const std::vector<TensorType>& types) const;

  // Inserts the body into the program that is being traced, on the same mesh; without a trace, calls the function.
  // FunctionOptions::train applies to the body as in a separate call. Its rules apply to the parameters that it reads
  // and must agree with those of the enclosing function; its `remat` applies to the whole program; passes are those of
  // the enclosing function.
  Tensors inlined(std::vector<Term> operands) const;

  // A function with another body and other arguments that are not part of the batch (FunctionOptions::unbatched),
  // otherwise equal. The two share their plans: a program that both trace is planned once.
  Function with_body(Body body, std::vector<int> unbatched = {}) const;

  // About the latest signature, called or only planned; an error before the first.
  const graph::Graph& graph() const;  // as traced
  std::string graph_text() const { return print(graph()); }
  const plan::Plan& plan() const;
  std::string plan_text() const { return print(plan()); }
  // A readable page: actors, registers, transfers, memory, and the cycle of waits that limits the launch rate.
  std::string summary() const;
  PlanPage page() const;  // the same as a document, with a timeline and a memory map
  // Bytes that a launch needs, including its variables, on the device that needs most.
  std::int64_t peak_bytes() const;
  // Seconds of a launch, as summary(), the page and `karez simulate` report them: from the costs stored in the plan.
  double predicted_seconds() const;
  // Seconds of calls and transfers one after the other, the sum by which layouts are chosen; see shard_report().
  double layout_seconds() const;
  const std::string& shard_report() const;      // "optimal" or a gap
  const std::vector<PassTime>& passes() const;  // seconds of each, and its text if kept
  int signatures() const;                       // number of signatures kept
  // A page with the predicted time of a launch for each other layout of a value, all other layouts chosen again, and
  // the operations that would take longer. The value is a parameter, an input ("arg0"), an output ("out0") or a module
  // ("fc1", for the result of its last op; "fc1.grad"). An unknown name is an error that suggests similar names. Plans
  // once for each layout, which takes time.
  std::string explain(const std::string& value) const;

 private:
  struct State;
  struct Plans;
  struct CompiledProgram;
  struct ArgumentSignature;
  static ArgumentSignature argument_signature(const State& state, Argument& argument, std::size_t number);
  static std::int64_t batch_of(const FunctionOptions& options, const std::vector<ArgumentSignature>& signature);
  static void plan_for(State& state, const std::vector<ArgumentSignature>& signature);
  static bool same_program(const CompiledProgram& compiled, const Trace& trace);
  static std::shared_ptr<CompiledProgram> compile_traced(State& state, const std::vector<ArgumentSignature>& signature,
                                                         Trace& trace);
  static bool load(State& state, CompiledProgram& compiled);
  static std::optional<Future> launch_compiled(State& state, const std::vector<ArgumentSignature>& signature,
                                               const std::vector<Argument>& arguments);
  static Future launch(State& state, const CompiledProgram& compiled, const std::vector<Argument>& arguments);
  static Future launch_with_op(State& state, const CompiledProgram& compiled, const std::vector<Argument>& arguments,
                               std::uint64_t op);
  static std::uint64_t begin_call(State& state, const CompiledProgram& compiled,
                                  const std::vector<Argument>& arguments);
  const CompiledProgram& latest() const;
  std::shared_ptr<State> state_;
};

namespace traced {

// The possible results of a user's function, as a list.
inline std::vector<Tensor> list(Tensor tensor) { return {std::move(tensor)}; }
inline std::vector<Tensor> list(std::vector<Tensor> tensors) { return tensors; }
inline std::vector<Tensor> list(Tensors tensors) { return std::move(tensors.list); }
template <class... Tensors> std::vector<Tensor> list(std::tuple<Tensors...> tensors) {
  return std::apply([](auto&&... each) { return std::vector<Tensor>{std::move(each)...}; }, std::move(tensors));
}
inline std::vector<Tensor> list(std::pair<Tensor, Tensor> tensors) {
  return {std::move(tensors.first), std::move(tensors.second)};
}

// Calls a function with the traced inputs: one parameter each, or one vector of all.
template <class Call> struct Caller : Caller<decltype(&Call::operator())> {};
template <class Result, class Object, class... Inputs> struct Caller<Result (Object::*)(Inputs...)> {
  static constexpr int arguments = sizeof...(Inputs);
  template <class F, std::size_t... I>
  static Result run(F& f, [[maybe_unused]] std::span<const Tensor> in, std::index_sequence<I...>) {
    return f(in[I]...);
  }
  template <class F> static Result run(F& f, std::span<const Tensor> in) {
    return run(f, in, std::index_sequence_for<Inputs...>());
  }
};
// The caller of a callable that takes any number of tensors.
template <class Result, class Object> struct Caller<Result (Object::*)(std::vector<Tensor>)> {
  static constexpr int arguments = -1;
  template <class F> static Result run(F& f, std::span<const Tensor> in) {
    return f(std::vector<Tensor>(in.begin(), in.end()));
  }
};
// Of a const callable.
template <class Result, class Object, class... Inputs>
struct Caller<Result (Object::*)(Inputs...) const> : Caller<Result (Object::*)(Inputs...)> {};

}  // namespace traced

// f takes Tensors (or one std::vector<Tensor>) and returns a Tensor, a pair, tuple or vector of them, or nothing.
template <class F>
Function compile(const DeviceMesh& mesh, F f, FunctionOptions options = {}, SourceLine where = SourceLine::current()) {
  using Call = traced::Caller<F>;
  Body body = [f = std::move(f)](std::span<const Tensor> inputs) mutable -> std::vector<Tensor> {
    if constexpr (std::is_void_v<decltype(Call::run(f, inputs))>) {
      Call::run(f, inputs);
      return {};
    } else {
      return traced::list(Call::run(f, inputs));
    }
  };
  return Function(mesh, Call::arguments, std::move(body), std::move(options), where);
}

}  // namespace karez

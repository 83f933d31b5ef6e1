// compile: from a function of tensors to a function of arrays that runs on a mesh. Traced and planned once for each
// signature of types.
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

// Where a part of the program lies: the modules (and parameters) whose path the glob matches, with all below them, on a
// mesh of their own, or on one coordinate of the axis `stage` of the function's mesh.
struct PlacementRule {
  std::string module;
  std::variant<DeviceMesh, int> where;
};

// How a function is planned, beside its mesh.
struct FunctionOptions {
  std::vector<LayoutRule> rules = {};  // parameters' layouts by glob: {{"fc*.weight", P("model", nullptr)}}, {"block0",
                                       // ...} for all below; one that matches nothing is an error
  // Placements by module path: {{"block0", mesh_a}, {"block1", mesh_b}}, or {{"block0", 0}, {"block1", 1}} on a mesh
  // with an axis `stage`. What no rule matches lies with its operand of most bytes (ties: the first), gradients where
  // what they are of lies, an input and a parameter where they are read first; values that are read on another
  // placement travel. A rule that matches nothing and one that contradicts another are errors.
  std::vector<PlacementRule> placements = {};
  // Recomputation (activation checkpointing) by module path: {"block*"}. What gradients read of a matching module's
  // values is not held until they come: it is computed again from what went into the module, bit for bit, dropout
  // included. Less memory (peak_bytes()), more time. Each outermost matching module is a region: all that is called in
  // modules below it, and the functions between those calls; functions before the first and behind the last of them are
  // not. What the region hands to others is held. A glob that matches no module is an error.
  std::vector<std::string> remat = {};
  // Mixed precision: "bf16" or "f16". Products and convolutions, of gradients too, take operands of that type and add
  // up in f32; what their results go through stays in it, as memory holds it, but e^x, logarithms, powers, sums, norms,
  // softmax and losses, which are of f32 like parameters, gradients and results. bf16 multiplies where the processor
  // does, else in f32 from operands widened for each product, which a warning says once; f16 only stores: each product
  // is one of f32 between casts, which summary() counts. f16 scales the loss: see LossScale. An unknown word, and a
  // program that multiplies f64, are errors.
  std::string amp = {};
  LossScale loss_scale = {};
  // The batch (dimension 0 of the first argument that has dimensions, and of every argument with as many rows) is cut
  // into so many equal parts, and the step works on one after the other: what it keeps for the backward pass is that of
  // one part, gradients and losses are summed over them, updates happen once, results come back whole. Losses and
  // weights are those of 1, up to the order of sums; dropout drops the same elements. Batch norm alone works on each
  // part by itself, as where gradients are accumulated over several steps. Sums of inputs alone (how many labels count)
  // are made over the whole batch first. Errors: a number that does not divide the batch (with the nearest that do),
  // and a body that needs more of the batch than a sum (its statistics, a maximum over it, rows of different parts
  // together): with the op and its line.
  int microbatches = 1;
  std::vector<int> unbatched =
      {};  // numbers of arguments that have as many rows as the batch and are no part of it (a mask [t, t], positions)
  bool train = true;         // dropout acts
  bool check_nan = false;    // as WorldOptions::check_nan, of this function alone
  bool reassociate = false;  // products too may be paired otherwise where that shares work, which may over- or
                             // underflow where the body did not
  std::string name = "main";
  std::vector<std::string> off = {};  // passes switched off by name
  bool keep_text = false;             // keep what each pass made
  int keep = 16;  // signatures kept; beyond them the one that was not called for longest goes, and is compiled anew
                  // when it comes back
};

// What a compiled function is called with: an array on its mesh (what another call returned), an array of the host, a
// number (a scalar tensor), or a batch of a source, whose bytes then flow inside the plan. Of an array on the mesh each
// device reads its own part, and the layout belongs to the signature; the call that makes it may still be under way. A
// host array's bytes are copied before the call returns, so the caller may write them at once. One that is moved in by
// its only holder is given away and not copied. Whether a source feeds an argument belongs to the signature too: its
// next batch is read while a launch computes, which takes the batch's bytes a second time.
struct Argument {
  Feed feed;        // or
  HostArray array;  // this, or
  Array on_mesh;    // this
  bool donated = false;
  bool part = false;      // `array` is what this rank has, see `local`;
  std::int64_t rows = 0;  // the whole has so many

  Argument(Feed batch) : feed(std::move(batch)) {}
  Argument(const HostArray& shared) : array(shared) {}
  Argument(HostArray&& moved) : array(std::move(moved)), donated(array.unique()) {}
  Argument(Array value) : on_mesh(std::move(value)) {}
  Argument(const Tensor& outside,
           SourceLine where);  // of a trace: its array, begun to be computed; host bytes are read where they lie
  Argument(float value) : Argument(HostArray::of<float>({}, {value})) {}
  Argument(double value) : Argument(HostArray::of<double>({}, {value})) {}
};

// Of an argument this rank's own rows: those that its devices hold where the whole lies split over its rows (dimension
// 0) along the first axes of the mesh. Without `rows`, the number that the whole has, every rank of the mesh has as
// many as this one, and they follow each other by rank; with it ranks may share rows (data=2,model=2: rows = twice
// those of a part) or have one more than others (5 rows on two ranks: 3 and 2). A part of another size is an error that
// says which sizes it may have. In a world of one rank it is the whole.
//   Placements: the mesh is that of the placement where the function reads the argument; what ranks without a device of
//   it give is not read. It counts for every rank's shape all the same. Micro-batches: each takes an equal number of
//   rows of each device, one device's after the other's, so that nothing travels; losses, gradients and results are
//   those of the whole, results in the whole's order. Other elements drop out than of the whole. Rows that devices and
//   micro-batches do not divide, and a body that depends on where a row stands in the batch, are errors.
Argument local(HostArray array, std::int64_t rows = 0);

// What a call returns at once: its results, which it holds as long as it lives. Waiting throws what went wrong in the
// launch.
class Future {
 public:
  void wait() const;
  bool done() const;
  std::size_t size() const;
  Array value(std::size_t i = 0) const;  // waits for nothing
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

// While it lives, what this thread's trace makes lies on the mesh, as far as no rule of the function
// (FunctionOptions::placements) says otherwise.
class Placed {
 public:
  explicit Placed(const DeviceMesh& mesh, SourceLine where = SourceLine::current());
  ~Placed();
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

 private:
  Trace* trace_;
  int scope_, mesh_;  // of the trace before
};

// While it lives, what this thread's trace makes stands under this module's path: placements and recomputation know it
// by that, random numbers follow it, and errors name it. nn's layers do so by themselves.
class Within {
 public:
  explicit Within(const std::string& path, SourceLine where = SourceLine::current());
  ~Within();
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  Trace* trace_;
  std::string path_;  // of the trace before
  int mesh_;
};

// What parameters are called in the program that this thread traces, from here to the end of the function's body: its
// rules and placements match that. Others go by their names. A parameter that has been called something there already
// keeps it.
void set_trace_paths(const std::vector<std::pair<Parameter, std::string>>& paths);

using Body = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

namespace traced {

// What makes a call of a function part of another one's program.
template <class T>
inline constexpr bool is_operand =
    std::same_as<std::remove_cvref_t<T>, Tensor> || std::same_as<std::remove_cvref_t<T>, Tensors> ||
    std::same_as<std::remove_cvref_t<T>, Parameter> || std::same_as<std::remove_cvref_t<T>, Term>;

}  // namespace traced

// What people are shown of one plan: its text, and a page with actors, transfers, memory and the launch as predicted.
// It holds the plan.
class PlanPage {
 public:
  std::string text() const;  // the plan, as `karez plan` reads it
  std::string html() const;  // one document, which asks for nothing beyond itself

 private:
  friend class Function;
  struct Content;
  explicit PlanPage(std::shared_ptr<const Content> shown) : content_(std::move(shown)) {}
  std::shared_ptr<const Content> content_;
};

// A compiled function. Copies share what was compiled. Threads may call it at once; they run its body one after the
// other. The body may call other compiled functions, and read and write variables; it may not call itself.
class Function {
 public:
  Function(DeviceMesh mesh, int arguments, Body body, FunctionOptions options,
           SourceLine where);  // arguments -1: any number

  // With arrays, numbers or batches of sources: runs it. An argument that the body does not use still belongs to the
  // signature. With at least one tensor or parameter: in the body of another function writes its body there, see
  // `inlined`; outside of one runs it, and what the tensors stand for before it.
  template <class... Arguments> auto operator()(Arguments&&... arguments) const {
    if constexpr ((traced::is_operand<Arguments> || ...)) {
      static_assert((std::constructible_from<Term, Arguments> && ...),
                    "among tensors stand tensors, parameters, arrays and numbers; no source");
      return inlined({Term(std::forward<Arguments>(arguments))...});
    } else {
      return call({Argument(std::forward<Arguments>(arguments))...});
    }
  }
  Future call(std::vector<Argument> arguments) const;

  // Plans for host arrays of these types and launches nothing: what stands below tells of that plan, and a call with
  // such arguments runs it. Where another function has meanwhile stored a variable in another layout, the call plans
  // anew; a call with sources, or with arrays on the mesh, has a plan of its own.
  void compile(const std::vector<TensorType>& types) const;

  // The body as a part of the program that is being traced, on the same mesh; where none is, a call.
  // FunctionOptions::train holds in it as if it were called alone; its rules hold for the parameters that it reads, and
  // must agree with those of the function around it; its `remat` holds in the whole program; passes are those of the
  // function around it.
  Tensors inlined(std::vector<Term> operands) const;

  // A function with another body, other arguments that are no part of the batch (FunctionOptions::unbatched) and all
  // else alike. The two share their plans: where both trace the same program, it is planned once.
  Function with_body(Body body, std::vector<int> unbatched = {}) const;

  // Of the latest signature, called or only planned; an error before the first.
  const graph::Graph& graph() const;  // as traced
  std::string graph_text() const { return print(graph()); }
  const plan::Plan& plan() const;
  std::string plan_text() const { return print(plan()); }
  std::string summary()
      const;  // a page for people: actors, registers, transfers, memory, and the cycle of waits that sets the pace
  PlanPage page() const;            // the same as a document, with a timeline and a map of memory
  std::int64_t peak_bytes() const;  // that a launch takes, with its variables, on the device where it takes most
  double predicted_seconds()
      const;  // of a launch, as summary(), the page and `karez simulate` have it: by the costs that the plan keeps
  double layout_seconds()
      const;  // calls and transfers one after the other, the sum that layouts are chosen by; see shard_report()
  const std::string& shard_report() const;      // "optimal" or a gap
  const std::vector<PassTime>& passes() const;  // seconds of each, and text if kept
  int signatures() const;                       // how many are kept
  // A page: what a launch would take, as predicted, with each other layout of a value, everything else laid anew, and
  // what would take longer. The value is a parameter, an input ("arg0"), an output ("out0") or a module ("fc1", for
  // what its last op makes; "fc1.grad"). An unknown name is an error with those that are near. Plans once for each
  // layout, which takes its time.
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

// What a user's function may return, as a list.
inline std::vector<Tensor> list(Tensor tensor) { return {std::move(tensor)}; }
inline std::vector<Tensor> list(std::vector<Tensor> tensors) { return tensors; }
inline std::vector<Tensor> list(Tensors tensors) { return std::move(tensors.list); }
template <class... Tensors> std::vector<Tensor> list(std::tuple<Tensors...> tensors) {
  return std::apply([](auto&&... each) { return std::vector<Tensor>{std::move(each)...}; }, std::move(tensors));
}
inline std::vector<Tensor> list(std::pair<Tensor, Tensor> tensors) {
  return {std::move(tensors.first), std::move(tensors.second)};
}

// How a function is called with the traced inputs: one parameter each, or one vector of all.
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
template <class Result, class Object> struct Caller<Result (Object::*)(std::vector<Tensor>)> {
  static constexpr int arguments = -1;
  template <class F> static Result run(F& f, std::span<const Tensor> in) {
    return f(std::vector<Tensor>(in.begin(), in.end()));
  }
};
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

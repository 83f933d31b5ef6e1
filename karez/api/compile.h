// compile: turns a function of tensors into a function of arrays that runs on a mesh. The function is traced and
// planned once for each signature, which consists mainly of the argument types.
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
#include <vector>

#include "karez/api/argument.h"
#include "karez/api/array.h"
#include "karez/api/function_options.h"
#include "karez/api/functions.h"
#include "karez/api/future.h"
#include "karez/api/scopes.h"
#include "karez/api/world.h"
#include "karez/plan/plan.h"

namespace karez {

class Trace;
struct PlanInput;

using Body = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

namespace traced {

// True if an argument of this type makes a call of a compiled function part of the enclosing program.
template <class T>
inline constexpr bool is_operand =
    std::same_as<std::remove_cvref_t<T>, Tensor> || std::same_as<std::remove_cvref_t<T>, Tensors> ||
    std::same_as<std::remove_cvref_t<T>, Parameter> || std::same_as<std::remove_cvref_t<T>, Term>;

}  // namespace traced

// A report on one plan: the text of the plan, and a document with actors, transfers, memory and the predicted launch.
// The report owns a copy of the plan.
class PlanPage {
 public:
  std::string text() const;  // the plan, in the format that `karez plan` reads
  std::string html() const;  // one self-contained HTML document

 private:
  friend class Function;
  struct Content;
  explicit PlanPage(std::shared_ptr<const Content> content) : content_(std::move(content)) {}
  std::shared_ptr<const Content> content_;
};

// A compiled function. Copies share the compiled programs. Threads may call a function concurrently; its body runs on
// one thread at a time. The body may call other compiled functions and read and write variables, but must not call its
// own function.
class Function {
 public:
  // `arguments` is the number of arguments; -1 means any number.
  Function(DeviceMesh mesh, int arguments, Body body, FunctionOptions options, SourceLine where);

  // If all arguments are arrays, numbers or batches of sources, runs the function. An argument that the body does not
  // use still belongs to the signature. If at least one argument is a tensor or parameter, the effect depends on where
  // the call is made. In the body of another function, the call inserts the body of this function there (see
  // `inlined`). Outside of any body, the call computes the tensors and runs the function.
  template <class... Arguments> auto operator()(Arguments&&... arguments) const {
    if constexpr ((traced::is_operand<Arguments> || ...)) {
      static_assert((std::constructible_from<Term, Arguments> && ...),
                    "a call with a tensor or parameter takes tensors, parameters, arrays and numbers, but no source");
      return inlined({Term(std::forward<Arguments>(arguments))...});
    } else {
      return call({Argument(std::forward<Arguments>(arguments))...});
    }
  }
  Future call(std::vector<Argument> arguments) const;

  // Makes a plan for host arrays of these types without a launch. The functions below then report on this plan, and a
  // call with such arguments runs it. If another function has since stored a variable in a different layout, the call
  // makes a new plan. A call with sources or with arrays on the mesh uses a separate plan.
  void compile(const std::vector<TensorType>& types) const;

  // Inserts the body into the program that is being traced, which must have the same mesh; without a trace, calls the
  // function. FunctionOptions::train applies to the body as in a separate call. This function's rules apply to the
  // parameters that the body reads and must agree with those of the enclosing function. Its `remat` applies to the
  // complete program. The enclosing function determines which passes run.
  Tensors inlined(std::vector<Term> operands) const;

  // Returns a function with the given body and the given FunctionOptions::unbatched; all other options are those of
  // this function. The two functions share their plans: a program that both trace is planned once.
  Function with_body(Body body, std::vector<int> unbatched = {}) const;

  // The functions below report on the latest signature that was called or planned; they throw if there is none.
  const graph::Graph& graph() const;  // as traced
  std::string graph_text() const { return print(graph()); }
  const plan::Plan& plan() const;
  std::string plan_text() const { return print(plan()); }
  // A readable report: actors, registers, transfers, memory, and the cycle of waits that limits the launch rate.
  std::string summary() const;
  PlanPage page() const;  // the same report as a document, with a timeline and a memory map
  // The number of bytes that a launch needs, including its variables, on the device with the highest need.
  std::int64_t peak_bytes() const;
  // The predicted duration of a launch, computed from the costs stored in the plan, as in summary(), the HTML page and
  // `karez simulate`.
  double predicted_seconds() const;
  // The sum of the predicted seconds of all calls and transfers. The choice of layouts minimises this sum; see
  // shard_report().
  double layout_seconds() const;
  const std::string& shard_report() const;      // "optimal" or the gap to the lower bound
  const std::vector<PassTime>& passes() const;  // the seconds of each pass, and its text if texts are kept
  int signatures() const;                       // the number of signatures that are kept
  // Reports what would happen if a value had a different layout. For each other layout of the value, all remaining
  // layouts are chosen again; the report gives the predicted time of a launch and the operations that would take
  // longer. The value is a parameter, an input ("arg0"), an output ("out0") or a module ("fc1", for the result of its
  // last op; "fc1.grad"). An unknown name is an error that suggests similar names. This takes time, because it makes a
  // plan for each layout.
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
  static std::vector<PlanInput> plan_inputs(const CompiledProgram& compiled, const std::vector<std::string>& names);
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

// Converts the result of a user's function to a list.
inline std::vector<Tensor> list(Tensor tensor) { return {std::move(tensor)}; }
inline std::vector<Tensor> list(std::vector<Tensor> tensors) { return tensors; }
inline std::vector<Tensor> list(Tensors tensors) { return std::move(tensors.list); }
template <class... Tensors> std::vector<Tensor> list(std::tuple<Tensors...> tensors) {
  return std::apply([](auto&&... tensor) { return std::vector<Tensor>{std::move(tensor)...}; }, std::move(tensors));
}
inline std::vector<Tensor> list(std::pair<Tensor, Tensor> tensors) {
  return {std::move(tensors.first), std::move(tensors.second)};
}

// Calls a function with the traced inputs: with one argument for each input, or with one vector of all inputs.
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
// For a callable that takes any number of tensors.
template <class Result, class Object> struct Caller<Result (Object::*)(std::vector<Tensor>)> {
  static constexpr int arguments = -1;
  template <class F> static Result run(F& f, std::span<const Tensor> in) {
    return f(std::vector<Tensor>(in.begin(), in.end()));
  }
};
// For a const callable.
template <class Result, class Object, class... Inputs>
struct Caller<Result (Object::*)(Inputs...) const> : Caller<Result (Object::*)(Inputs...)> {};

}  // namespace traced

// Compiles f. f takes Tensors, or one std::vector<Tensor>, and returns a Tensor, a pair, tuple or vector of Tensors, or
// nothing.
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

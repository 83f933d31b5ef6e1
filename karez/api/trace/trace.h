// A trace: the graph that a user's function is writing while it runs, and what the function joined to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/api/loss_scale.h"
#include "karez/api/tensor.h"
#include "karez/ops/build.h"

namespace karez {

std::uint64_t next_trace_number();

// A number that the host may change between launches (a learning rate): an input of the graph, read anew for each
// launch.
struct HostScalar {
  std::string name;
  DType dtype = DType::f32;
  std::function<double()> value;
  const void* owner = nullptr;
  ValueId id;
};

// How many sites a thread has assigned to variables, and how many of its worlds are alive. When the last of them ends,
// sites count from 0 again.
struct Sites {
  std::atomic<std::int64_t> next = 0;
  std::atomic<int> worlds = 0;
  std::mutex mutex;
  std::map<std::string, int> made;  // parameters by site, guarded by the mutex: a world may end on another thread
  void restart();
};
class SitesReference {
 public:
  SitesReference();
  ~SitesReference();
  SitesReference(const SitesReference&) = delete;
  SitesReference& operator=(const SitesReference&) = delete;

 private:
  std::shared_ptr<Sites> sites_;
};

// The name under which a program or a session holds a parameter: its own, or "w#1" for the second of those called w. No
// parameter's name has '#'.
std::string key_of(const std::string& name, int ordinal);

// The state of random numbers, i64[2] = (seed, step): a variable of every world whose functions draw some.
Parameter random_counter();

// i64[2] = (seed, 0), and what a variable begins with, in a program that makes it.
ValueId first_random_state(Builder& b, std::uint64_t seed);
ValueId first_value(Builder& b, const Parameter& parameter, ValueId random_state);

// Modules and parameters that lie on a mesh of their own.
struct TracePlacement {
  std::string module;  // a glob
  Mesh mesh;
  bool matched = false;
};

// What a dynamic loss scale is made of, one for each mesh of a world whose functions want one: f32[] that losses are
// multiplied by, i64[] good steps since it last changed. From the second mesh on they are numbered: "amp.scale.2".
struct LossScaleState {
  Parameter scale, good;
  explicit LossScaleState(std::size_t number);
};

struct TraceOptions {
  std::string name = "main";
  Mesh mesh = Mesh::of({});
  std::vector<TracePlacement> placements = {};
  std::function<std::optional<Mesh>(const Parameter&)> stored =
      {};                  // where an earlier function has put a variable, if one has
  bool train = true;       // dropout acts, and advances the counter of random numbers
  Parameter counter = {};  // of random numbers; none: one of its own
  std::optional<std::pair<LossScaleState, LossScale>> scaling = {};  // of losses
};

struct Expression;

class Trace {
 public:
  Trace(const graph::OpTable& ops, TraceOptions options);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // While one lives, its trace is the thread's current one; ends may nest.
  class Scope {
   public:
    explicit Scope(Trace& trace);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Trace* before_;
  };
  static Trace* open();     // the thread's current one, or null
  static Trace& current();  // none open: an error

  graph::Graph graph;
  Builder builder;

  // Whose graph this is where it is none of a compiled function's but what one word of the user's wrote outside of them
  // (expression.h). Operands and numbers are inputs of it then, and its values are lazy.
  Expression* expression = nullptr;
  void configure(const graph::OpTable& ops, const Mesh& mesh, const Parameter& counter);  // it has begun without

  std::uint64_t number() const { return number_; }
  const Mesh& mesh() const {
    return graph.meshes[static_cast<std::size_t>(builder.mesh)];
  }                                                       // where new variables and inputs lie
  int number_of(const Mesh& mesh);                        // of a placement in the graph; never 0, which is no decision
  std::optional<int> rule_mesh(const std::string& path);  // the placement that the rules give it, if one matches
  int place_of(const std::string& path) { return rule_mesh(path).value_or(scope); }
  int scope = 0;                    // of the innermost Placed; 0: none
  int resolve_mesh(ValueId value);  // where it lies; an undecided value goes on the mesh at hand
  bool has_placements() const { return graph.meshes.size() > 1 || !options_.placements.empty(); }
  std::vector<std::string>
      remat;  // globs of FunctionOptions::remat, also of functions whose bodies are written into this trace
  bool training() const { return options_.train; }

  Tensor input(std::string_view name, const TensorType& type);
  Tensor prefetched_input(std::string_view name, const TensorType& type);  // fed by a source that takes its time
  // An array that lies on a mesh. Where that is none of this trace's, it travels to the trace's own first: the program
  // does not follow it.
  Tensor array_input(std::string_view name, const TensorType& type, const Mesh& mesh, const Layout& layout);
  Tensor tensor(ValueId id) const;
  // The operand as a value here: a tensor of another trace is an error, a parameter is read, a number takes `dtype`.
  ValueId value(const Term& term, DType dtype);
  ValueId value(const Term& term) { return value(term, term.stands_for_number() ? dtype_of(term) : DType::f32); }
  bool contains(const Term& term) const;   // it is a tensor of this trace
  DType dtype_of(const Term& term) const;  // of a number: f32, i64 or bool

  // What parameters are called in this program, where that is not their name: rules and placements match it. Of the
  // function whose body is being written, which may be one inside of another.
  std::map<Parameter::Identity, std::string, std::owner_less<Parameter::Identity>> paths;
  std::string path_of(const Parameter& parameter) const;

  // A parameter's value: what is stored, or what this trace has updated it to. One `variable` node for each and trace.
  ValueId read(const Parameter& parameter);
  void update(const Parameter& parameter, ValueId value);
  // What grad gives for a parameter that the loss does not depend on: zeros that are no gradient to an optimiser.
  void mark_no_gradient(const Tensor& zeros) { no_gradients_.insert(zeros.id); }
  // Nor is a tensor that was never made.
  bool has_gradient(const Tensor& grad) const {
    return (grad.id.valid() || grad.lazy != nullptr) && (!owns(grad) || no_gradients_.count(grad.id) == 0);
  }
  // The version of each parameter that the loss read, the latest where it read none; one it read in two versions is an
  // error with both lines. What a read makes of a version by comparing, indexing or stop_gradient counts for nothing,
  // as for a gradient.
  std::vector<ValueId> versions_read(ValueId loss, const std::vector<Parameter>& parameters);
  // Those of which a version lies behind the value, where gradients pass; in the order of `parameters`.
  std::vector<Parameter> ancestor_parameters(ValueId value) const;
  // Versions that a gradient does not look behind: an op without gradient made them, an optimiser's.
  const std::vector<ValueId>& gradient_stops() const { return gradient_stops_; }
  // How the parameter is stored, like a rule for it alone; one that says otherwise, before or after, is an error.
  void store(const Parameter& parameter, const Layout& layout);
  // The value of a number that changes between launches. `owner` tells two of one name apart: the second is called
  // "sgd.lr#1".
  ValueId host_scalar(const std::string& name, DType dtype, const void* owner, std::function<double()> value);
  // The state of random numbers, i64[2] = (seed, step); reading it makes this function advance the step when it is
  // done.
  ValueId random_state();
  // With a loss scale gradients are taken of the loss times it. What is not finite among them stops the updates behind
  // them.
  bool scales_losses() const { return options_.scaling.has_value() && expression == nullptr; }
  ValueId loss_scale();
  ValueId unscale(ValueId gradient);  // looked through for what is not finite
  // Whether an optimiser's update is applied, bool[]: all gradients until here are finite. None without a loss scale.
  ValueId update_condition();
  // An optimiser's update, where it is applied; of a node that does not ask itself. No gradient looks behind it.
  void step(const Parameter& parameter, ValueId next);
  std::int64_t site();  // of the next random node: module path plus ordinal

  // Another function's body, written into this trace: dropout acts in it if `train` says so, and its placements hold in
  // it beside those around it. Returns which variables it read or updated.
  std::vector<std::size_t> inlined(bool train, const std::vector<TracePlacement>& placements,
                                   const std::function<void()>& body);

  // A part of the program as a region: what `body` writes and makes of its arguments. What it reads of outside becomes
  // arguments behind them, which `captured` lists; inputs and variables that it joins stay outside. It may not update
  // variables. What it made exists inside of it alone.
  struct Region {
    graph::Graph graph;
    std::vector<ValueId> captured;
  };
  Region region(const std::string& name, const std::vector<TensorType>& arguments,
                const std::function<std::vector<ValueId>(std::span<const ValueId>)>& body);

  // Names the outputs "out0", "out1", ..., those of with_layout in their layouts, and advances the random state if it
  // was used.
  void finish(const std::vector<Tensor>& outputs);

  const std::vector<Parameter>& parameters() const { return parameters_; }  // in the order of Graph::variables
  const std::vector<HostScalar>& host_scalars() const { return host_scalars_; }

 private:
  void require_matched(std::size_t first) const;  // of the placements, from number `first` on

  void adjust_scale();

  bool owns(const Tensor& tensor) const;

  TraceOptions options_;
  std::uint64_t number_;                  // of the innermost region that is being written, if one is
  std::vector<std::uint64_t> enclosing_;  // numbers outside of it
  std::vector<Parameter> parameters_;
  struct Version {
    ValueId value;
    bool read = false;
  };
  std::size_t join(const Parameter& parameter);  // its index; the first time a node and a variable for it

  std::vector<std::vector<Version>> versions_;  // by parameter, oldest first
  std::vector<ValueId> gradient_stops_;
  std::set<ValueId> no_gradients_;
  std::vector<std::size_t> accessed_;  // parameters, as they were read and updated
  std::vector<HostScalar> host_scalars_;
  ValueId non_finite_;  // f32[]: 0 where all gradients until here are finite, else 1; none: no gradient was taken
  std::map<std::string, int> random_nodes_;  // by module path
};

std::string print(const SourceLine& line);  // "net.cc:12"

// Outside of a trace: what a word of the user's writes meanwhile is an expression of its own. Inside of one it is
// nothing.
class ExpressionScope {
 public:
  ExpressionScope();
  ~ExpressionScope();
  ExpressionScope(const ExpressionScope&) = delete;
  ExpressionScope& operator=(const ExpressionScope&) = delete;
  void finish(const SourceLine& where) const;  // the word has returned; what cannot wait is run

 private:
  std::shared_ptr<Expression> expression_;
  std::optional<Trace::Scope> scope_;
};

// Runs body(trace) with new nodes stamped with the user's line; an error that does not name a line gets it.
template <class Body> auto at_line(const SourceLine& where, Body&& body);
// The same under a module's path.
template <class Body> auto at_line(const SourceLine& where, const std::string& path, Body&& body);

// Sets a string or a number for as long as it lives.
template <class T> class ScopedValue {
 public:
  ScopedValue(T& place, T now) : place_(place), before_(std::exchange(place, std::move(now))) {}
  ~ScopedValue() { place_ = std::move(before_); }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  T& place_;
  T before_;
};

template <class Body> auto at_line(const SourceLine& where, Body&& body) {
  const ExpressionScope own;
  Trace* trace = nullptr;
  std::string line = print(where);
  try {
    trace = &Trace::current();
    ScopedValue stamp(trace->builder.where, line);
    auto result = body(*trace);
    own.finish(where);
    return result;
  } catch (const Error& error) {
    std::string_view text = error.what();
    if (text.find(line) != text.npos) throw;
    const std::string path = trace == nullptr ? "" : trace->builder.path;
    throw Error(error.kind, cat(text, "\n  at ", line, path.empty() ? "" : cat(" (in ", path, ")")), line);
  }
}

template <class Body> auto at_line(const SourceLine& where, const std::string& path, Body&& body) {
  return at_line(where, [&](Trace& trace) {
    ScopedValue stamp(trace.builder.path, path);
    ScopedValue placed(trace.builder.mesh, trace.place_of(path));
    return at_line(where, body);  // inside of the path, so that an error names it
  });
}

}  // namespace karez

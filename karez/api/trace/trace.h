// A trace: the graph that a user's function writes while it runs, and the parameters and numbers it uses.
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

// A number that the host may change between launches (a learning rate): an input of the graph, read again for each
// launch.
struct HostScalar {
  std::string name;
  DType dtype = DType::f32;
  std::function<double()> value;
  const void* owner = nullptr;
  ValueId id;
};

// The number of sites that a thread has assigned to variables, and of its worlds that exist. When the last of these
// ends, sites count from 0 again.
struct Sites {
  std::atomic<std::int64_t> next = 0;
  std::atomic<int> worlds = 0;
  std::mutex mutex;
  // Number of parameters by site, guarded by the mutex: a world may end on another thread.
  std::map<std::string, int> made;
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

// The name of a parameter in a program or session: its own, or "w#1" for the second of those named w. No parameter's
// own name contains '#'.
std::string key_of(const std::string& name, int ordinal);

// The state of random numbers, i64[2] = (seed, step): a variable of every world with a function that draws random
// numbers.
Parameter random_counter();

// i64[2] = (seed, 0), and the first value of a variable, in a program that creates variables.
ValueId first_random_state(Builder& b, std::uint64_t seed);
ValueId first_value(Builder& b, const Parameter& parameter, ValueId random_state);

// Modules and parameters that are placed on a mesh of their own.
struct TracePlacement {
  std::string module;  // a glob
  Mesh mesh;
  bool matched = false;
};

// The variables of a dynamic loss scale, one pair for each mesh of a world with a function that scales losses: the
// factor f32[] of losses, and the number i64[] of good steps since it last changed. From the second mesh on they are
// numbered: "amp.scale.2".
struct LossScaleState {
  Parameter scale, good;
  explicit LossScaleState(std::size_t number);
};

struct TraceOptions {
  std::string name = "main";
  Mesh mesh = Mesh::of({});
  std::vector<TracePlacement> placements = {};
  // The mesh of a variable that an earlier function has stored.
  std::function<std::optional<Mesh>(const Parameter&)> stored = {};
  bool train = true;       // dropout is active, and advances the counter of random numbers
  Parameter counter = {};  // of random numbers; none: a new one
  std::optional<std::pair<LossScaleState, LossScale>> scaling = {};  // of losses
};

struct Expression;

class Trace {
 public:
  Trace(const graph::OpTable& ops, TraceOptions options);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // During its lifetime, its trace is the thread's current one; scopes nest.
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
  static Trace& current();  // an error if none is open

  graph::Graph graph;
  Builder builder;

  // The expression that owns this graph, if an API function outside of compiled functions writes it (expression.h).
  // Operands and numbers are then inputs of the graph, and its values are lazy.
  Expression* expression = nullptr;
  // For a trace that began without them.
  void configure(const graph::OpTable& ops, const Mesh& mesh, const Parameter& counter);

  std::uint64_t number() const { return number_; }
  // The mesh of new variables and inputs.
  const Mesh& mesh() const { return graph.meshes[static_cast<std::size_t>(builder.mesh)]; }
  int number_of(const Mesh& mesh);                        // of a placement in the graph; never 0, which means undecided
  std::optional<int> rule_mesh(const std::string& path);  // the placement from the rules, if one matches
  int place_of(const std::string& path) { return rule_mesh(path).value_or(scope); }
  int scope = 0;                    // of the innermost Placed; 0: none
  int resolve_mesh(ValueId value);  // its mesh; an undecided value is assigned to the current mesh
  bool has_placements() const { return graph.meshes.size() > 1 || !options_.placements.empty(); }
  // Globs of FunctionOptions::remat, including those of functions with bodies inlined into this trace.
  std::vector<std::string> remat;
  bool training() const { return options_.train; }

  Tensor input(std::string_view name, const TensorType& type);
  Tensor prefetched_input(std::string_view name, const TensorType& type);  // read from a source that may be slow
  // An array on a mesh. If that is not a mesh of this trace, it is transferred to the trace's own mesh first.
  Tensor array_input(std::string_view name, const TensorType& type, const Mesh& mesh, const Layout& layout);
  Tensor tensor(ValueId id) const;
  // The operand as a value of this trace: a tensor of another trace is an error, a parameter is read, a number takes
  // `dtype`.
  ValueId value(const Term& term, DType dtype);
  ValueId value(const Term& term) { return value(term, term.stands_for_number() ? dtype_of(term) : DType::f32); }
  bool contains(const Term& term) const;   // whether it is a tensor of this trace
  DType dtype_of(const Term& term) const;  // for a number: f32, i64 or bool

  // The paths of parameters in this program if they differ from their names: rules and placements match them. They
  // belong to the function that is being traced, which may be an inlined one.
  std::map<Parameter::Identity, std::string, std::owner_less<Parameter::Identity>> paths;
  std::string path_of(const Parameter& parameter) const;

  // A parameter's value: the stored one, or the latest update of this trace. One `variable` node for each parameter and
  // trace.
  ValueId read(const Parameter& parameter);
  void update(const Parameter& parameter, ValueId value);
  // Marks the result of grad for a parameter that the loss does not depend on: optimisers do not treat these zeros as a
  // gradient.
  void mark_no_gradient(const Tensor& zeros) { no_gradients_.insert(zeros.id); }
  // False for an uninitialised tensor, too.
  bool has_gradient(const Tensor& grad) const {
    return (grad.id.valid() || grad.lazy != nullptr) && (!owns(grad) || no_gradients_.count(grad.id) == 0);
  }
  // The version of each parameter that the loss read, or the latest if it read none; two versions are an error with
  // both lines. As for gradients, values derived from a version by comparison, indexing or stop_gradient do not count
  // as reads.
  std::vector<ValueId> versions_read(ValueId loss, const std::vector<Parameter>& parameters);
  // Parameters with a version that the value depends on through gradients, in the order of `parameters`.
  std::vector<Parameter> ancestor_parameters(ValueId value) const;
  // Versions at which gradients stop: an op without gradient, such as an optimiser's, made them.
  const std::vector<ValueId>& gradient_stops() const { return gradient_stops_; }
  // Fixes the parameter's stored layout, like a rule for this parameter; a different layout, before or after, is an
  // error.
  void store(const Parameter& parameter, const Layout& layout);
  // The value of a number that changes between launches. `owner` distinguishes two of one name: the second is named
  // "sgd.lr#1".
  ValueId host_scalar(const std::string& name, DType dtype, const void* owner, std::function<double()> value);
  // The state of random numbers, i64[2] = (seed, step); after a read, this function advances the step at its end.
  ValueId random_state();
  // With a loss scale, gradients are taken of the loss times the scale. A gradient that is not finite prevents the
  // updates that follow.
  bool scales_losses() const { return options_.scaling.has_value() && expression == nullptr; }
  ValueId loss_scale();
  ValueId unscale(ValueId gradient);  // also checks that it is finite
  // Whether an optimiser's update is applied, bool[]: all gradients so far are finite. None without a loss scale.
  ValueId update_condition();
  // An optimiser's update under update_condition, for a node that does not test the condition itself. Gradients stop at
  // it.
  void step(const Parameter& parameter, ValueId next);
  std::int64_t site();  // of the next random node: module path and ordinal

  // Writes another function's body into this trace: `train` sets whether dropout is active in it, and its placements
  // apply in addition to the enclosing ones. Returns the variables that it read or updated.
  std::vector<std::size_t> inlined(bool train, const std::vector<TracePlacement>& placements,
                                   const std::function<void()>& body);

  // Writes a part of the program as a region: the results that `body` computes from its arguments. Outer values that it
  // reads become additional arguments, listed in `captured`; inputs and variables that it uses stay outside. It must
  // not update variables. Its values exist only inside the region.
  struct Region {
    graph::Graph graph;
    std::vector<ValueId> captured;
  };
  Region region(const std::string& name, const std::vector<TensorType>& arguments,
                const std::function<std::vector<ValueId>(std::span<const ValueId>)>& body);

  // Names the outputs "out0", "out1", ..., with the layouts of with_layout, and advances the random state if it was
  // used.
  void finish(const std::vector<Tensor>& outputs);

  const std::vector<Parameter>& parameters() const { return parameters_; }  // in the order of Graph::variables
  const std::vector<HostScalar>& host_scalars() const { return host_scalars_; }

 private:
  void require_matched(std::size_t first) const;  // checks the placements from number `first` on

  void adjust_scale();

  bool owns(const Tensor& tensor) const;

  TraceOptions options_;
  std::uint64_t number_;                  // of the innermost region that is being written, if any
  std::vector<std::uint64_t> enclosing_;  // numbers of the regions and the trace around it
  std::vector<Parameter> parameters_;
  struct Version {
    ValueId value;
    bool read = false;
  };
  std::size_t join(const Parameter& parameter);  // its index; the first call makes a node and a variable

  std::vector<std::vector<Version>> versions_;  // by parameter, oldest first
  std::vector<ValueId> gradient_stops_;
  std::set<ValueId> no_gradients_;
  std::vector<std::size_t> accessed_;  // parameters in the order of reads and updates
  std::vector<HostScalar> host_scalars_;
  ValueId non_finite_;  // f32[]: 0 if all gradients so far are finite, otherwise 1; none if no gradient was taken
  std::map<std::string, int> random_nodes_;  // by module path
};

std::string print(const SourceLine& line);  // "net.cc:12"

// Outside of a trace: collects the nodes that one API function writes in a new expression. Inside of a trace it does
// nothing.
class ExpressionScope {
 public:
  ExpressionScope();
  ~ExpressionScope();
  ExpressionScope(const ExpressionScope&) = delete;
  ExpressionScope& operator=(const ExpressionScope&) = delete;
  // The API function has returned; runs expressions that cannot be deferred.
  void finish(const SourceLine& where) const;

 private:
  std::shared_ptr<Expression> expression_;
  std::optional<Trace::Scope> scope_;
};

// Runs body(trace) with the user's line on new nodes; an error that does not name a line gets this one.
template <class Body> auto at_line(const SourceLine& where, Body&& body);
// The same under a module's path.
template <class Body> auto at_line(const SourceLine& where, const std::string& path, Body&& body);

// Sets a variable for its lifetime.
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

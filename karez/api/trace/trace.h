// Trace: the graph that a user's function writes while it runs, and the parameters and numbers that it uses.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/api/loss_scale.h"
#include "karez/api/tensor.h"
#include "karez/api/trace/builtin_variables.h"
#include "karez/api/trace/scoped_value.h"
#include "karez/ops/build.h"
#include "karez/ops/gradient.h"

namespace karez {

std::uint64_t next_trace_number();

// A number that the host may change between launches, such as a learning rate. It is an input of the graph, and its
// value is read for each launch.
struct HostScalar {
  std::string name;
  DType dtype = DType::f32;
  std::function<double()> value;
  const void* owner = nullptr;
  ValueId id;
};

// A rule that places modules and parameters on a mesh.
struct TracePlacement {
  std::string module;  // a glob
  Mesh mesh;
  bool matched = false;  // whether a module or parameter of the trace has matched the glob
};

struct TraceOptions {
  std::string name = "main";
  Mesh mesh = Mesh::of_one_device();
  std::vector<TracePlacement> placements = {};
  // Returns the mesh of a variable that an earlier function has stored, otherwise nullopt.
  std::function<std::optional<Mesh>(const Parameter&)> stored = {};
  bool train = true;       // dropout is active, and advances the counter of random numbers
  Parameter counter = {};  // the counter of random numbers; if empty, the trace makes a new one
  std::optional<std::pair<LossScaleState, LossScale>> scaling = {};  // the loss scale, if losses are scaled
};

struct Expression;

class Trace {
 public:
  Trace(const graph::OpTable& ops, TraceOptions options);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // A scope in which `trace` is the current trace of the thread. Scopes can be nested.
  class Scope {
   public:
    explicit Scope(Trace& trace) : Scope(&trace) {}
    explicit Scope(Trace* trace);  // null: no program is traced in the scope
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Trace* enclosing_;
  };
  static Trace* open();     // the current trace of the thread, or null
  static Trace& current();  // the current trace of the thread; throws if there is none

  graph::Graph graph;
  Builder builder;

  // The expression that owns this graph if it is written by an API function outside of compiled functions
  // (expression.h); otherwise null. Operands and numbers of an expression are inputs of the graph; its values are lazy.
  Expression* expression = nullptr;
  // Sets ops, mesh and counter of a trace that was created without them.
  void configure(const graph::OpTable& ops, const Mesh& mesh, const Parameter& counter);

  std::uint64_t number() const { return number_; }
  // The mesh of new variables and inputs.
  const Mesh& mesh() const { return graph.meshes[static_cast<std::size_t>(builder.mesh)]; }
  int mesh_index(const Mesh& mesh);  // the mesh's index in the graph; never 0, which means undecided
  std::optional<int> rule_mesh(const std::string& path);  // the mesh index from the rules, if one matches
  int mesh_of_path(const std::string& path) { return rule_mesh(path).value_or(scope); }
  int scope = 0;                    // the mesh index of the innermost Placed; 0 outside of all Placed scopes
  int resolve_mesh(ValueId value);  // the value's mesh index, or the current one if it is undecided
  bool has_placements() const { return graph.meshes.size() > 1 || !options_.placements.empty(); }
  // Globs of FunctionOptions::remat, including those of functions with bodies inlined into this trace.
  std::vector<std::string> remat;
  bool training() const { return options_.train; }

  Tensor input(std::string_view name, const TensorType& type);
  Tensor prefetched_input(std::string_view name, const TensorType& type);  // read from a source that may be slow
  // Adds an array on a mesh as an input. An array on a mesh that this trace does not use is first transferred to the
  // trace's own mesh.
  Tensor array_input(std::string_view name, const TensorType& type, const Mesh& mesh, const Layout& layout);
  Tensor tensor(ValueId id) const;
  // Returns the operand as a value of this trace: a tensor of another trace is an error, a parameter is read, and a
  // number gets the type `dtype`.
  ValueId value(const Term& term, DType dtype);
  ValueId value(const Term& term) { return value(term, term.stands_for_number() ? dtype_of(term) : DType::f32); }
  bool contains(const Term& term) const;   // whether the operand is a tensor of this trace
  DType dtype_of(const Term& term) const;  // f32, i64 or bool for a number

  // Paths of parameters in this program, if they differ from the parameters' names. Rules and placements match the
  // paths. The map belongs to the function that is being traced, which may be an inlined function.
  std::map<Parameter::Identity, std::string, std::owner_less<Parameter::Identity>> paths;
  std::string path_of(const Parameter& parameter) const;

  // Returns a parameter's value: the stored value, or the latest update of this trace. Each parameter has one
  // `variable` node in a trace.
  ValueId read(const Parameter& parameter);
  void update(const Parameter& parameter, ValueId value);
  // The outputs that are gradients of parameters, by index: they get the layouts of the parameters.
  std::vector<std::pair<std::size_t, Parameter>> gradient_outputs;
  // Marks the result of grad for a parameter that the loss does not depend on: optimisers do not treat these zeros as a
  // gradient.
  void mark_no_gradient(const Tensor& zeros) { no_gradients_.insert(zeros.id); }
  // Returns false for zeros marked by mark_no_gradient and for an uninitialised tensor.
  bool has_gradient(const Tensor& grad) const {
    return (grad.id.valid() || grad.lazy != nullptr) && (!owns(grad) || no_gradients_.count(grad.id) == 0);
  }
  // Returns the version of each parameter that the loss read, or the latest version if the loss read none; two versions
  // are an error that names the source lines of both reads. As for gradients, values derived from a version by
  // comparison, indexing or stop_gradient do not count as reads.
  std::vector<ValueId> versions_read(ValueId loss, const std::vector<Parameter>& parameters);
  // Whether a gradient of `value` flows to `source`.
  bool depends_on(ValueId value, ValueId source) const;
  // Returns the parameters on which the value depends through ops that pass gradients on, in the order of `parameters`.
  std::vector<Parameter> ancestor_parameters(ValueId value) const;
  // Returns the versions at which gradients stop, because an op without a gradient (such as an optimiser's) made them.
  const std::vector<ValueId>& gradient_stops() const { return gradient_stops_; }
  // Fixes the parameter's stored layout, like a rule for this parameter; an earlier or later request for a different
  // layout is an error.
  void store(const Parameter& parameter, const Layout& layout);
  // Returns the value of a number that changes between launches. `owner` distinguishes two numbers with the same name:
  // the second is named "sgd.lr#1".
  ValueId host_scalar(const std::string& name, DType dtype, const void* owner, std::function<double()> value);
  // Returns the state of random numbers, i64[2] = (seed, step). If a function uses it, the step is advanced at the end
  // of the function.
  ValueId random_state();
  // If losses are scaled, gradients are taken of the loss times the scale. A gradient that is not finite prevents the
  // updates that follow. Losses of the body of a region are not scaled, because the update is outside of it.
  bool scales_losses() const { return options_.scaling.has_value() && expression == nullptr && enclosing_.empty(); }
  ValueId loss_scale();
  ValueId unscale(ValueId gradient);  // also checks that the gradient is finite
  // Returns a bool[] that is true if all gradients so far are finite; optimisers apply their updates only then. Returns
  // an invalid id if losses are not scaled.
  ValueId update_condition();
  // Adds an optimiser's update that depends on update_condition, for a node that does not test the condition itself.
  // Gradients stop at the new version.
  void step(const Parameter& parameter, ValueId next);
  // Functions that see and replace gradients, for all gradients of this trace.
  std::vector<ops::GradientHook> gradient_hooks;
  std::vector<ops::ValueHook> value_hooks;
  bool is_in_region() const { return !enclosing_.empty(); }
  std::int64_t site();  // the site of the next random node: a hash of module path and ordinal

  // Writes another function's body into this trace. `train` sets whether dropout is active in the body. The placements
  // apply in addition to those of the enclosing function. Returns the indices of the variables that the body read or
  // updated.
  std::vector<std::size_t> inlined(bool train, const std::vector<TracePlacement>& placements,
                                   const std::function<void()>& body);

  // Writes a part of the program as a region, which computes the results of `body` from its arguments. Outer values
  // that the body reads become additional arguments, listed in `captured`. Inputs and variables that the body uses stay
  // outside of the region. The body must not update variables. Values of the region exist only inside the region.
  struct Region {
    graph::Graph graph;
    std::vector<ValueId> captured;
  };
  Region region(const std::string& name, const std::vector<TensorType>& arguments,
                const std::function<std::vector<ValueId>(std::span<const ValueId>)>& body);

  // Names the outputs "out0", "out1", ..., sets the layouts that with_layout requested, adjusts the loss scale, and
  // advances the random state if the program used it.
  void finish(const std::vector<Tensor>& outputs);

  const std::vector<Parameter>& parameters() const { return parameters_; }  // in the order of Graph::variables
  void set_parameters(std::vector<Parameter> parameters) { parameters_ = std::move(parameters); }  // of a shared graph
  const std::vector<HostScalar>& host_scalars() const { return host_scalars_; }

 private:
  void require_matched(std::size_t first) const;  // checks that placement `first` and all later ones have matched

  void adjust_scale();

  bool owns(const Tensor& tensor) const;
  // The values to which a gradient of the value flows.
  std::span<const ValueId> differentiable_inputs(ValueId value) const;

  TraceOptions options_;
  std::uint64_t number_;                  // of the trace, or of the innermost region that is being written
  std::vector<std::uint64_t> enclosing_;  // numbers of the enclosing regions and of the trace, outermost first
  std::vector<Parameter> parameters_;
  struct Version {
    ValueId value;
    bool read = false;
  };
  std::size_t index_of(const Parameter& parameter);  // the first call for a parameter makes a node and a variable

  std::vector<std::vector<Version>> versions_;  // by parameter, oldest first
  std::vector<ValueId> gradient_stops_;
  std::set<ValueId> no_gradients_;
  std::vector<std::size_t> accessed_;  // indices of parameters in the order of reads and updates
  std::vector<HostScalar> host_scalars_;
  ValueId non_finite_;  // f32[]: 0 if all gradients so far are finite, else 1; an invalid id before the first gradient
  std::map<std::string, int> random_nodes_;  // the number of random nodes, by module path
};

// A scope for one API function. Outside of a trace, it collects the nodes that the function writes in a new expression.
// Inside of a trace, it does nothing.
class ExpressionScope {
 public:
  ExpressionScope();
  ~ExpressionScope();
  ExpressionScope(const ExpressionScope&) = delete;
  ExpressionScope& operator=(const ExpressionScope&) = delete;
  // Call when the API function has returned. Runs expressions that cannot be deferred.
  void finish(const SourceLine& where) const;

 private:
  std::shared_ptr<Expression> expression_;
  std::optional<Trace::Scope> scope_;
};

// Runs body(trace). New nodes get the user's line, and errors that do not contain the line get it appended.
template <class Body> auto at_line(const SourceLine& where, Body&& body);
// Also sets the module path of new nodes.
template <class Body> auto at_line(const SourceLine& where, const std::string& path, Body&& body);

template <class Body> auto at_line(const SourceLine& where, Body&& body) {
  const ExpressionScope expression_scope;
  Trace* trace = nullptr;
  std::string line = print(where);
  try {
    trace = &Trace::current();
    ScopedValue line_scope(trace->builder.where, line);
    auto result = body(*trace);
    expression_scope.finish(where);
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
    ScopedValue path_scope(trace.builder.path, path);
    ScopedValue mesh_scope(trace.builder.mesh, trace.mesh_of_path(path));
    return at_line(where, body);  // called with the path set, so that an error names the path
  });
}

}  // namespace karez

// A trace: joining parameters, numbers and random state to the graph that is being written.
#include "api/trace.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "api/inside.h"
#include "base/hash.h"
#include "ops/compose.h"

namespace karez {
namespace {

// The one global: which trace this thread is writing. Scope alone touches it.
thread_local Trace* current_trace = nullptr;

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

}  // namespace

std::string print(const SourceLine& line) {
  std::string_view file = line.file_name();
  return cat(file.substr(file.find_last_of('/') + 1), ":", line.line());
}

std::int64_t Tensor::size(int dimension) const {
  int d = dimension < 0 ? dimension + rank() : dimension;
  require(d >= 0 && d < rank(), "dimension ", dimension, " of a tensor of shape ", print_shape(type.shape), " does not exist");
  return type.shape[static_cast<std::size_t>(d)];
}

Parameter::Parameter(std::string name, TensorType type, Initialiser init)
    : info_(std::make_shared<Info>(Info{std::move(name), std::move(type), std::move(init)})) {
  require(!info_->name.empty(), "a parameter ", info_->type, " without a name");
  require(info_->init != nullptr, "parameter '", info_->name, "' has no initialiser");
  for (auto size : info_->type.shape) require(size >= 1, "parameter '", info_->name, "' is ", info_->type, "; its sizes must be at least 1");
  info_->type.bytes();  // sizes whose product overflows are an error
}

Initialiser constant_init(double value) {
  return [value](Builder& b, const TensorType& type, const std::string&, ValueId) { return build::constant(b, type, value); };
}

Initialiser uniform_init(double bound) {
  require(std::isfinite(bound) && bound >= 0, "uniform_init: a bound of ", bound, "; it must be a finite number and not below 0");
  return [bound](Builder& b, const TensorType& type, const std::string& name, ValueId state) {
    auto site = static_cast<std::int64_t>(hash_text(name) >> 1);  // 63 bits: sites are not negative
    ValueId unit = build::random_uniform(b, state, type, site);
    ValueId scaled = build::binary(b, "mul", unit, build::scalar(b, type.dtype, 2 * bound));
    return build::binary(b, "sub", scaled, build::scalar(b, type.dtype, bound));
  };
}

Parameter random_counter() {
  return {"rng", {DType::i64, {2}}, [](Builder&, const TensorType&, const std::string&, ValueId state) { return state; }};
}

Trace::Trace(const OpTable& ops, TraceOptions options) : builder(graph, ops), options_(std::move(options)), number_(next_number()) {
  graph.name = options_.name;
  graph.meshes = {options_.mesh};
}

Trace::Scope::Scope(Trace& trace) : before_(std::exchange(current_trace, &trace)) {}
Trace::Scope::~Scope() { current_trace = before_; }

Trace& Trace::current() {
  require(current_trace != nullptr, "no program is being traced on this thread: tensors exist inside a function given to compile");
  return *current_trace;
}

Tensor Trace::input(std::string_view name, const TensorType& type) { return tensor(build::input(builder, name, type)); }

DType Trace::dtype_of(const Term& term) const {
  struct Visit {
    DType operator()(const Tensor& t) const { return t.dtype(); }
    DType operator()(const Parameter& p) const { return p.dtype(); }
    DType operator()(bool) const { return DType::b8; }
    DType operator()(std::int64_t) const { return DType::i64; }
    DType operator()(double) const { return DType::f32; }
  };
  return std::visit(Visit{}, term.value);
}

ValueId Trace::value(const Term& term, DType dtype) {
  struct Visit {
    Trace& trace;
    DType dtype;
    ValueId operator()(const Tensor& t) const {
      require(t.id.valid(), "a tensor that was never made");
      require(t.trace == trace.number(), "a tensor ", t.type, " belongs to another trace: a compiled function computes with what it is given and ",
              "what it makes; keep a value between calls in a parameter");
      return t.id;
    }
    ValueId operator()(const Parameter& p) const { return trace.read(p); }
    ValueId operator()(bool v) const { return build::scalar(trace.builder, dtype, v ? 1 : 0); }
    ValueId operator()(std::int64_t v) const { return build::scalar(trace.builder, dtype, static_cast<double>(v)); }
    ValueId operator()(double v) const { return build::scalar(trace.builder, dtype, v); }
  };
  return std::visit(Visit{*this, dtype}, term.value);
}

ValueId Trace::read(const Parameter& parameter) {
  require(parameter != Parameter(), "a parameter that was never made");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].name() != parameter.name()) continue;
    require(parameters_[i] == parameter, "two parameters are called '", parameter.name(), "': ", parameters_[i].type(), " and ", parameter.type(),
            "; give one of their root modules a name");
    const Variable& variable = graph.variables[i];
    return variable.updated.valid() ? variable.updated : variable.read;
  }
  ValueId id = build::variable(builder, parameter.name(), parameter.type());
  graph.variables.push_back({parameter.name(), parameter.type(), builder.mesh, {}, id, {}});
  parameters_.push_back(parameter);
  return id;
}

void Trace::update(const Parameter& parameter, ValueId value) {
  read(parameter);  // an update of what nobody read begins here too
  require(graph.type(value) == parameter.type(), "parameter '", parameter.name(), "' is ", parameter.type(), "; its update is ", graph.type(value));
  for (auto& variable : graph.variables)
    if (variable.name == parameter.name()) variable.updated = value;
}

ValueId Trace::host_scalar(const std::string& name, DType dtype, const void* owner, std::function<double()> value) {
  std::string full = dtype == DType::f32 ? name : cat(name, ".", name_of(dtype));
  for (const auto& scalar : host_scalars_) {
    if (scalar.name != full) continue;
    require(scalar.owner == owner, "two optimisers use the input '", full, "'; give one of them another name");
    return scalar.id;
  }
  ValueId id = build::input(builder, full, {dtype, {}});
  host_scalars_.push_back({full, dtype, std::move(value), owner, id});
  return id;
}

ValueId Trace::random_state() { return read(options_.counter); }

std::int64_t Trace::site() {
  int ordinal = random_nodes_[builder.path]++;
  return static_cast<std::int64_t>(hash_text(cat(builder.path, "#", ordinal)) >> 1);
}

void Trace::finish(const std::vector<Tensor>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) graph.outputs.push_back({cat("out", i), value(Term(outputs[i]))});
  if (std::find(parameters_.begin(), parameters_.end(), options_.counter) == parameters_.end()) return;
  const std::int64_t one_step[2] = {0, 1};
  Swapped path(builder.path, options_.counter.name());
  ValueId advance = build::constant(builder, options_.counter.type(), std::as_bytes(std::span(one_step)));
  ValueId next = build::add(builder, random_state(), advance);
  update(options_.counter, next);
}

}  // namespace karez

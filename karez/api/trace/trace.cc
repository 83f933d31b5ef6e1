// Implements Trace: adds inputs, parameters, numbers and random state to the graph that is being written.
#include "karez/api/trace/trace.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <numeric>

#include "karez/api/state/variable_key.h"
#include "karez/api/trace/expression.h"
#include "karez/api/trace/summands.h"
#include "karez/base/glob.h"
#include "karez/base/hash.h"
#include "karez/base/suggest_names.h"
#include "karez/ops/compose.h"

namespace karez {
namespace {

// The current trace of this thread, which only Trace::Scope changes.
thread_local Trace* current_trace = nullptr;

}  // namespace

std::uint64_t next_trace_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

Trace::Trace(const OpTable& ops, TraceOptions options)
    : builder(graph, ops),
      options_(std::move(options)),
      number_(next_trace_number()) {
  graph.name = options_.name;
  graph.meshes[0] = options_.mesh;
}

Trace::Scope::Scope(Trace* trace) : enclosing_(std::exchange(current_trace, trace)) {}
Trace::Scope::~Scope() { current_trace = enclosing_; }

Trace* Trace::open() { return current_trace; }
Trace& Trace::current() {
  require(current_trace != nullptr, "no program is being traced on this thread");
  return *current_trace;
}

void Trace::configure(const OpTable& ops, const Mesh& mesh, const Parameter& counter) {
  graph.meshes[0] = mesh;
  options_.counter = counter;
  Builder new_builder(graph, ops);
  new_builder.path = builder.path;
  new_builder.where = builder.where;
  builder = std::move(new_builder);
}

Tensor Trace::tensor(ValueId id) const {
  Tensor out(id, number_, expression != nullptr ? expression->graph().type(id) : graph.type(id));
  if (expression != nullptr && enclosing_.empty()) expression->add_value(out);
  return out;
}

bool Trace::contains(const Term& term) const {
  const auto* tensor = std::get_if<Tensor>(&term.value);
  return tensor != nullptr && owns(*tensor);
}

bool Trace::owns(const Tensor& tensor) const {
  return tensor.id.valid() &&
         (tensor.trace == number_ || std::find(enclosing_.begin(), enclosing_.end(), tensor.trace) != enclosing_.end());
}

Tensor Trace::input(std::string_view name, const TensorType& type) { return tensor(build::input(builder, name, type)); }
Tensor Trace::prefetched_input(std::string_view name, const TensorType& type) {
  return tensor(build::prefetched_input(builder, name, type));
}

Tensor Trace::array_input(std::string_view name, const TensorType& type, const Mesh& mesh, const Layout& layout) {
  const bool is_own_mesh = mesh == graph.meshes[0];
  bool is_used = is_own_mesh;
  for (const TracePlacement& rule : options_.placements) is_used |= rule.mesh == mesh;
  ValueId id;
  {
    ScopedValue mesh_scope(builder.mesh, is_own_mesh && !has_placements() ? 0 : mesh_index(mesh));
    id = array_value(builder, name, type, mesh, layout);
  }
  return tensor(is_used ? id : builder.transfer_to_mesh(id, mesh_index(Mesh(graph.meshes[0]))));
}

int Trace::mesh_index(const Mesh& mesh) {
  for (std::size_t m = 1; m < graph.meshes.size(); ++m)
    if (graph.meshes[m] == mesh) return static_cast<int>(m);
  graph.meshes.push_back(mesh);
  return static_cast<int>(graph.meshes.size()) - 1;
}

std::optional<int> Trace::rule_mesh(const std::string& path) {
  const TracePlacement* match = nullptr;
  for (TracePlacement& rule : options_.placements) {
    if (path.empty() || !base::Glob(rule.module).matches(path)) continue;
    rule.matched = true;
    require(ErrorKind::device, match == nullptr || match->mesh == rule.mesh, "placements: '", path, "' is matched by '",
            match == nullptr ? "" : match->module, "' and by '", rule.module, "', which are on different devices");
    match = &rule;
  }
  if (match == nullptr) return {};
  return mesh_index(match->mesh);
}

int Trace::resolve_mesh(ValueId id) {
  const int mesh = graph.value(id).mesh;
  if (mesh != 0 || !has_placements()) return mesh;
  return builder.mesh != 0 ? builder.mesh : mesh_index(Mesh(graph.meshes[0]));
}

DType Trace::dtype_of(const Term& term) const {
  struct Visit {
    DType operator()(const Tensor& t) const { return t.dtype(); }
    DType operator()(const Parameter& p) const { return p.dtype(); }
    DType operator()(bool) const { return DType::b8; }
    DType operator()(std::int64_t) const { return DType::i64; }
    DType operator()(double) const { return DType::f32; }
  };
  const DType dtype = std::visit(Visit{}, term.value);
  return term.stands_for_number() && is_float(dtype) ? DType::f32 : dtype;
}

ValueId Trace::value(const Term& term, DType dtype) {
  struct Visit {
    Trace& trace;
    DType dtype;
    ValueId operator()(const Tensor& t) const {
      if (trace.owns(t)) return t.id;
      if (t.lazy != nullptr && trace.expression != nullptr) return trace.expression->operand(t.lazy);
      require(t.lazy == nullptr, "a tensor ", t.type,
              " from outside is not part of the program that is being traced: make it an argument of the ",
              "function, or keep it in a parameter (see 'tensors from outside' in docs/from-pytorch.md)");
      require(t.id.valid(), "an operand is an uninitialised tensor");
      require(trace.expression == nullptr, "a tensor ", t.type,
              " of a program that was traced is used outside of the program, where it has no bytes: return ",
              "it from the function, and compute with the result of a call");
      fail("a tensor ", t.type,
           " belongs to another trace: a compiled function can use only its arguments and values that it makes; keep ",
           "a value between calls in a parameter");
    }
    ValueId operator()(const Parameter& p) const { return trace.read(p); }
    ValueId operator()(bool v) const { return number(v ? 1 : 0); }
    ValueId operator()(std::int64_t v) const { return number(static_cast<double>(v)); }
    ValueId operator()(double v) const { return number(v); }
    ValueId number(double v) const {
      return trace.expression != nullptr ? trace.expression->number(dtype, v) : build::scalar(trace.builder, dtype, v);
    }
  };
  const ValueId out = std::visit(Visit{*this, dtype}, term.value);
  if (!term.stands_for_number()) return out;
  require(ErrorKind::type, term.as_number != Term::AsNumber::wide || dtype != DType::i32,
          "a number in this call does not fit i32; pass a number from ", std::numeric_limits<std::int32_t>::min(),
          " to ", std::numeric_limits<std::int32_t>::max(), ", or arrays of i64");
  return build::cast(builder, out, dtype);
}

std::string Trace::path_of(const Parameter& parameter) const {
  const auto path = paths.find(parameter.identity());
  return path == paths.end() ? parameter.name() : path->second;
}

std::size_t Trace::index_of(const Parameter& parameter) {
  require(parameter != Parameter(), "the parameter is uninitialised");
  if (expression != nullptr) expression->place_with(parameter);
  auto existing = std::find(parameters_.begin(), parameters_.end(), parameter);
  auto index = static_cast<std::size_t>(existing - parameters_.begin());
  if (existing != parameters_.end()) return index;
  const std::string path = path_of(parameter);
  int ordinal = 0;
  for (const auto& other : parameters_) ordinal += path_of(other) == path;
  std::string key = session_name(path, ordinal);
  const auto key_is_used = [&] {
    return std::any_of(graph.variables.begin(), graph.variables.end(),
                       [&](const Variable& v) { return v.name == key; });
  };
  // The key may belong to a parameter that had a different path when it was added.
  while (key_is_used()) key = session_name(path, ++ordinal);
  // The first read may be outside of the parameter's module, so the mesh follows from the parameter's path, which
  // includes that of the module.
  std::optional<int> mesh = rule_mesh(path);
  if (!mesh && has_placements() && options_.stored)
    if (auto stored = options_.stored(parameter)) mesh = mesh_index(*stored);
  ScopedValue mesh_scope(builder.mesh, mesh.value_or(builder.mesh));
  ValueId id = build::variable(builder, key, parameter.type());
  graph.variables.push_back({key, parameter.type(), builder.mesh, {}, id, {}});
  parameters_.push_back(parameter);
  versions_.push_back({{id}});
  return index;
}

ValueId Trace::read(const Parameter& parameter) {
  std::size_t index = index_of(parameter);
  accessed_.push_back(index);
  Version& latest = versions_[index].back();
  latest.read = true;
  return latest.value;
}

void Trace::update(const Parameter& parameter, ValueId value) {
  std::size_t index = index_of(parameter);  // adds a parameter that has not been read yet
  require(graph.type(value) == parameter.type(), "parameter '", parameter.name(), "' is ", parameter.type(),
          "; its update is ", graph.type(value));
  accessed_.push_back(index);
  graph.variables[index].updated = value;
  versions_[index].push_back({value});
  NodeId producer = graph.value(value).producer;
  if (producer.valid() && !graph.node(producer).op->grad && !graph.node(producer).inputs.empty())
    gradient_stops_.push_back(value);
}

void Trace::store(const Parameter& parameter, const Layout& layout) {
  Variable& variable = graph.variables[index_of(parameter)];
  if (variable.mesh == 0) variable.mesh = graph.value(variable.read).mesh = resolve_mesh(variable.read);
  const Mesh& mesh = graph.meshes[static_cast<std::size_t>(variable.mesh)];
  if (variable.stored && *variable.stored != layout)
    fail("parameter '", parameter.name(), "' is requested as ", sbp::print(variable.type, mesh, layout),
         ", but an earlier with_layout or rule stores it as ",
         variable.stored ? sbp::print(variable.type, mesh, *variable.stored) : std::string());
  variable.stored = layout;
}

ValueId Trace::host_scalar(const std::string& name, DType dtype, const void* owner, std::function<double()> value) {
  if (expression != nullptr) return expression->number(dtype, value());
  std::string base = dtype == DType::f32 ? name : cat(name, ".", name_of(dtype)), unique_name = base;
  for (int count = 1;; unique_name = cat(base, "#", count++)) {
    auto scalar = std::find_if(host_scalars_.begin(), host_scalars_.end(),
                               [&](const HostScalar& other) { return other.name == unique_name; });
    if (scalar == host_scalars_.end()) break;
    if (scalar->owner == owner) return scalar->id;
  }
  ValueId id = build::input(builder, unique_name, {dtype, {}});
  host_scalars_.push_back({unique_name, dtype, std::move(value), owner, id});
  return id;
}

std::vector<std::size_t> Trace::inlined(bool train, const std::vector<TracePlacement>& placements,
                                        const std::function<void()>& body) {
  ScopedValue train_scope(options_.train, train);
  std::size_t first = accessed_.size();
  const std::size_t rules = options_.placements.size();
  options_.placements.insert(options_.placements.end(), placements.begin(), placements.end());
  body();
  require_matched(rules);
  options_.placements.resize(rules);
  std::vector<std::size_t> out(accessed_.begin() + static_cast<std::ptrdiff_t>(first), accessed_.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

ValueId Trace::random_state() {
  if (expression != nullptr) expression->require_mesh("random numbers");
  if (options_.counter == Parameter()) options_.counter = random_counter();
  return read(options_.counter);
}

ValueId Trace::loss_scale() { return read(options_.scaling->first.scale); }

ValueId Trace::unscale(ValueId gradient) {
  Builder& b = builder;
  const TensorType type = graph.type(gradient);
  const ValueId inverse[] = {build::cast(b, loss_scale(), type.dtype)};
  const ValueId out =
      build::mul(b, gradient, build::broadcast_to(b, build::pointwise(b, "1 / x0", inverse), type.shape));
  const ValueId operands[] = {out};
  ValueId non_finite = build::pointwise(b, "select(x0 - x0 == 0, 0, 1)", operands);
  Ints all_axes(type.shape.size());
  std::iota(all_axes.begin(), all_axes.end(), 0);
  if (!all_axes.empty()) non_finite = build::reduce_max(b, non_finite, all_axes);
  non_finite = build::cast(b, non_finite, DType::f32);
  non_finite_ = non_finite_.valid() ? build::max(b, non_finite_, non_finite) : non_finite;
  return out;
}

ValueId Trace::update_condition() {
  return non_finite_.valid() ? build::eq(builder, non_finite_, build::scalar(builder, DType::f32, 0)) : ValueId();
}

void Trace::step(const Parameter& parameter, ValueId next) {
  if (is_float(parameter.dtype())) next = build::stop_gradient(builder, next);
  const ValueId apply = update_condition();
  if (!apply.valid()) return update(parameter, next);
  update(parameter,
         build::select(builder, build::broadcast_to(builder, apply, parameter.shape()), next, read(parameter)));
}

// Increases the loss scale after enough steps with finite gradients, and decreases it after any other step.
void Trace::adjust_scale() {
  if (!non_finite_.valid()) return;
  const auto& [state, options] = *options_.scaling;
  ScopedValue path(builder.path, std::string("amp"));
  Builder& b = builder;
  const ValueId scale = read(state.scale), is_finite = build::eq(b, non_finite_, build::scalar(b, DType::f32, 0));
  const ValueId steps = build::add(b, read(state.good), build::scalar(b, DType::i64, 1)),
                zero = build::scalar(b, DType::i64, 0);
  const ValueId grows = build::and_(
      b, is_finite, build::ge(b, steps, build::scalar(b, DType::i64, static_cast<double>(options.interval))));
  const auto scaled = [&](double factor) { return build::mul(b, scale, build::scalar(b, DType::f32, factor)); };
  const ValueId larger = scaled(options.growth), smaller = scaled(options.backoff);
  update(state.scale, build::select(b, grows, larger, build::select(b, is_finite, scale, smaller)));
  update(state.good, build::select(b, grows, zero, build::select(b, is_finite, steps, zero)));
}

std::int64_t Trace::site() {
  int ordinal = random_nodes_[builder.path]++;
  return static_cast<std::int64_t>(hash_text(cat(builder.path, "#", ordinal)) >> 1);
}

void Trace::require_matched(std::size_t first) const {
  for (std::size_t i = first; i < options_.placements.size(); ++i)
    if (!options_.placements[i].matched)
      fail(ErrorKind::name, "placements: '", options_.placements[i].module,
           "' matches no module and no parameter of this function; ",
           suggest_names(options_.placements[i].module, parameters_,
                         [this](const Parameter& parameter) { return path_of(parameter); }));
}

void Trace::finish(const std::vector<Tensor>& outputs) {
  require_matched(0);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = value(Term(outputs[i]));
    const NodeId producer = graph.value(id).producer;
    const bool has_layout = producer.valid() && graph.node(producer).op->name == "layout";
    graph.outputs.push_back({cat("out", i), id, has_layout ? graph.value(id).layout : std::nullopt});
  }
  adjust_scale();
  if (std::find(parameters_.begin(), parameters_.end(), options_.counter) == parameters_.end()) return;
  const std::int64_t one_step[2] = {0, 1};
  ScopedValue path(builder.path, options_.counter.name());
  ValueId increment = build::constant(builder, options_.counter.type(), std::as_bytes(std::span(one_step)));
  ValueId next = build::add(builder, random_state(), increment);
  update(options_.counter, next);
}

std::string line_of(const Tensor& tensor) {
  const Trace* trace = Trace::open();
  if (trace == nullptr || !trace->contains(Term(tensor))) return {};
  const NodeId producer = trace->graph.value(tensor.id).producer;
  return producer.valid() ? trace->graph.node(producer).where : std::string();
}

}  // namespace karez

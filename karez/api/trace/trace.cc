// A trace: adds parameters, numbers and random state to the graph that is being written.
#include "karez/api/trace/trace.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <numeric>

#include "karez/api/trace/expression.h"
#include "karez/api/trace/summands.h"
#include "karez/base/glob.h"
#include "karez/base/hash.h"
#include "karez/base/suggest_names.h"
#include "karez/ops/compose.h"

namespace karez {
namespace {

// Per thread: the trace that it is writing. Only Scope changes it.
thread_local Trace* current_trace = nullptr;

}  // namespace

std::uint64_t next_trace_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

std::string print(const SourceLine& line) {
  std::string_view file = line.file_name();
  return cat(file.substr(file.find_last_of('/') + 1), ":", line.line());
}

std::int64_t Tensor::size(int dimension) const {
  int d = dimension < 0 ? dimension + rank() : dimension;
  require(d >= 0 && d < rank(), "dimension ", dimension, " of a tensor of shape ", type.shape, " does not exist");
  return type.shape[static_cast<std::size_t>(d)];
}

const Tensor& Tensors::only() const {
  require(list.size() == 1, "a function returns ", list.size(), " tensors, but one is required; select one: f(x)[0]");
  return list[0];
}

Parameter random_counter() {
  return {"rng",
          {DType::i64, {2}},
          [](Builder&, const TensorType&, const std::string&, ValueId state) { return state; },
          "rng"};
}

ValueId first_random_state(Builder& b, std::uint64_t seed) {
  const std::int64_t state[2] = {static_cast<std::int64_t>(seed), 0};
  return build::constant(b, {DType::i64, {2}}, std::as_bytes(std::span(state)));
}

ValueId first_value(Builder& b, const Parameter& parameter, ValueId random_state) {
  ScopedValue path(b.path, parameter.name());
  const ValueId first = parameter.init()(b, parameter.type(), parameter.site(), random_state);
  require(b.type(first) == parameter.type(), "variable '", parameter.name(), "' is ", parameter.type(),
          "; its initialiser makes ", b.type(first));
  return first;
}

LossScaleState::LossScaleState(std::size_t number)
    : scale(cat("amp.scale", number > 1 ? cat(".", number) : ""), {DType::f32, {}}, constant_init(65536), "amp"),
      good(cat("amp.good", number > 1 ? cat(".", number) : ""), {DType::i64, {}}, constant_init(0), "amp") {}

Trace::Trace(const OpTable& ops, TraceOptions options)
    : builder(graph, ops),
      options_(std::move(options)),
      number_(next_trace_number()) {
  graph.name = options_.name;
  graph.meshes = {options_.mesh};
}

Trace::Scope::Scope(Trace& trace) : before_(std::exchange(current_trace, &trace)) {}
Trace::Scope::~Scope() { current_trace = before_; }

Trace* Trace::open() { return current_trace; }
Trace& Trace::current() {
  require(current_trace != nullptr, "no program is being traced on this thread");
  return *current_trace;
}

void Trace::configure(const OpTable& ops, const Mesh& mesh, const Parameter& counter) {
  graph.meshes[0] = mesh;
  options_.counter = counter;
  Builder knowing(graph, ops);
  knowing.path = builder.path;
  knowing.where = builder.where;
  builder = std::move(knowing);
}

Tensor Trace::tensor(ValueId id) const {
  Tensor out(id, number_, graph.type(id));
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
  const bool own = mesh == graph.meshes[0];
  bool known = own;
  for (const TracePlacement& rule : options_.placements) known |= rule.mesh == mesh;
  ValueId id;
  {
    ScopedValue placed(builder.mesh, own && !has_placements() ? 0 : number_of(mesh));
    id = array_value(builder, name, type, mesh, layout);
  }
  return tensor(known ? id : builder.transfer_to_mesh(id, number_of(Mesh(graph.meshes[0]))));
}

int Trace::number_of(const Mesh& mesh) {
  for (std::size_t m = 1; m < graph.meshes.size(); ++m)
    if (graph.meshes[m] == mesh) return static_cast<int>(m);
  graph.meshes.push_back(mesh);
  return static_cast<int>(graph.meshes.size()) - 1;
}

std::optional<int> Trace::rule_mesh(const std::string& path) {
  const TracePlacement* found = nullptr;
  for (TracePlacement& rule : options_.placements) {
    if (path.empty() || !base::Glob(rule.module).matches(path)) continue;
    rule.matched = true;
    require(ErrorKind::device, found == nullptr || found->mesh == rule.mesh, "placements: '", path, "' is matched by '",
            found == nullptr ? "" : found->module, "' and by '", rule.module, "', which are on different devices");
    found = &rule;
  }
  if (found == nullptr) return {};
  return number_of(found->mesh);
}

int Trace::resolve_mesh(ValueId id) {
  const int at = graph.value(id).mesh;
  return at != 0 || !has_placements() ? at : builder.mesh != 0 ? builder.mesh : number_of(Mesh(graph.meshes[0]));
}

DType Trace::dtype_of(const Term& term) const {
  struct Visit {
    DType operator()(const Tensor& t) const { return t.dtype(); }
    DType operator()(const Parameter& p) const { return p.dtype(); }
    DType operator()(bool) const { return DType::b8; }
    DType operator()(std::int64_t) const { return DType::i64; }
    DType operator()(double) const { return DType::f32; }
  };
  const DType own = std::visit(Visit{}, term.value);
  return term.stands_for_number() && is_float(own) ? DType::f32 : own;
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
              "function, or keep it in a parameter");
      require(t.id.valid(), "an uninitialised tensor");
      require(trace.expression == nullptr, "a tensor ", t.type,
              " of a program that was traced is used outside of it, where it has no bytes: return ",
              "it from the function, and compute with the result of a call");
      fail("a tensor ", t.type,
           " belongs to another trace: a compiled function uses only its arguments and values that it makes; keep a "
           "value ",
           "between calls in a parameter");
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
          "a number of this call does not fit i32; give one from ", std::numeric_limits<std::int32_t>::min(), " to ",
          std::numeric_limits<std::int32_t>::max(), ", or arrays of i64");
  return build::cast(builder, out, dtype);
}

std::string Trace::path_of(const Parameter& parameter) const {
  const auto known = paths.find(parameter.identity());
  return known == paths.end() ? parameter.name() : known->second;
}

std::size_t Trace::join(const Parameter& parameter) {
  require(parameter != Parameter(), "an uninitialised parameter");
  if (expression != nullptr) expression->place_with(parameter);
  auto known = std::find(parameters_.begin(), parameters_.end(), parameter);
  auto index = static_cast<std::size_t>(known - parameters_.begin());
  if (known != parameters_.end()) return index;
  const std::string path = path_of(parameter);
  int ordinal = 0;
  for (const auto& other : parameters_) ordinal += path_of(other) == path;
  std::string key = key_of(path, ordinal);
  const auto taken = [&] {
    return std::any_of(graph.variables.begin(), graph.variables.end(),
                       [&](const Variable& v) { return v.name == key; });
  };
  while (taken()) key = key_of(path, ++ordinal);  // by a parameter that had another path when it joined
  // By its own path, which includes its module's: it may be read outside of the module first.
  std::optional<int> mesh = rule_mesh(path);
  if (!mesh && has_placements() && options_.stored)
    if (auto stored = options_.stored(parameter)) mesh = number_of(*stored);
  ScopedValue placed(builder.mesh, mesh.value_or(builder.mesh));
  ValueId id = build::variable(builder, key, parameter.type());
  graph.variables.push_back({key, parameter.type(), builder.mesh, {}, id, {}});
  parameters_.push_back(parameter);
  versions_.push_back({{id}});
  return index;
}

ValueId Trace::read(const Parameter& parameter) {
  std::size_t index = join(parameter);
  accessed_.push_back(index);
  Version& latest = versions_[index].back();
  latest.read = true;
  return latest.value;
}

void Trace::update(const Parameter& parameter, ValueId value) {
  std::size_t index = join(parameter);  // also for a parameter that was not read before
  require(graph.type(value) == parameter.type(), "parameter '", parameter.name(), "' is ", parameter.type(),
          "; its update is ", graph.type(value));
  accessed_.push_back(index);
  graph.variables[index].updated = value;
  versions_[index].push_back({value});
  NodeId maker = graph.value(value).producer;
  if (maker.valid() && !graph.node(maker).op->grad && !graph.node(maker).inputs.empty())
    gradient_stops_.push_back(value);
}

std::vector<ValueId> Trace::versions_read(ValueId loss, const std::vector<Parameter>& parameters) {
  std::vector<ValueId> out;
  for (const auto& parameter : parameters) {
    const auto& versions = versions_[join(parameter)];
    out.push_back(versions.back().value);
    if (versions.size() == 1) continue;
    // Searches backwards from the loss, up to versions of this parameter and to nodes at which gradients stop.
    std::vector<std::pair<std::size_t, NodeId>> found;  // number of the version, its reader
    ById<ValueId, bool> seen(graph.values.size());
    std::vector<std::pair<ValueId, NodeId>> stack = {{loss, NodeId()}};
    while (!stack.empty()) {
      auto [value, reader] = stack.back();
      stack.pop_back();
      if (seen[value] || !is_float(graph.type(value).dtype)) continue;
      seen[value] = true;
      auto version = std::find_if(versions.begin(), versions.end(),
                                  [&, v = value](const Version& one) { return one.read && one.value == v; });
      if (version != versions.end()) {
        found.emplace_back(version - versions.begin(), reader);
        continue;
      }
      NodeId maker = graph.value(value).producer;
      if (!maker.valid() || !graph.node(maker).op->grad || graph.node(maker).op->name == "stop_gradient") continue;
      for (ValueId in : graph.node(maker).inputs) stack.emplace_back(in, maker);
    }
    if (found.empty()) continue;
    std::sort(found.begin(), found.end());
    auto message = [&](const std::pair<std::size_t, NodeId>& read) {
      return read.second.valid() ? describe(graph, read.second) : "the loss itself";
    };
    require(found.size() == 1, "the loss reads two versions of parameter '", parameter.name(), "': an older one in ",
            message(found.front()), ", and in ", message(found.back()),
            " the result of an update; a gradient is taken at one version: update after the loss, or apply ",
            "stop_gradient to one of the reads");
    out.back() = versions[found.front().first].value;
  }
  return out;
}

std::vector<Parameter> Trace::ancestor_parameters(ValueId value) const {
  ById<ValueId, bool> seen(graph.values.size());
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (seen[id] || !is_float(graph.type(id).dtype)) continue;
    seen[id] = true;
    const NodeId maker = graph.value(id).producer;
    if (!maker.valid() || !graph.node(maker).op->grad || graph.node(maker).op->name == "stop_gradient") continue;
    for (ValueId in : graph.node(maker).inputs) open.push_back(in);
  }
  std::vector<Parameter> out;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (std::any_of(versions_[i].begin(), versions_[i].end(),
                    [&](const Version& version) { return seen[version.value]; }))
      out.push_back(parameters_[i]);
  return out;
}

void Trace::store(const Parameter& parameter, const Layout& layout) {
  Variable& variable = graph.variables[join(parameter)];
  if (variable.mesh == 0) variable.mesh = graph.value(variable.read).mesh = resolve_mesh(variable.read);
  const Mesh& mesh = graph.meshes[static_cast<std::size_t>(variable.mesh)];
  require(!variable.stored || *variable.stored == layout, "parameter '", parameter.name(), "' is requested as ",
          sbp::print(variable.type, mesh, layout), ", but an earlier with_layout or rule stores it as ",
          variable.stored ? sbp::print(variable.type, mesh, *variable.stored) : std::string());
  variable.stored = layout;
}

ValueId Trace::host_scalar(const std::string& name, DType dtype, const void* owner, std::function<double()> value) {
  if (expression != nullptr) return expression->number(dtype, value());
  std::string base = dtype == DType::f32 ? name : cat(name, ".", name_of(dtype)), full = base;
  for (int twin = 1;; full = cat(base, "#", twin++)) {
    auto same = std::find_if(host_scalars_.begin(), host_scalars_.end(),
                             [&](const HostScalar& scalar) { return scalar.name == full; });
    if (same == host_scalars_.end()) break;
    if (same->owner == owner) return same->id;
  }
  ValueId id = build::input(builder, full, {dtype, {}});
  host_scalars_.push_back({full, dtype, std::move(value), owner, id});
  return id;
}

std::vector<std::size_t> Trace::inlined(bool train, const std::vector<TracePlacement>& placements,
                                        const std::function<void()>& body) {
  struct Restored {
    bool& place;
    bool before;
    ~Restored() { place = before; }
  } restored{options_.train, options_.train};
  options_.train = train;
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
  const ValueId looked[] = {out};
  ValueId broken = build::pointwise(b, "select(x0 - x0 == 0, 0, 1)", looked);
  Ints all(type.shape.size());
  std::iota(all.begin(), all.end(), 0);
  if (!all.empty()) broken = build::reduce_max(b, broken, all);
  broken = build::cast(b, broken, DType::f32);
  non_finite_ = non_finite_.valid() ? build::max(b, non_finite_, broken) : broken;
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

// Increases the scale after enough good steps, decreases it after a bad one.
void Trace::adjust_scale() {
  if (!non_finite_.valid()) return;
  const auto& [state, options] = *options_.scaling;
  ScopedValue path(builder.path, std::string("amp"));
  Builder& b = builder;
  const ValueId scale = read(state.scale), fine = build::eq(b, non_finite_, build::scalar(b, DType::f32, 0));
  const ValueId more = build::add(b, read(state.good), build::scalar(b, DType::i64, 1)),
                none = build::scalar(b, DType::i64, 0);
  const ValueId grows =
      build::and_(b, fine, build::ge(b, more, build::scalar(b, DType::i64, static_cast<double>(options.interval))));
  const auto times = [&](double factor) { return build::mul(b, scale, build::scalar(b, DType::f32, factor)); };
  const ValueId larger = times(options.growth), smaller = times(options.backoff);
  update(state.scale, build::select(b, grows, larger, build::select(b, fine, scale, smaller)));
  update(state.good, build::select(b, grows, none, build::select(b, fine, more, none)));
}

std::int64_t Trace::site() {
  int ordinal = random_nodes_[builder.path]++;
  return static_cast<std::int64_t>(hash_text(cat(builder.path, "#", ordinal)) >> 1);
}

void Trace::require_matched(std::size_t first) const {
  for (std::size_t i = first; i < options_.placements.size(); ++i)
    require(ErrorKind::name, options_.placements[i].matched, "placements: '", options_.placements[i].module,
            "' matches no module and no parameter of this function; ",
            suggest_names(options_.placements[i].module, parameters_,
                          [this](const Parameter& parameter) { return path_of(parameter); }));
}

void Trace::finish(const std::vector<Tensor>& outputs) {
  require_matched(0);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = value(Term(outputs[i]));
    const NodeId maker = graph.value(id).producer;
    const bool laid = maker.valid() && graph.node(maker).op->name == "layout";
    graph.outputs.push_back({cat("out", i), id, laid ? graph.value(id).layout : std::nullopt});
  }
  adjust_scale();
  if (std::find(parameters_.begin(), parameters_.end(), options_.counter) == parameters_.end()) return;
  const std::int64_t one_step[2] = {0, 1};
  ScopedValue path(builder.path, options_.counter.name());
  ValueId advance = build::constant(builder, options_.counter.type(), std::as_bytes(std::span(one_step)));
  ValueId next = build::add(builder, random_state(), advance);
  update(options_.counter, next);
}

std::string line_of(const Tensor& tensor) {
  const Trace* trace = Trace::open();
  if (trace == nullptr || !trace->contains(Term(tensor))) return {};
  const NodeId maker = trace->graph.value(tensor.id).producer;
  return maker.valid() ? trace->graph.node(maker).where : std::string();
}

}  // namespace karez

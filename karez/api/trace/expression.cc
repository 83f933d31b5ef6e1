// Implements expressions and lazy values: operands, world and mesh, and computed arrays.
#include "karez/api/trace/expression.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "karez/api/data_iterator.h"
#include "karez/api/interactive_scope.h"
#include "karez/api/namespace.h"
#include "karez/api/state/array_value.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/shared_graph.h"
#include "karez/base/attr_cast.h"
#include "karez/data/stages/batch_rows.h"
#include "karez/ops/all_ops.h"

namespace karez {
namespace {

// Returns the op table that an expression uses until an array or an Interactive scope determines its world.
const OpTable& builtin_ops() {
  static const OpTable rows = all_ops();
  return rows;
}

}  // namespace

std::pmr::polymorphic_allocator<> expression_memory() {
  static auto* memory = new std::pmr::synchronized_pool_resource;  // never destroyed, because threads may outlive main
  return memory;
}

std::shared_ptr<const Expression> LazyValue::producer() const {
  std::lock_guard lock(mutex_);
  return producer_;
}
Array LazyValue::array() const {
  std::lock_guard lock(mutex_);
  return array_;
}
void LazyValue::set_array(Array array) {
  std::shared_ptr<const Expression> old_producer;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  array_ = std::move(array);
  if (producer_ != nullptr) has_user_layout_ = producer_->graph().value(id_).layout.has_value();
  old_producer = std::move(producer_);
  producer_ = nullptr;
}

bool LazyValue::has_user_layout() const {
  std::lock_guard lock(mutex_);
  return has_user_layout_;
}

ValueId LazyValue::id() const {
  std::lock_guard lock(mutex_);
  return id_;
}
void LazyValue::move_to(std::shared_ptr<const Expression> producer, ValueId id) {
  std::lock_guard lock(mutex_);
  std::swap(producer_, producer);  // the old producer is destroyed after the lock is released
  id_ = id;
}

LazyValue::Record LazyValue::record() const {
  std::lock_guard lock(mutex_);
  return record_;
}
void LazyValue::set_record(Record record) {
  std::lock_guard lock(mutex_);
  record_ = std::move(record);
}
void LazyValue::release_record() {
  Record released;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  std::swap(released, record_);
  is_released_ = true;
}
bool LazyValue::is_released() const {
  std::lock_guard lock(mutex_);
  return is_released_;
}
std::shared_ptr<const void> LazyValue::leaf() const {
  std::lock_guard lock(mutex_);
  return leaf_;
}
void LazyValue::set_leaf(std::shared_ptr<const void> leaf) {
  std::lock_guard lock(mutex_);
  leaf_ = std::move(leaf);
}

LazyValue::GradientHooks LazyValue::gradient_hooks() const {
  std::lock_guard lock(mutex_);
  return gradient_hooks_;
}
void LazyValue::set_gradient_hooks(GradientHooks hooks) {
  std::lock_guard lock(mutex_);
  std::swap(gradient_hooks_, hooks);  // the old functions are destroyed after the lock is released
}

// The record of a long computation is a chain of values, each of which owns the one before. A recursion over it could
// exceed the stack, so the outermost destructor destroys the records of all.
LazyValue::~LazyValue() {
  thread_local std::vector<std::shared_ptr<const Expression>>* released = nullptr;
  if (released != nullptr) {
    if (record_.expression != nullptr) released->push_back(std::move(record_.expression));
    if (producer_ != nullptr) released->push_back(std::move(producer_));
    return;
  }
  std::vector<std::shared_ptr<const Expression>> list;
  released = &list;
  list.push_back(std::move(record_.expression));
  list.push_back(std::move(producer_));
  while (!list.empty()) {
    const std::shared_ptr<const Expression> next = std::move(list.back());
    list.pop_back();
  }
  released = nullptr;
}

const void* LazyValue::identity() const {
  if (requires_gradient()) return this;
  const Array value = array();
  return value.valid() ? static_cast<const void*>(&ArrayValue::of(value)) : this;
}

Tensor::Tensor(const Array& array)
    : type(array.type()),
      lazy(std::make_shared<LazyValue>(array.type(), array)),
      handle(lazy) {}
Tensor::Tensor(const HostArray& shared) : Tensor(HostArray(shared)) {}
Tensor::Tensor(HostArray&& owned) {
  require(owned.valid(), "Tensor: the host array is uninitialised");
  HostArray array = std::move(owned);
  if (!array.unique()) {
    HostArray copy(array.type());
    std::memcpy(copy.bytes(), array.bytes(), static_cast<std::size_t>(array.type().bytes()));
    array = std::move(copy);
  }
  type = array.type();
  lazy = std::make_shared<LazyValue>(type, std::move(array));
  handle = lazy;
}

Tensor tensor_of(const data::Element& element, std::size_t field) {
  const HostArray& array = data::array_of(element, field);
  Tensor out;
  out.type = array.type();
  out.lazy = std::make_shared<LazyValue>(out.type, array, element.rows);
  out.handle = out.lazy;
  return out;
}

const HostArray& LazyValue::complete_host() const {
  if (batch_rows != nullptr) batch_rows->need_all();
  return host;
}

Argument host_argument(const LazyValue& value) {
  Argument out(value.host);
  out.batch_rows = value.batch_rows;
  out.donated = true;  // the bytes of a host value are never written
  return out;
}

std::shared_ptr<WorldState> world_of(const Expression& expression) {
  auto world = expression.world.lock();
  require(world != nullptr,
          "the tensor belongs to a world that no longer exists; read it while the World, or a mesh, function or future "
          "of it, is alive");
  return world;
}

DeviceMesh mesh_of(const Expression* expression) {
  if (expression != nullptr && expression->has_mesh) return {world_of(*expression), expression->mesh()};
  const DeviceMesh* scope = Interactive::mesh();
  require(scope != nullptr,
          "the mesh of this computation is unknown, because no operand is an Array; set it with Interactive on(mesh)");
  require(expression == nullptr || !expression->has_world || world_of(*expression) == scope->world,
          "a tensor belongs to another world than the innermost Interactive scope");
  return *scope;
}

Expression::Expression() : trace(builtin_ops(), {.name = "expression", .train = Interactive::training()}) {
  trace.expression = this;
  if (const DeviceMesh* mesh = Interactive::mesh()) join_world(mesh->world);
}

void Expression::join_world(const std::shared_ptr<WorldState>& world_state) {
  require(!has_world || world.lock() == world_state,
          "the operands of an expression are arrays of different worlds; pass the host arrays that read() returns");
  if (has_world) return;
  has_world = true;
  world = world_state;
  trace.configure(world_state->tables.ops, mesh(), world_state->counter);
}

void Expression::place_on(const std::shared_ptr<WorldState>& world_state, const Mesh& mesh) {
  join_world(world_state);
  if (has_mesh) return;
  has_mesh = true;
  trace.configure(world_state->tables.ops, mesh, world_state->counter);
}

void Expression::require_mesh(std::string_view what) {
  if (has_mesh) return;
  const DeviceMesh* mesh = Interactive::mesh();
  require(mesh != nullptr, what,
          " outside of a compiled function: the mesh is unknown; pass an operand that is an Array, or set the mesh ",
          "with Interactive on(mesh)");
  place_on(mesh->world, mesh->mesh);
}

void Expression::place_with(const Parameter& parameter) {
  if (is_grad_enabled() && is_float(parameter.dtype())) requires_gradient = true;
  if (const std::pair read(parameter, parameter.writes()); std::find(reads.begin(), reads.end(), read) == reads.end())
    reads.push_back(read);
  const DeviceMesh* scope = Interactive::mesh();
  const std::shared_ptr<WorldState> state = has_world ? world.lock() : scope != nullptr ? scope->world : nullptr;
  const auto require_any_mesh = [&] {
    if (!has_mesh) require_mesh(cat("parameter '", parameter.name(), "'"));
  };
  if (state == nullptr || has_parameter_mesh) return require_any_mesh();
  std::optional<Mesh> stored_mesh;
  {
    WorldLock lock(*state);
    if (const auto variable = state->variables.find(parameter); variable != state->variables.by_key.end())
      stored_mesh = variable->second.mesh;
  }
  if (!stored_mesh) return require_any_mesh();
  join_world(state);
  has_mesh = has_parameter_mesh = true;
  trace.configure(state->tables.ops, *stored_mesh, state->counter);
}

const Graph& Expression::graph() const { return shared != nullptr ? shared->graph : trace.graph; }

void Expression::share(std::shared_ptr<const SharedGraph> recorded) {
  shared = std::move(recorded);
  shared_line = trace.builder.where;
  trace.graph.nodes.clear(), trace.graph.values.clear(), trace.graph.variables.clear();
}

ValueId Expression::add_inputs() {
  if (trace.graph.nodes.empty()) trace.graph.nodes.reserve(4), trace.graph.values.reserve(4);
  ValueId id;
  for (; inputs_ < operands.size(); ++inputs_)
    id = build::input(trace.builder, cat(operand_name, inputs_), operands[inputs_]->type);
  return id;
}

std::size_t Expression::bind(const std::shared_ptr<LazyValue>& value) {
  if (is_grad_enabled() && value->requires_gradient()) requires_gradient = true;
  if (const auto producer = value->producer()) {
    if (producer->has_mesh) place_on(world_of(*producer), producer->mesh());
    else if (producer->has_world) join_world(world_of(*producer));
    depth = std::max(depth, producer->depth + 1);
    if (producer->first_read > 0) {
      first_read = first_read == 0 ? producer->first_read : std::min(first_read, producer->first_read);
      last_read = std::max(last_read, producer->last_read);
    }
  } else if (const Array array = value->array(); array.valid()) {
    place_on(ArrayValue::of(array).living_world(), array.mesh());
  }
  const auto existing =
      std::find_if(operands.begin(), operands.end(),
                   [identity = value->identity()](const auto& other) { return other->identity() == identity; });
  if (existing != operands.end()) return static_cast<std::size_t>(existing - operands.begin());
  operands.push_back(value);
  return operands.size() - 1;
}

ValueId Expression::operand(const std::shared_ptr<LazyValue>& value) {
  const std::size_t index = bind(value);
  if (index >= inputs_) return add_inputs();
  for (const Node& node : trace.graph.nodes)
    if (node.op->role == Role::source && node.attrs.text("name") == cat(operand_name, index)) return node.outputs[0];
  fail("an operand without a node");
}

ValueId Expression::number(DType dtype, double value) {
  bind_number(dtype, value);
  return add_inputs();
}

void Expression::bind_number(DType dtype, double value) {
  HostArray scalar(TensorType{dtype, {}});
  with_type(dtype, [&]<class T>() { scalar.data<T>()[0] = attr_cast<T>(Attr(value)); });
  operands.push_back(make_lazy_value(scalar.type(), scalar));
}

void Expression::add_value(Tensor& tensor) {
  tensor.lazy = make_lazy_value(tensor.type, tensor.id, shared_from_this());
  tensor.handle = std::make_shared<char>();
  tensor.lazy->handle = tensor.handle;
  values.push_back(tensor.lazy);
  if (!requires_gradient || !is_grad_enabled() || !is_float(tensor.type.dtype) || !passes_gradient(tensor.id)) return;
  tensor.lazy->set_record({shared_from_this(), tensor.id});
  for (std::size_t v = saved_reads.size(); v < graph().variables.size(); ++v)
    saved_reads.emplace_back(trace.parameters()[v], is_float(graph().variables[v].type.dtype)
                                                        ? Tensor()
                                                        : trace.tensor(graph().variables[v].read));
}

std::shared_ptr<LazyValue> Expression::record_operand(std::size_t index) const {
  if (index < operands.size()) return operands[index];
  if (hook == nullptr) return nullptr;
  for (const auto* list : {&hook->inputs, &hook->operands}) {
    const std::size_t first = operands.size() + (list == &hook->inputs ? 0 : hook->inputs.size());
    if (index - first < list->size()) return (*list)[index - first].lazy;
  }
  return nullptr;
}

bool Expression::passes_gradient(ValueId value) const {
  if (hook != nullptr && !hook->operands.empty()) return true;
  std::vector<ValueId> pending = {value};
  ById<ValueId, bool> visited(graph().values.size());
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (visited[id] || !is_float(graph().type(id).dtype)) continue;
    visited[id] = true;
    const NodeId producer = graph().value(id).producer;
    if (!producer.valid()) continue;
    const Node& node = graph().node(producer);
    if (node.op->role == Role::state) return true;
    if (node.op->role == Role::source && node.inputs.empty()) {
      const std::string& name = node.attrs.text("name");
      std::size_t index = operands.size();
      std::from_chars(name.data() + std::min(name.size(), operand_name.size()), name.data() + name.size(), index);
      if (name.starts_with(operand_name) && index < operands.size() && operands[index]->requires_gradient())
        return true;
      continue;
    }
    if (node.op->name == "stop_gradient") continue;
    pending.insert(pending.end(), node.inputs.begin(), node.inputs.end());
  }
  return false;
}

void Expression::save(ValueId id, std::shared_ptr<LazyValue> value) const {
  std::lock_guard lock(mutex_);
  saved_.emplace_back(id, std::move(value));
}
std::vector<std::pair<ValueId, std::shared_ptr<LazyValue>>> Expression::saved_values() const {
  std::lock_guard lock(mutex_);
  return saved_;
}

LazyValues Expression::pending_values() const {
  LazyValues out;
  for (const auto& weak_value : values)
    // A value may have moved to another expression, which computes it (see LazyValue::move_to).
    if (auto value = weak_value.lock(); value != nullptr && !value->handle.expired() && value->producer().get() == this)
      out.push_back(std::move(value));
  return out;
}

}  // namespace karez

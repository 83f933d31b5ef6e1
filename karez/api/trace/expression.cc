// Writes expressions: operands from outside, the world and mesh, and when they are computed.
#include "karez/api/trace/expression.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/state/array_value.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/base/attr_cast.h"
#include "karez/ops/all_ops.h"

namespace karez {
namespace {

// The op table used until an array or Interactive determines the world.
const OpTable& builtin_ops() {
  static const OpTable rows = all_ops();
  return rows;
}

}  // namespace

std::shared_ptr<const Expression> LazyValue::producer() const {
  std::lock_guard lock(mutex_);
  return producer_;
}
Array LazyValue::array() const {
  std::lock_guard lock(mutex_);
  return array_;
}
void LazyValue::set_array(Array array) {
  std::shared_ptr<const Expression> done;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  array_ = std::move(array);
  if (producer_ != nullptr) has_user_layout_ = producer_->trace.graph.value(id).layout.has_value();
  done = std::move(producer_);
  producer_ = nullptr;
}

bool LazyValue::has_user_layout() const {
  std::lock_guard lock(mutex_);
  return has_user_layout_;
}

const void* LazyValue::identity() const {
  const Array known = array();
  return known.valid() ? static_cast<const void*>(&ArrayValue::of(known)) : this;
}

Tensor::Tensor(const Array& array)
    : type(array.type()),
      lazy(std::make_shared<LazyValue>(array.type(), array)),
      handle(lazy) {}
Tensor::Tensor(const HostArray& shared) : Tensor(HostArray(shared)) {}
Tensor::Tensor(HostArray&& moved) {
  require(moved.valid(), "a tensor of an uninitialised host array");
  HostArray own = std::move(moved);
  if (!own.unique()) {
    HostArray copy(own.type());
    std::memcpy(copy.bytes(), own.bytes(), static_cast<std::size_t>(own.type().bytes()));
    own = std::move(copy);
  }
  type = own.type();
  lazy = std::make_shared<LazyValue>(type, std::move(own));
  handle = lazy;
}

Expression::Expression() : trace(builtin_ops(), {.name = "expression", .train = Interactive::training()}) {
  trace.expression = this;
  if (const DeviceMesh* mesh = Interactive::mesh()) join_world(mesh->world);
}

void Expression::join_world(const std::shared_ptr<WorldState>& of) {
  require(!has_world || world.lock() == of,
          "arrays of different worlds in one expression; pass the host arrays that read() returns");
  if (has_world) return;
  has_world = true;
  world = of;
  trace.configure(of->ops, mesh(), of->counter);
}

void Expression::place_on(const std::shared_ptr<WorldState>& of, const Mesh& mesh) {
  join_world(of);
  if (has_mesh) return;
  has_mesh = true;
  trace.configure(of->ops, mesh, of->counter);
}

void Expression::require_mesh(std::string_view what) {
  if (has_mesh) return;
  const DeviceMesh* mesh = Interactive::mesh();
  require(mesh != nullptr, what,
          " outside of a compiled function: the mesh is unknown; set it by an operand that is an Array, or by ",
          "Interactive on(mesh)");
  place_on(mesh->world, mesh->mesh);
}

void Expression::place_with(const Parameter& parameter) {
  const std::string what = cat("parameter '", parameter.name(), "'");
  const DeviceMesh* scope = Interactive::mesh();
  const std::shared_ptr<WorldState> of = has_world ? world.lock() : scope != nullptr ? scope->world : nullptr;
  if (of == nullptr || has_parameter_mesh) return require_mesh(what);
  std::optional<Mesh> stored;
  {
    WorldLock lock(*of);
    if (const auto found = of->find(parameter); found != of->variables.end()) stored = found->second.mesh;
  }
  if (!stored) return require_mesh(what);
  join_world(of);
  has_mesh = has_parameter_mesh = true;
  trace.configure(of->ops, *stored, of->counter);
}

ValueId Expression::input(const std::shared_ptr<LazyValue>& value) {
  const ValueId id = build::input(trace.builder, cat("operand", operands.size()), value->type);
  operands.push_back(value);
  return id;
}

ValueId Expression::operand(const std::shared_ptr<LazyValue>& value) {
  if (const auto from = value->producer()) {
    if (from->has_mesh) place_on(world_of(*from), from->mesh());
    else if (from->has_world) join_world(world_of(*from));
    depth = std::max(depth, from->depth + 1);
  } else if (const Array array = value->array(); array.valid()) {
    place_on(ArrayValue::of(array).living_world(), array.mesh());
  }
  const auto known = std::find_if(operands.begin(), operands.end(),
                                  [who = value->identity()](const auto& other) { return other->identity() == who; });
  if (known == operands.end()) return input(value);
  for (const Node& node : trace.graph.nodes)
    if (node.op->role == Role::source && node.attrs.text("name") == cat("operand", known - operands.begin()))
      return node.outputs[0];
  fail("an operand without a node");
}

ValueId Expression::number(DType dtype, double value) {
  HostArray scalar(TensorType{dtype, {}});
  with_type(dtype, [&]<class T>() { scalar.data<T>()[0] = attr_cast<T>(Attr(value)); });
  return input(std::make_shared<LazyValue>(scalar.type(), scalar));
}

void Expression::add_value(Tensor& tensor) {
  tensor.lazy = std::make_shared<LazyValue>(tensor.type, tensor.id, shared_from_this());
  tensor.handle = std::make_shared<char>();
  tensor.lazy->handle = tensor.handle;
  values.push_back(tensor.lazy);
}

LazyValues Expression::pending_values() const {
  LazyValues out;
  for (const auto& value : values)
    if (auto alive = value.lock(); alive != nullptr && !alive->handle.expired() && alive->producer() != nullptr)
      out.push_back(std::move(alive));
  return out;
}

ExpressionScope::ExpressionScope() {
  if (Trace::open() != nullptr) return;
  expression_ = std::make_shared<Expression>();
  scope_.emplace(expression_->trace);
}
ExpressionScope::~ExpressionScope() = default;

void ExpressionScope::finish(const SourceLine& where) const {
  if (expression_ == nullptr) return;
  expression_->complete = true;
  if (!expression_->trace.parameters().empty()) run_now(expression_, where);
  else if (expression_->depth >= max_expression_depth) run(expression_->pending_values(), where);
}

}  // namespace karez

// Writing expressions: operands from outside, one world, and what does not wait to be asked for.
#include "karez/api/inside/expression.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "karez/api/inside/array_value.h"
#include "karez/api/inside/namespace.h"
#include "karez/api/inside/run_expressions.h"
#include "karez/api/inside/world_state.h"
#include "karez/api/interactive.h"
#include "karez/base/attr_cast.h"
#include "karez/ops/all_ops.h"

namespace karez {
namespace {

// Rows that hold while no array or Interactive has told of a world.
const OpTable& rows_of_ours() {
  static const OpTable rows = all_ops();
  return rows;
}

}  // namespace

std::shared_ptr<const Expression> LazyValue::from() const {
  std::lock_guard lock(mutex_);
  return from_;
}
Array LazyValue::array() const {
  std::lock_guard lock(mutex_);
  return array_;
}
void LazyValue::made(Array array) {
  std::shared_ptr<const Expression> done;  // goes without the lock
  std::lock_guard lock(mutex_);
  array_ = std::move(array);
  if (from_ != nullptr) laid_by_user_ = from_->trace.graph.value(id).layout.has_value();
  done = std::move(from_);
  from_ = nullptr;
}

bool LazyValue::is_laid_by_user() const {
  std::lock_guard lock(mutex_);
  return laid_by_user_;
}

const void* LazyValue::who() const {
  const Array known = array();
  return known.valid() ? static_cast<const void*>(&ArrayValue::of(known)) : this;
}

Tensor::Tensor(const Array& array)
    : type(array.type()),
      lazy(std::make_shared<LazyValue>(array.type(), array)),
      wanted(lazy) {}
Tensor::Tensor(const HostArray& shared) : Tensor(HostArray(shared)) {}
Tensor::Tensor(HostArray&& moved) {
  require(moved.valid(), "a tensor of a host array that was never made");
  HostArray own = std::move(moved);
  if (!own.unique()) {
    HostArray copy(own.type());
    std::memcpy(copy.bytes(), own.bytes(), static_cast<std::size_t>(own.type().bytes()));
    own = std::move(copy);
  }
  type = own.type();
  lazy = std::make_shared<LazyValue>(type, std::move(own));
  wanted = lazy;
}

Expression::Expression() : trace(rows_of_ours(), {.name = "expression", .train = Interactive::training()}) {
  trace.expression = this;
  if (const DeviceMesh* mesh = Interactive::mesh()) belong_to(mesh->world);
}

void Expression::belong_to(const std::shared_ptr<WorldState>& of) {
  require(!has_world || world.lock() == of,
          "arrays of different worlds in one expression; what read() gives is an array of the host");
  if (has_world) return;
  has_world = true;
  world = of;
  trace.know(of->ops, mesh(), of->counter);
}

void Expression::lie_on(const std::shared_ptr<WorldState>& of, const Mesh& mesh) {
  belong_to(of);
  if (has_mesh) return;
  has_mesh = true;
  trace.know(of->ops, mesh, of->counter);
}

void Expression::need_mesh(std::string_view what) {
  if (has_mesh) return;
  const DeviceMesh* mesh = Interactive::mesh();
  require(mesh != nullptr, what,
          " outside of a compiled function: on which mesh is not said; an operand that is an Array says it, or ",
          "Interactive on(mesh)");
  lie_on(mesh->world, mesh->mesh);
}

void Expression::lie_with(const Parameter& parameter) {
  const std::string what = cat("parameter '", parameter.name(), "'");
  const DeviceMesh* scope = Interactive::mesh();
  const std::shared_ptr<WorldState> of = has_world ? world.lock() : scope != nullptr ? scope->world : nullptr;
  if (of == nullptr || has_stored) return need_mesh(what);
  std::optional<Mesh> stored;
  {
    WorldLock lock(*of);
    if (const auto found = of->find(parameter); found != of->variables.end()) stored = found->second.mesh;
  }
  if (!stored) return need_mesh(what);
  belong_to(of);
  has_mesh = has_stored = true;
  trace.know(of->ops, *stored, of->counter);
}

ValueId Expression::input(const std::shared_ptr<LazyValue>& value) {
  const ValueId id = build::input(trace.builder, cat("operand", operands.size()), value->type);
  operands.push_back(value);
  return id;
}

ValueId Expression::operand(const std::shared_ptr<LazyValue>& value) {
  if (const auto from = value->from()) {
    if (from->has_mesh) lie_on(world_of(*from), from->mesh());
    else if (from->has_world) belong_to(world_of(*from));
    depth = std::max(depth, from->depth + 1);
  } else if (const Array array = value->array(); array.valid()) {
    lie_on(ArrayValue::of(array).living_world(), array.mesh());
  }
  const auto known = std::find_if(operands.begin(), operands.end(),
                                  [who = value->who()](const auto& other) { return other->who() == who; });
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

void Expression::hold(Tensor& tensor) {
  tensor.lazy = std::make_shared<LazyValue>(tensor.type, tensor.id, shared_from_this());
  tensor.wanted = std::make_shared<char>();
  tensor.lazy->wanted = tensor.wanted;
  values.push_back(tensor.lazy);
}

LazyValues Expression::wanted() const {
  LazyValues out;
  for (const auto& value : values)
    if (auto alive = value.lock(); alive != nullptr && !alive->wanted.expired() && alive->from() != nullptr)
      out.push_back(std::move(alive));
  return out;
}

OwnExpression::OwnExpression() {
  if (Trace::open() != nullptr) return;
  expression_ = std::make_shared<Expression>();
  scope_.emplace(expression_->trace);
}
OwnExpression::~OwnExpression() = default;

void OwnExpression::written(const SourceLine& where) const {
  if (expression_ == nullptr) return;
  expression_->written = true;
  if (!expression_->trace.parameters().empty()) run_now(expression_, where);
  else if (expression_->depth >= deepest_expression) run(expression_->wanted(), where);
}

}  // namespace karez

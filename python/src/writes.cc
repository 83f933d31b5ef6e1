// Implements views of tensors, and writes that change a tensor and all tensors that share its storage.
#include "python/src/writes.h"

#include <algorithm>

#include "karez/api/interactive.h"
#include "python/src/bindings.h"

namespace karez::python {
namespace {

Term term_of(const Storage& storage) {
  const SourceLine line = user_line();
  if (const auto* parameter = std::get_if<Parameter>(&storage.value)) return Term(*parameter, line);
  return Term(std::get<Tensor>(storage.value), line);
}

// A tensor that no other tensor shares its storage with needs no alias.
void forget_single_alias(const Value& value) {
  if (value.alias == nullptr || value.alias->storage.use_count() > 1) return;
  value.tensor();  // refreshes the content
  value.alias.reset();
}

// The alias of a tensor, which is made if there is none.
Alias& alias_of(const Value& value) {
  forget_single_alias(value);
  if (value.alias != nullptr) return *value.alias;
  auto storage = std::make_shared<Storage>();
  storage->argument = value.argument;
  storage->is_read_in_trace = value.is_read_in_trace;
  if (const Tensor* tensor = value.tensor()) {
    Tensor base = *tensor;
    base.handle.reset();  // the base is not stored unless the user can read it
    storage->value = std::move(base);
  } else {
    storage->value = value.parameter();
  }
  value.alias =
      std::make_unique<Alias>(std::move(storage), std::vector<ViewStep>(), tensor::row_major(value.type().shape));
  return *value.alias;
}

// The tensor after each of the steps, before the first of them first.
std::vector<Term> chain_of(const Term& base, const std::vector<ViewStep>& steps) {
  std::vector<Term> out = {base};
  for (const ViewStep& step : steps) out.emplace_back(view_of(out.back(), step), base.where);
  return out;
}

void require_writable(const Value& value) {
  const Tensor* tensor = value.tensor();
  if (!tracing()) {
    require(
        !value.is_read_in_trace && (value.alias == nullptr || !value.alias->storage->is_read_in_trace), "a tensor ",
        value.type(), " must not be written after a compiled function has read its numbers while it was traced: ",
        "the program has them as constants. Make the tensor an argument of the function (see 'constants of a program' "
        "in docs/from-pytorch.md)");
    require(tensor == nullptr || tensor->lazy != nullptr, "a tensor ", value.type(),
            " of a function that was compiled must not be written after the function has returned");
    return;
  }
  if (value.alias != nullptr && std::holds_alternative<Parameter>(value.alias->storage->value)) return;
  if (tensor == nullptr) return;
  require(
      tensor->lazy == nullptr, "a tensor ", value.type(), " from outside of the compiled function must not be ",
      "written by it: keep it in a Buffer of a module, or return the new value (see 'writes in a compiled function' "
      "in docs/from-pytorch.md)");
  require(is_of_current_body(*tensor), "a tensor ", value.type(),
          " must not be written in the body of a loop outside of which it was made: pass it through the loop (see "
          "'writes in a compiled function' in docs/from-pytorch.md)");
}

bool has_detached_step(const Value& value) {
  const auto is_detached = [](const ViewStep& step) { return step.kind == ViewStep::Kind::detached; };
  return value.alias != nullptr && std::any_of(value.alias->steps.begin(), value.alias->steps.end(), is_detached);
}

// The leaf whose value a write changes, or null.
const Tensor* leaf_of(const Value& value) {
  const Tensor* tensor = value.alias == nullptr ? value.tensor() : std::get_if<Tensor>(&value.alias->storage->value);
  return tensor != nullptr && leaf_identity(*tensor) != nullptr ? tensor : nullptr;
}

// The value of a tensor, as that of another tensor: if the first is a leaf, the other one is computed from it.
Tensor value_of_copy(const Tensor& tensor, const SourceLine& line) {
  return leaf_identity(tensor) == nullptr ? tensor : reshape(Term(tensor, line), tensor.shape());
}

// Replaces the value of a tensor by one of the same shape and dtype.
void write(Value& target, const Operand& operand) {
  Term value = operand;
  const TensorType type = target.type();
  const auto* tensor = std::get_if<Tensor>(&value.value);
  if (tensor == nullptr || tensor->type != type)
    base::fail("write: expected a tensor ", type, ", got ",
               tensor == nullptr ? "another value" : tensor::print(tensor->type));
  require_writable(target);
  forget_single_alias(target);
  Tensor written = value_of_copy(*tensor, value.where);
  if (const Tensor* leaf = tracing() ? nullptr : leaf_of(target)) {
    require(!is_grad_enabled() || has_detached_step(target), "a tensor ", leaf->type,
            " with requires_grad=True must not ",
            "be written while gradients are recorded: write it in `with kz.no_grad():`");
    if (target.alias == nullptr || target.alias->steps.empty()) replace_leaf(written, *leaf);
  }
  value = Term(written, value.where);
  Alias* alias = target.alias.get();
  if (alias == nullptr) {
    if (std::holds_alternative<Parameter>(target.content)) return update(target.parameter(), value);
    target.content = written;
    return;
  }
  Storage& storage = *alias->storage;
  if (!alias->steps.empty()) {
    const std::vector<Term> chain = chain_of(term_of(storage), alias->steps);
    for (std::size_t i = alias->steps.size(); i-- > 0;)
      value = Term(after_write(chain[i], alias->steps[i], value), value.where);
  }
  if (const auto* parameter = std::get_if<Parameter>(&storage.value)) {
    update(*parameter, value);
  } else {
    Tensor base = std::get<Tensor>(value.value);
    const Tensor& old_base = std::get<Tensor>(storage.value);
    if (!alias->steps.empty() && !tracing() && leaf_identity(old_base) != nullptr) replace_leaf(base, old_base);
    storage.value = std::move(base);
  }
  ++storage.version;
  if (!std::holds_alternative<Parameter>(target.content)) target.content = written;
  alias->version = storage.version;
}

}  // namespace

Value make_view(const Operand& input, ViewStep step) {
  const Term term = input;
  Value out(view_of(term, step));
  if (!nb::isinstance<Value>(input.object) || term.stands_for_number()) return out;
  const Value& value = *nb::inst_ptr<Value>(input.object);
  const auto* tensor = std::get_if<Tensor>(&term.value);
  if (tensor != nullptr && (tensor->lazy == nullptr) != tracing()) return out;
  if (step.kind == ViewStep::Kind::shape) step.count = out.type().shape;
  const Alias& alias = alias_of(value);
  const auto strides = strides_of(step, value.type().shape, alias.strides);
  if (!strides) return out;
  std::vector<ViewStep> steps = alias.steps;
  steps.push_back(std::move(step));
  out.alias = std::make_unique<Alias>(alias.storage, std::move(steps), *strides);
  return out;
}

void refresh(const Value& value) {
  const Alias& alias = *value.alias;
  const Storage& storage = *alias.storage;
  if (!std::holds_alternative<Parameter>(value.content)) {
    const Term last = chain_of(term_of(storage), alias.steps).back();
    value.content = std::get<Tensor>(last.value);
  }
  value.alias->version = storage.version;
}

void init_writes(nb::module_& m) {
  using namespace nb::literals;
  m.def("write", &write, "input"_a, "value"_a);
  // The number of the argument of a compiled function that a write would change, or -1.
  m.def("written_argument",
        [](const Value& value) { return value.alias != nullptr ? value.alias->storage->argument : value.argument; });
  m.def("is_contiguous", [](const Value& value) {
    return value.alias == nullptr || strides_of({ViewStep::Kind::shape, {value.type().count()}}, value.type().shape,
                                                value.alias->strides) == Ints{1};
  });
  // The parameter that a write changes, or 0 if it is none or the tensor is a detached view of it.
  m.def("written_parameter", [](const Value& value) -> std::uintptr_t {
    if (const auto* parameter = std::get_if<Parameter>(&value.content))
      return reinterpret_cast<std::uintptr_t>(parameter->identity().lock().get());
    if (value.alias == nullptr) return 0;
    const auto* parameter = std::get_if<Parameter>(&value.alias->storage->value);
    if (has_detached_step(value)) return 0;
    return parameter == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(parameter->identity().lock().get());
  });
  m.def("slice_view", [](const Operand& input, const Ints& first, const Ints& count, const Ints& step) {
    return make_view(input, {ViewStep::Kind::slice, count, first, step});
  });
  m.def("copied", [](const Operand& input) {
    const Term term = input;
    const auto* tensor = std::get_if<Tensor>(&term.value);
    return Value(tensor != nullptr ? value_of_copy(*tensor, term.where)
                                   : reshape(term, std::get<Parameter>(term.value).shape()));
  });
  m.def("detached", [](const Operand& input) { return make_view(input, {ViewStep::Kind::detached}); });
}

}  // namespace karez::python

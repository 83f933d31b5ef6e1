// kz.Tensor: one class for values of the program being traced, parameters and arrays on a mesh, with its operators.
#include <nanobind/operators.h>

#include <algorithm>
#include <array>

#include <nanobind/stl/string_view.h>

#include "karez/api/interactive.h"
#include "python/src/bindings.h"
#include "python/src/value.h"
#include "python/src/writes.h"

namespace karez::python {

const TensorType& Value::type() const {
  struct Visit {
    const TensorType& operator()(std::monostate) const { base::fail("a tensor without a value"); }
    const TensorType& operator()(const Tensor& t) const { return t.type; }
    const TensorType& operator()(const Parameter& p) const { return p.type(); }
    const TensorType& operator()(const Array& a) const { return a.type(); }
  };
  return std::visit(Visit{}, content);
}

const Tensor* Value::tensor() const {
  if (alias != nullptr && alias->version != alias->storage->version) refresh(*this);
  if (const auto* array = std::get_if<Array>(&content)) {
    Tensor converted(*array);
    content = std::move(converted);
  }
  return std::get_if<Tensor>(&content);
}

const Parameter& Value::parameter() const {
  const auto* found = std::get_if<Parameter>(&content);
  require(found != nullptr, "expected a parameter, got a tensor");
  return *found;
}

const Tensor& Value::outside() const {
  const Tensor* found = tensor();
  require(found != nullptr, "a parameter ", type(), " has no array of its own; p.numpy() reads its values");
  require(found->lazy != nullptr, "a tensor ", type(),
          " of a program being traced has no value yet; return it from the function, and read the result of the call");
  return *found;
}

namespace {
using namespace nb::literals;

Term term_of(const Value& value, const SourceLine& line) {
  if (value.tensor() == nullptr) return Term(value.parameter(), line);
  Term out(*value.tensor(), line);
  out.as_number = value.as_number;
  return out;
}

}  // namespace

Operand::operator Term() const {
  const SourceLine line = user_line();
  ensure_default_device();
  if (nb::isinstance<Value>(object)) {
    const Value& value = *nb::inst_ptr<Value>(object);
    Term out = term_of(value, line);
    // In a trace without gradients, operands are constants for gradients.
    if (is_grad_enabled() || !is_float(value.type().dtype) || out.stands_for_number() || !tracing()) return out;
    return Term(stop_gradient(out), line);
  }
  if (const Tensor* input = captured_input(object)) {
    Term out(*input, line);
    if (PyFloat_CheckExact(object.ptr())) out.as_number = Term::AsNumber::yes;
    return out;
  }
  if (PyBool_Check(object.ptr())) return Term(object.ptr() == Py_True, line);
  if (PyFloat_Check(object.ptr())) return Term(PyFloat_AS_DOUBLE(object.ptr()), line);
  if (!PyLong_Check(object.ptr()))
    return tracing() ? Term(constant(host_array(object), line), line) : Term(host_array(object), line);
  const long long number = PyLong_AsLongLong(object.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    base::fail(ErrorKind::type, "the number ", nb::cast<std::string>(nb::str(object)), " does not fit into 64 bits");
  }
  return Term(static_cast<std::int64_t>(number), line);
}

std::vector<Term> terms_of(const Operands& operands) { return {operands.begin(), operands.end()}; }

std::vector<Parameter> parameters_from(const std::vector<const Value*>& values) {
  std::vector<Parameter> out;
  for (const Value* value : values) out.push_back(value->parameter());
  return out;
}

namespace {

// A value that is computed only from arguments that stand for numbers, or from these and literal numbers, also stands
// for a number, unless it is a bool.
template <auto F> Value apply_operator(const Term& a, const Term& b) {
  const bool number = (a.stands_for_number() || b.stands_for_number()) && (a.stands_for_number() || a.is_number()) &&
                      (b.stands_for_number() || b.is_number());
  Value out(F(a, b));
  if (!number || out.type().dtype == DType::b8) return out;
  const bool wide =
      !is_float(out.type().dtype) && (a.as_number == Term::AsNumber::wide || b.as_number == Term::AsNumber::wide);
  out.as_number = wide ? Term::AsNumber::wide : Term::AsNumber::yes;
  return out;
}

template <auto F> void def_operator(nb::class_<Value>& type, const char* name, const char* reflected = nullptr) {
  type.def(
      name, [](const Operand& a, const Operand& b) { return apply_operator<F>(a, b); }, nb::is_operator());
  if (reflected != nullptr)
    type.def(
        reflected, [](const Operand& b, const Operand& a) { return apply_operator<F>(a, b); }, nb::is_operator());
}

nb::tuple shape_of(const Value& value) {
  nb::list out;
  for (std::int64_t size : value.type().shape) out.append(size);
  return nb::tuple(out);
}

// "f32[8@data, 4]" for an array that is split or Partial on its mesh; otherwise the logical type.
std::string layout_text(const Value& value) {
  const Tensor* tensor = value.tensor();
  if (tensor == nullptr || tensor->lazy == nullptr) return tensor::print(value.type());
  const SourceLine line = user_line();
  ensure_default_device();
  GilRelease without_gil;
  const Array array = computed(*tensor, line);
  const bool is_whole =
      std::all_of(array.layout().begin(), array.layout().end(), [](auto sbp) { return sbp.is_broadcast(); });
  return !is_whole ? sbp::print(array.type(), array.mesh(), array.layout()) : tensor::print(array.type());
}

// For each device: its name, and the range that it holds of each dimension.
nb::list device_boxes(const Value& value) {
  const Tensor tensor = value.outside();
  const SourceLine line = user_line();
  ensure_default_device();
  Array array;
  {
    GilRelease without_gil;
    array = computed(tensor, line);
  }
  nb::list out;
  const Mesh& mesh = array.mesh();
  for (int i = 0; i < mesh.size(); ++i) {
    nb::list ranges;
    for (const auto& range : sbp::local_box(array.type().shape, mesh, array.layout(), i))
      ranges.append(nb::make_tuple(range.begin, range.end));
    const auto device = mesh.devices[static_cast<std::size_t>(i)];
    out.append(nb::make_tuple(cat(device.rank, ".", device.device), ranges));
  }
  return out;
}

// The kind "array" is a value outside of a trace, such as the result of a call of a compiled function.
std::string_view kind_of(const Value& value) {
  if (std::holds_alternative<std::monostate>(value.content)) return "none";
  const Tensor* tensor = value.tensor();
  return tensor == nullptr ? "parameter" : tensor->lazy == nullptr ? "traced" : "array";
}

}  // namespace

void init_tensor(nb::module_& m) {
  nb::class_<Value> type(m, "Tensor", nb::dynamic_attr(), nb::is_weak_referenceable(), nb::type_slots(buffer_slots),
                         "A tensor: a value of the function that is being compiled, a parameter, or an array that a "
                         "compiled function returned.");
  type.def(nb::init<>());
  type.def("_bind", [](Value& value, Shape shape, DType dtype, const Initialiser& init, const std::string& site) {
    value.content = Parameter("unnamed", {dtype, std::move(shape)}, init, site);
  });
  type.def("_bind_path", [](const Value& value, const std::string& name) { value.parameter().set_name(name); });
  type.def_prop_ro("shape", shape_of, "The logical sizes, as a tuple.");
  type.def_prop_ro("_dtype", [](const Value& value) { return std::string(name_of(value.type().dtype)); });
  type.def_prop_ro("_kind", &kind_of);
  type.def_prop_ro("_is_host", [](const Value& value) {  // made from host bytes, such as a batch of a data set
    const Tensor* tensor = value.tensor();
    return tensor != nullptr && tensor->host_array().valid();
  });
  type.def_prop_ro("path", [](const Value& value) { return value.parameter().name(); });
  type.def_prop_ro("_identity", [](const Value& value) {
    return reinterpret_cast<std::uintptr_t>(value.parameter().identity().lock().get());
  });
  type.def("_text", [](const Value& value) { return tensor::print(value.type()); });
  type.def("_line", [](const Value& value) {
    return value.tensor() == nullptr ? std::string() : karez::line_of(*value.tensor());
  });
  type.def("_layout_text", &layout_text);
  type.def("_device_boxes", &device_boxes);
  type.def("_begin_with",
           [](const Value& value, nb::handle array) { value.parameter().set_initial_value(host_array(array)); });
  type.def("wait", [](const Value& value) {
    const Tensor tensor = value.outside();
    const SourceLine line = user_line();
    ensure_default_device();
    GilRelease without_gil;
    computed(tensor, line).wait();
  });
  type.def("_read", [](const Value& value) {
    const Tensor tensor = value.outside();
    if (tracing()) (value.alias == nullptr ? value.is_read_in_trace : value.alias->storage->is_read_in_trace) = true;
    const SourceLine line = user_line();
    ensure_default_device();
    HostArray out;
    {
      GilRelease without_gil;
      out = tensor.read(line);
    }
    return numpy_array(std::move(out));
  });
  type.def("_local", [](const Value& value) {
    const Tensor tensor = value.outside();
    const SourceLine line = user_line();
    std::vector<HostArray> parts;
    {
      GilRelease without_gil;
      parts = computed(tensor, line).local();
    }
    nb::list out;
    for (HostArray& part : parts) out.append(numpy_array(std::move(part)));
    return out;
  });
  type.def_prop_ro("_number", [](const Value& value) { return static_cast<int>(value.as_number); });
  type.def("_as_number",
           [](const Value& input, int kind) { return Value(*input.tensor(), static_cast<Term::AsNumber>(kind)); });
  using BinaryFunction = Tensor (*)(Term, Term);
  def_operator<static_cast<BinaryFunction>(&karez::operator+)>(type, "__add__", "__radd__");
  def_operator<static_cast<BinaryFunction>(&karez::operator-)>(type, "__sub__", "__rsub__");
  def_operator<static_cast<BinaryFunction>(&karez::operator*)>(type, "__mul__", "__rmul__");
  def_operator<static_cast<BinaryFunction>(&karez::operator/)>(type, "__truediv__", "__rtruediv__");
  def_operator<&karez::pow>(type, "__pow__", "__rpow__");
  def_operator<static_cast<BinaryFunction>(&karez::operator<)>(type, "__lt__");
  def_operator<static_cast<BinaryFunction>(&karez::operator<=)>(type, "__le__");
  def_operator<static_cast<BinaryFunction>(&karez::operator>)>(type, "__gt__");
  def_operator<static_cast<BinaryFunction>(&karez::operator>=)>(type, "__ge__");
  def_operator<&karez::equal>(type, "__eq__");
  def_operator<&karez::not_equal>(type, "__ne__");
  type.def("__neg__", [](const Operand& operand) {
    const Term x = operand;
    return x.stands_for_number() ? apply_operator<static_cast<BinaryFunction>(&karez::operator*)>(x, -1) : Value(-x);
  });
  nb::class_<Initialiser>(
      m, "Initialiser",
      "An initialiser of a parameter. The world's seed and the number of parameters created before determine the "
      "values.");
  m.def("next_site", &next_site);
  m.def("restart_sites", &restart_sites);
  m.def("uniform_init", &uniform_init, "bound"_a);
  m.def("normal_init", &normal_init, "deviation"_a);
  m.def("constant_init", &constant_init, "value"_a);
  m.def("zero_row_init", &zero_row_init, "initialiser"_a, "row"_a);
  m.def(
      "value_init", [](nb::handle array) { return value_init(host_array(array)); }, "array"_a);
}

}  // namespace karez::python

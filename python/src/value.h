// The content of Python's Tensor class, and the operands of functions.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "karez/api/array.h"
#include "karez/api/functions.h"
#include "python/src/errors.h"
#include "python/src/gil_release.h"
#include "python/src/storage.h"

namespace karez::python {
namespace nb = nanobind;

// The content of a Python tensor: a tensor (of the program being traced, or outside of a trace), a parameter, or
// nothing, which means no gradient. An array is the result of a call that has not been used; its first use converts it
// to a tensor, because a step may return hundreds of results that are never used. Access requires the interpreter's
// lock.
//
// The content of a tensor that shares its storage with views is computed again when it is next used after a write.
struct Value {
  mutable std::variant<std::monostate, Tensor, Parameter, Array> content;
  Term::AsNumber as_number = Term::AsNumber::no;  // not `no` for an input of a trace that stands for a number among
                                                  // the arguments, or a value computed only from numbers
  int argument = -1;                              // the number of the argument of a function that is being compiled
  mutable bool is_read_in_trace = false;          // a program has the numbers as constants
  mutable std::unique_ptr<Alias> alias;           // null if this tensor shares its storage with no other tensor

  Value() = default;
  Value(Tensor tensor, Term::AsNumber as_number = Term::AsNumber::no)
      : content(std::move(tensor)),
        as_number(as_number) {}
  Value(Array array) : content(std::move(array)) {}
  Value(Parameter parameter) : content(std::move(parameter)) {}
  const TensorType& type() const;
  const Tensor* tensor() const;        // null if this is a parameter or nothing
  const Parameter& parameter() const;  // throws if this is not a parameter
  const Tensor& outside() const;       // throws if this is not a tensor outside of a trace
};

// An argument of a function of tensors: a Value, a number or a NumPy array. It is converted to a Term when needed, with
// the user's source line.
struct Operand {
  nb::object object;
  operator Term() const;
};
using Operands = std::vector<Operand>;
std::vector<Term> terms_of(const Operands& operands);
std::vector<Parameter> parameters_from(const std::vector<const Value*>& values);

// The dimensions of a reduction: one, several, or None, which stands for all and is the same as an empty list.
struct Dims {
  std::vector<std::int64_t> values;
};

// The input of the trace that replaces this captured number or array, or null if there is none.
const Tensor* captured_input(nb::handle object);

// Conversions between NumPy arrays and host arrays.
HostArray host_array(nb::handle array);      // a copy of anything that numpy.asarray accepts
HostArray borrowed_array(nb::handle array);  // shares the bytes of a dense and aligned NumPy array; otherwise a copy
nb::object numpy_array(HostArray array);     // throws for bfloat16, unless ml_dtypes is imported
HostArray half_array_from_dlpack(
    const nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>& array);  // a copy, for dtypes without a NumPy type
nb::dlpack::dtype dlpack_of(DType dtype);
nb::object read_only_numpy_array(const HostArray& array);  // a small array is copied
// A number as a NumPy scalar, such as numpy.int64, and the reverse: nothing if the object is no scalar of such a dtype.
nb::object numpy_scalar(const HostArray& array);
std::optional<HostArray> array_of_scalar(nb::handle object);
bool is_numpy(nb::handle object);                       // a NumPy array or scalar
std::optional<DType> dtype_of_numpy(nb::handle array);  // of a NumPy array; nothing if tensors do not have it

// The buffer protocol of Tensor. It gives access to the memory of an unsharded array, without a copy.
extern PyType_Slot buffer_slots[];

// Values computed outside of compiled functions from no array on a mesh are placed on the first device of the default
// world. This function makes that device current, and creates the world if there is none.
void ensure_default_device();

std::string_view numpy_name(DType dtype);  // "float32"

// The dtype for a name, or for an object that has such a name: "f32", "float32", numpy.float32.
DType dtype_of_object(nb::handle object);

}  // namespace karez::python

namespace nanobind::detail {

template <> struct type_caster<karez::python::Operand> {
  NB_TYPE_CASTER(karez::python::Operand, const_name("Tensor | float | int | bool | numpy.ndarray"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    if (!isinstance<karez::python::Value>(src) && !PyFloat_Check(src.ptr()) && !PyLong_Check(src.ptr()) &&
        !karez::python::is_numpy(src))
      return false;
    value.object = borrow(src);
    return true;
  }
};

// The items of a sequence may exist only while they are read, such as the rows of a tensor. They are kept until the
// function returns. None is no item.
template <> struct type_caster<std::vector<const karez::python::Value*>> {
  using Values = std::vector<const karez::python::Value*>;
  using Item = make_caster<const karez::python::Value*>;
  NB_TYPE_CASTER(Values, io_name("collections.abc.Sequence", "list") + const_name("[") + Item::Name + const_name("]"))
  bool from_python(handle src, uint8_t flags, cleanup_list* cleanup) noexcept {
    if (PySequence_Check(src.ptr()) == 0 || cleanup == nullptr) return false;
    PyObject* items = PySequence_Tuple(src.ptr());
    if (items == nullptr) return PyErr_Clear(), false;
    cleanup->append(items);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); ++i) {
      Item item;
      const handle object = PyTuple_GET_ITEM(items, i);
      if (object.is_none() || !item.from_python(object, flags, cleanup)) return false;
      value.push_back(item.operator karez::python::Value*());
    }
    return true;
  }
};

template <> struct type_caster<karez::python::Dims> {
  NB_TYPE_CASTER(karez::python::Dims, const_name("int | collections.abc.Sequence[int]"))
  bool from_python(handle src, uint8_t flags, cleanup_list* cleanup) noexcept {
    if (src.is_none()) return true;
    make_caster<std::vector<std::int64_t>> several;
    if (several.from_python(src, flags, cleanup)) return value.values = several.value, true;
    make_caster<std::int64_t> one;
    if (!one.from_python(src, flags, cleanup)) return false;
    value.values = {one.value};
    return true;
  }
};

template <> struct type_caster<karez::DType> {
  NB_TYPE_CASTER(karez::DType, const_name("DType"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    try {
      value = karez::python::dtype_of_object(src);
      return true;
    } catch (...) { return PyErr_Clear(), false; }
  }
};

}  // namespace nanobind::detail

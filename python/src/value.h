// The content of Python's Tensor class, and the operands of functions.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <variant>
#include <vector>

#include "karez/api/array.h"
#include "karez/api/functions.h"
#include "python/src/errors.h"
#include "python/src/gil_release.h"

namespace karez::python {
namespace nb = nanobind;

// A tensor, of the program being traced or outside of one, or a parameter; empty: no gradient. An array is a result
// that has not been used: its first use makes it a tensor, since a step may return hundreds of results that are dropped
// unused. Needs the interpreter's lock.
struct Value {
  mutable std::variant<std::monostate, Tensor, Parameter, Array> content;
  Term::AsNumber as_number = Term::AsNumber::no;  // an input of a trace that stands for a number of the call,
                                                  // or a value computed only from such inputs

  Value() = default;
  Value(Tensor tensor, Term::AsNumber as_number = Term::AsNumber::no)
      : content(std::move(tensor)),
        as_number(as_number) {}
  Value(Array array) : content(std::move(array)) {}
  Value(Parameter parameter) : content(std::move(parameter)) {}
  const TensorType& type() const;
  const Tensor* tensor() const;        // null: a parameter
  const Parameter& parameter() const;  // an error otherwise
  const Tensor& outside() const;       // a tensor outside of a trace, otherwise an error
};

// An argument of a function of tensors: a Value, a number or a NumPy array; it is converted to a Term on demand, with
// the user's line.
struct Operand {
  nb::object object;
  operator Term() const;
};
using Operands = std::vector<Operand>;
std::vector<Term> terms_of(const Operands& operands);
std::vector<Parameter> parameters_from(const std::vector<const Value*>& values);

// Captured numbers and arrays that inputs of a trace replace: the input for this object, or null.
const Tensor* captured_input(nb::handle object);

// NumPy arrays and host arrays: values that NumPy converts are copied; a returned array owns its bytes.
HostArray host_array(nb::handle array);
HostArray borrowed_array(
    nb::handle array);  // shares the bytes of a dense and aligned NumPy array; otherwise a copy
nb::object numpy_array(HostArray array);  // an error for bfloat16, unless ml_dtypes is imported
HostArray half_array_from_dlpack(
    const nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>& given);  // dtypes without a NumPy type
nb::dlpack::dtype dlpack_of(DType dtype);
bool is_numpy(nb::handle object);  // a NumPy array or scalar

// The buffer protocol of Tensor: the memory of a whole array, without a copy.
extern PyType_Slot buffer_slots[];

// The mesh of values computed outside of compiled functions without an array operand: the default world's first
// device.
void ensure_default_device();

// A dtype by its name, or anything of that name ("f32", "float32", numpy.float32).
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

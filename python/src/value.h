// What Python's one Tensor holds, and the operands that functions take.
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

// A tensor, of the program being traced or outside of one, or a parameter. Nothing: no gradient. An array is a result
// that nobody has looked at: it becomes a tensor when somebody does, for a step may give hundreds that are dropped
// unseen. With the interpreter's lock.
struct Value {
  mutable std::variant<std::monostate, Tensor, Parameter, Array> content;
  Term::AsNumber as_number = Term::AsNumber::no;  // an input of a trace that a number of the call takes the place of,
                                                  // or what is computed from such alone

  Value() = default;
  Value(Tensor tensor, Term::AsNumber as_number = Term::AsNumber::no)
      : content(std::move(tensor)),
        as_number(as_number) {}
  Value(Array array) : content(std::move(array)) {}
  Value(Parameter parameter) : content(std::move(parameter)) {}
  const TensorType& type() const;
  const Tensor* tensor() const;        // null: a parameter
  const Parameter& parameter() const;  // or an error
  const Tensor& outside() const;       // one outside of a trace, likewise
};

// An argument of a function of tensors: a Value, a number or a NumPy array; becomes a Term when it is asked for, with
// the user's line.
struct Operand {
  nb::object object;
  operator Term() const;
};
using Operands = std::vector<Operand>;
std::vector<Term> terms_of(const Operands& operands);
std::vector<Parameter> parameters_from(const std::vector<const Value*>& values);

// Captured numbers and arrays of which a trace's inputs take the place: the input for this very object; null where
// there is none.
const Tensor* captured_input(nb::handle object);

// NumPy's arrays and ours: whatever NumPy can make an array of is copied in; out of here an array owns its bytes.
HostArray host_array(nb::handle array);
HostArray borrowed_array(
    nb::handle array);  // the bytes of a NumPy array themselves, where they are dense and aligned; otherwise a copy
nb::object numpy_array(HostArray array);  // of bfloat16 an error, unless ml_dtypes is imported
HostArray half_array_from_dlpack(
    const nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>& given);  // what NumPy cannot hold
nb::dlpack::dtype dlpack_of(DType dtype);
bool is_numpy(nb::handle object);  // an array or a scalar of NumPy's

// The buffer protocol of Tensor: bytes of a whole array where they lie.
extern PyType_Slot buffer_slots[];

// What is computed outside of compiled functions without an array among its operands lies on the default world's first
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

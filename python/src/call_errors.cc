// Errors of calls whose arguments do not fit the signature of a function: one sentence instead of nanobind's list of
// C++ signatures.
#include "python/src/call_errors.h"

#include <nanobind/stl/string.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "karez/api/tensor.h"

namespace karez::python {
namespace nb = nanobind;
namespace {

// nanobind calls its functions in one of a few ways, which depend on their arguments. Module state, written when the
// module is imported.
constexpr std::size_t max_ways = 8;
std::array<vectorcallfunc, max_ways> ways;

// If the current error is that of a call whose arguments fit no signature, replaces it by one that karez.call_errors
// makes from the signature and the arguments.
void explain(PyObject* function, PyObject* const* arguments, std::size_t flagged_count, PyObject* keywords) {
  if (PyErr_Occurred() != PyExc_TypeError) return;
  nb::python_error error;  // takes the current error
  try {
    if (nb::cast<std::string>(nb::str(error.value())).find("(): incompatible function arguments.") == std::string::npos)
      return error.restore();
    nb::list positional;
    const std::size_t count = flagged_count & 0xffffffff;  // the upper bits are flags of Python and of nanobind
    for (std::size_t i = 0; i < count; ++i) positional.append(nb::borrow(arguments[i]));
    nb::dict named;
    const auto named_count = static_cast<std::size_t>(keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords));
    for (std::size_t i = 0; i < named_count; ++i)
      named[nb::handle(PyTuple_GET_ITEM(keywords, static_cast<Py_ssize_t>(i)))] = nb::handle(arguments[count + i]);
    nb::object explained = nb::module_::import_("karez.call_errors")
                               .attr("misfit_error")(nb::borrow(function), std::move(positional), std::move(named));
    PyErr_SetObject(explained.type().ptr(), explained.ptr());
  } catch (nb::python_error& other) { other.restore(); }
}

template <std::size_t way>
PyObject* call(PyObject* function, PyObject* const* arguments, std::size_t flagged_count, PyObject* keywords) {
  PyObject* result = ways[way](function, arguments, flagged_count, keywords);
  if (result == nullptr) [[unlikely]]
    explain(function, arguments, flagged_count, keywords);
  return result;
}

template <std::size_t... way> constexpr std::array<vectorcallfunc, max_ways> calls_of(std::index_sequence<way...>) {
  return {&call<way>...};
}
constexpr std::array<vectorcallfunc, max_ways> calls = calls_of(std::make_index_sequence<max_ways>());

void explain_calls_of(nb::handle function) {
  const Py_ssize_t offset = Py_TYPE(function.ptr())->tp_vectorcall_offset;
  auto* address = reinterpret_cast<char*>(function.ptr()) + offset;
  vectorcallfunc current = nullptr;
  std::memcpy(&current, address, sizeof(current));
  std::size_t way = 0;
  while (way < max_ways && ways[way] != nullptr && ways[way] != current) ++way;
  base::require(way < max_ways, "nanobind has more than ", max_ways, " ways to call a function");
  ways[way] = current;
  std::memcpy(address, &calls[way], sizeof(current));
}

bool is_function(nb::handle object) {
  const std::string_view type = Py_TYPE(object.ptr())->tp_name;
  return type.ends_with("nb_func") || type.ends_with("nb_method");
}

}  // namespace

void explain_calls(const nb::module_& m) {
  for (nb::handle value : nb::borrow<nb::dict>(m.attr("__dict__")).values()) {
    if (is_function(value)) {
      explain_calls_of(value);
    } else if (PyType_Check(value.ptr())) {
      for (nb::handle member : value.attr("__dict__").attr("values")())
        if (is_function(member)) explain_calls_of(member);
    }
  }
}

}  // namespace karez::python

// A number that tells whether the parameters of a module have changed since they got their names.
#include <cstdint>

#include "python/src/bindings.h"

namespace karez::python {
namespace {

// Walks through the members of a module as `_add_tensors` of module.py does, but makes no text.
class Walk {
 public:
  Walk(nb::handle parameter, nb::handle module, nb::handle skipped)
      : parameter_(reinterpret_cast<PyTypeObject*>(parameter.ptr())),
        module_(reinterpret_cast<PyTypeObject*>(module.ptr())),
        skipped_(skipped.ptr()) {}

  void visit_module(PyObject* module) {
    for (const Outer* outer = outer_; outer != nullptr; outer = outer->next)
      if (outer->module == module) return;  // a module inside itself
    nb::object members = nb::steal(PyObject_GenericGetDict(module, nullptr));
    if (!members.is_valid()) throw nb::python_error();
    const Outer here{module, outer_};
    outer_ = &here;
    visit_dict(members.ptr(), true);
    outer_ = here.next;
  }

  // 0 if a parameter has no name yet.
  std::uint64_t key() const { return has_unnamed_ ? 0 : key_ | 1; }

 private:
  static constexpr std::uint64_t end = ~std::uint64_t{0};  // of the items of a module, dict, list or tuple
  struct Outer {
    PyObject* module;
    const Outer* next;
  };

  void visit_dict(PyObject* items, bool of_module) {
    PyObject *name = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(items, &at, &name, &value) != 0) {
      if (is_plain(value) || (of_module && PySet_Contains(skipped_, name) == 1)) continue;
      const Py_hash_t hash = PyObject_Hash(name);
      if (hash == -1) throw nb::python_error();
      visit(static_cast<std::uint64_t>(hash), value);
    }
  }

  void visit(std::uint64_t name, PyObject* value) {
    if (PyObject_TypeCheck(value, parameter_) != 0) {
      add(name);
      add(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(value)));
      has_unnamed_ |= nb::getattr(value, "_named").ptr() != Py_True;
    } else if (PyObject_TypeCheck(value, module_) != 0) {
      add(name);
      visit_module(value);
      add(end);
    } else if (PyDict_Check(value) != 0) {
      add(name);
      visit_dict(value, false);
      add(end);
    } else if (PyList_Check(value) != 0 || PyTuple_Check(value) != 0) {
      add(name);
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
        if (PyObject* item = PySequence_Fast_GET_ITEM(value, i); !is_plain(item))
          visit(static_cast<std::uint64_t>(i), item);
      add(end);
    }
  }

  static bool is_plain(PyObject* value) {
    const PyTypeObject* type = Py_TYPE(value);
    return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type ||
           value == Py_None;
  }

  void add(std::uint64_t word) {  // the multiplier is 2 to the 64, divided by the golden ratio
    key_ = (key_ ^ word) * 0x9e3779b97f4a7c15ull;
    key_ ^= key_ >> 29;
  }

  PyTypeObject *parameter_, *module_;
  PyObject* skipped_;
  const Outer* outer_ = nullptr;
  std::uint64_t key_ = 0;
  bool has_unnamed_ = false;
};

}  // namespace

void init_module_members(nb::module_& m) {
  using namespace nb::literals;
  // Equal numbers mean the same parameters at the same paths. `skipped`: a frozenset of names of attributes.
  m.def(
      "members_key",
      [](nb::handle module, nb::handle parameter_type, nb::handle module_type, nb::handle skipped) {
        Walk walk(parameter_type, module_type, skipped);
        walk.visit_module(module.ptr());
        return walk.key();
      },
      "module"_a, "parameter_type"_a, "module_type"_a, "skipped"_a);
}

}  // namespace karez::python

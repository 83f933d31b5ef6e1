// Guards, which compare at each call the current Python values with those that a trace may have read, and the function
// entry hook of a trace.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "python/src/bindings.h"
#include "python/src/errors.h"

namespace karez::python {
namespace {
using namespace nb::literals;

// The location of a value, relative to the value of the parent guard.
enum class GuardSource : int {
  root,             // the key itself, or the referent of a weak reference
  item,             // item of a dict
  own_dict,         // the __dict__ of an object
  class_attribute,  // attribute in the dicts of an object's class and its bases, or of a class and its bases
  cell,             // cell of a function's closure, by index
  index,            // item of a list or tuple
  attribute,        // any attribute, by getattr
  method_result,    // result of a method without arguments
  items,            // all items, as a list
  type_dict,        // the __dict__ of a class
};

// The condition on the value.
enum class Check : int {
  any,
  absent,
  scalar,    // same type and equal; floats bit by bit
  sequence,  // a list or tuple of the same type and length
  mapping,   // a dict of the same type with these keys in this order
  set,       // same type and equal
  same,      // the same object with an unchanged class; held by a weak reference if possible
  array,     // a NumPy array with these bytes
};

// The referent of a weak reference, or null if the referent no longer exists.
PyObject* weak_target(PyObject* weak) {
#if PY_VERSION_HEX >= 0x030d0000
  PyObject* out = nullptr;
  if (PyWeakref_GetRef(weak, &out) < 0) PyErr_Clear();
  Py_XDECREF(out);  // another reference exists
  return out;
#else
  PyObject* out = PyWeakref_GetObject(weak);
  return out == Py_None ? nullptr : out;
#endif
}

// `is_weak`: on entry, whether to try a weak reference; on return, whether the result is one.
nb::object weak_or_strong_ref(PyObject* object, bool& is_weak) {
  is_weak = is_weak && PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) != 0;
  if (is_weak) {
    nb::object weak = nb::steal(PyWeakref_NewRef(object, nullptr));
    if (weak.is_valid()) return weak;
    PyErr_Clear();
    is_weak = false;
  }
  return nb::borrow(object);
}

PyObject* in_class(PyObject* of, PyObject* name) {
  auto* type = PyType_Check(of) ? reinterpret_cast<PyTypeObject*>(of) : Py_TYPE(of);
  PyObject* bases = type->tp_mro;
  for (Py_ssize_t i = 0; bases != nullptr && i < PyTuple_GET_SIZE(bases); ++i) {
    PyObject* dict = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, i))
                         ->tp_dict;  // null for some C classes, which never change
    if (dict == nullptr) continue;
    if (PyObject* found = PyDict_GetItemWithError(dict, name)) return found;
  }
  return nullptr;
}

bool equal(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) {
    const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  const int same = PyObject_RichCompareBool(a, b, Py_EQ);
  if (same < 0) PyErr_Clear();
  return same == 1;
}

bool has_keys(PyObject* dict, PyObject* keys) {
  if (PyODict_Check(dict))
    return nb::steal(PySequence_Tuple(dict)).equal(nb::handle(keys));  // PyDict_Next may give a different order
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0, i = 0;
  while (PyDict_Next(dict, &at, &key, &value) != 0) {
    PyObject* wanted = PyTuple_GET_ITEM(keys, i);
    if (key != wanted && !(PyUnicode_CheckExact(key) && equal(key, wanted)) &&
        !(PyLong_CheckExact(key) && equal(key, wanted)) && !(PyTuple_CheckExact(key) && equal(key, wanted)))
      return false;
    ++i;
  }
  return true;
}

// An array's dtype, shape and elements in C order.
nb::object array_snapshot(PyObject* array) {
  nb::handle whole(array);
  if (!nb::hasattr(whole, "tobytes")) return nb::bytes(nb::steal(PyBytes_FromObject(array)));
  return nb::make_tuple(nb::getattr(whole, "dtype", nb::none()), nb::getattr(whole, "shape", nb::none()),
                        whole.attr("tobytes")());
}

bool equals_snapshot(PyObject* array, PyObject* snapshot) {
  Py_buffer now;
  if (!PyTuple_CheckExact(snapshot) || PyObject_GetBuffer(array, &now, PyBUF_ND) != 0) {
    PyErr_Clear();  // the array is strided, or the buffer protocol does not support its type
    return array_snapshot(array).equal(nb::handle(snapshot));
  }
  PyObject* bytes = PyTuple_GET_ITEM(snapshot, 2);
  const bool alike = now.len == PyBytes_GET_SIZE(bytes) &&
                     std::memcmp(now.buf, PyBytes_AS_STRING(bytes), static_cast<std::size_t>(now.len)) == 0;
  PyBuffer_Release(&now);
  const nb::handle whole(array);
  return alike && nb::getattr(whole, "dtype", nb::none()).equal(nb::handle(PyTuple_GET_ITEM(snapshot, 0))) &&
         nb::getattr(whole, "shape", nb::none()).equal(nb::handle(PyTuple_GET_ITEM(snapshot, 1)));
}

struct Guard {
  int parent;
  GuardSource source;
  Check check;
  nb::object key;       // a name, an index or an object
  bool weak_key;        // whether `key` is a weak reference that Guards made
  nb::object expected;  // depending on `check`: the value, its length, its keys, a reference, or a snapshot
  bool weak;            // whether `expected` is a weak reference that Guards made, not one of the user's
  PyTypeObject* type;   // the type of the recorded value, compared by identity
  Py_ssize_t number;    // the recorded length, or the key as an index
  bool dropped;         // if true, the guard and its children are not checked
};

class Guards {
 public:
  // parent: the number of the parent guard, or -1. Returns the number of the new guard.
  int add(int parent, int fetch, nb::object key, int check, nb::object value) {
    Guard guard{parent,
                static_cast<GuardSource>(fetch),
                static_cast<Check>(check),
                std::move(key),
                false,
                {},
                false,
                Py_TYPE(value.ptr()),
                0,
                false};
    if (guard.source == GuardSource::root) {
      guard.weak_key = !PyDict_Check(guard.key.ptr()) && !PyFunction_Check(guard.key.ptr());
      guard.key = weak_or_strong_ref(guard.key.ptr(), guard.weak_key);
    }
    if (guard.source == GuardSource::cell || guard.source == GuardSource::index)
      guard.number = nb::cast<Py_ssize_t>(guard.key);
    switch (guard.check) {
      case Check::any:
      case Check::absent: break;
      case Check::scalar: guard.expected = value; break;
      case Check::sequence: guard.expected = nb::int_(PySequence_Fast_GET_SIZE(value.ptr())); break;
      case Check::mapping: guard.expected = nb::steal(PySequence_Tuple(value.ptr())); break;
      case Check::set: guard.expected = nb::steal(PyFrozenSet_New(value.ptr())); break;
      case Check::same:
        guard.weak = true;
        guard.expected = weak_or_strong_ref(value.ptr(), guard.weak);
        break;
      case Check::array: guard.expected = array_snapshot(value.ptr()); break;
    }
    list_.push_back(std::move(guard));
    return static_cast<int>(list_.size()) - 1;
  }

  bool all_hold() const {
    Values values(list_.size());
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (!list_[i].dropped && !holds(i, values)) return false;
    return true;
  }

  // The failing guards; descendants of failing guards are left out.
  std::vector<int> failing() const {
    Values values(list_.size());
    std::vector<int> out;
    std::vector<bool> below(list_.size(), false);
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const int parent = list_[i].parent;
      below[i] = parent >= 0 && below[static_cast<std::size_t>(parent)];
      if (below[i] || list_[i].dropped || holds(i, values)) continue;
      out.push_back(static_cast<int>(i));
      below[i] = true;
    }
    return out;
  }

  // The current value, or `missing` if no value exists.
  nb::object value(int number, nb::object missing) const {
    std::vector<std::size_t> ancestors;
    for (int i = number; i >= 0; i = list_.at(static_cast<std::size_t>(i)).parent)
      ancestors.push_back(static_cast<std::size_t>(i));
    Values values(list_.size());
    for (std::size_t i = ancestors.size(); i-- > 0;)
      if (fetch(ancestors[i], values) == nullptr) return missing;
    return nb::borrow(values.at[static_cast<std::size_t>(number)]);
  }

  nb::object expected(int number) const {
    const nb::object& expected_value = list_.at(static_cast<std::size_t>(number)).expected;
    return expected_value.is_valid() ? expected_value : nb::none();
  }

  // Drops these guards and their children.
  void drop(const std::vector<int>& numbers) {
    std::vector<bool> gone(list_.size(), false);
    for (int number : numbers) gone.at(static_cast<std::size_t>(number)) = true;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const int parent = list_[i].parent;
      gone[i] = gone[i] || (parent >= 0 && gone[static_cast<std::size_t>(parent)]);
      if (gone[i]) list_[i].check = Check::any, list_[i].expected = {}, list_[i].dropped = true;
    }
  }

  // Drops the condition of this guard, but not those of its children.
  void loosen(int number) { list_.at(static_cast<std::size_t>(number)).check = Check::any; }

  bool dropped(int number) const { return list_.at(static_cast<std::size_t>(number)).dropped; }

  std::size_t size() const { return list_.size(); }

  int visit(visitproc visit, void* arg) const {
    for (const Guard& guard : list_) {
      Py_VISIT(guard.key.ptr());
      Py_VISIT(guard.expected.ptr());
    }
    return 0;
  }
  void clear() { list_.clear(); }

 private:
  // The values of guards, as borrowed references. `intermediates` owns the values that were created by reading them.
  struct Values {
    explicit Values(std::size_t count) : at(count, nullptr) {}
    std::vector<PyObject*> at;
    std::vector<nb::object> intermediates;
  };

  PyObject* fetch(std::size_t i, Values& values) const {
    const Guard& guard = list_[i];
    PyObject* above = guard.parent < 0 ? nullptr : values.at[static_cast<std::size_t>(guard.parent)];
    if (above == nullptr && guard.source != GuardSource::root) return nullptr;
    return values.at[i] = found(guard, above, values);
  }

  static PyObject* keep_reference(PyObject* fresh, Values& values) {
    if (fresh == nullptr) return PyErr_Clear(), nullptr;
    values.intermediates.push_back(nb::steal(fresh));
    return fresh;
  }

  static PyObject* found(const Guard& guard, PyObject* above, Values& values) {
    PyObject* key = guard.key.ptr();
    switch (guard.source) {
      case GuardSource::root: return guard.weak_key ? weak_target(key) : key;
      case GuardSource::item: return PyDict_Check(above) ? PyDict_GetItemWithError(above, key) : nullptr;
      case GuardSource::own_dict: {
        if (PyModule_Check(above)) return PyModule_GetDict(above);
        nb::object dict = nb::steal(PyObject_GenericGetDict(above, nullptr));
        if (!dict.is_valid()) PyErr_Clear();
        return dict.ptr();  // the object keeps its dict alive
      }
      case GuardSource::class_attribute: return in_class(above, key);
      case GuardSource::cell: {
        PyObject* cells = PyFunction_Check(above) ? PyFunction_GET_CLOSURE(above) : nullptr;
        return cells == nullptr || guard.number >= PyTuple_GET_SIZE(cells)
                   ? nullptr
                   : PyCell_GET(PyTuple_GET_ITEM(cells, guard.number));
      }
      case GuardSource::index:
        if (PyList_Check(above))
          return guard.number < PyList_GET_SIZE(above) ? PyList_GET_ITEM(above, guard.number) : nullptr;
        return PyTuple_Check(above) && guard.number < PyTuple_GET_SIZE(above) ? PyTuple_GET_ITEM(above, guard.number)
                                                                              : nullptr;
      case GuardSource::attribute: return keep_reference(PyObject_GetAttr(above, key), values);
      case GuardSource::method_result: return keep_reference(PyObject_CallMethodNoArgs(above, key), values);
      case GuardSource::items: return keep_reference(PySequence_List(above), values);
      case GuardSource::type_dict:
        return PyType_Check(above) ? reinterpret_cast<PyTypeObject*>(above)->tp_dict : nullptr;
    }
    return nullptr;
  }

  bool holds(std::size_t i, Values& values) const {
    const Guard& guard = list_[i];
    PyObject* value = fetch(i, values);
    if (guard.check == Check::any) return true;
    if (guard.check == Check::absent || value == nullptr) return guard.check == Check::absent && value == nullptr;
    PyObject* expected = guard.expected.ptr();
    switch (guard.check) {
      case Check::scalar: return equal(value, expected);
      case Check::sequence:
        return Py_TYPE(value) == guard.type && PySequence_Fast_GET_SIZE(value) == PyLong_AsSsize_t(expected);
      case Check::mapping:
        return Py_TYPE(value) == guard.type && PyDict_GET_SIZE(value) == PyTuple_GET_SIZE(expected) &&
               has_keys(value, expected);
      case Check::set: return Py_TYPE(value) == guard.type && nb::handle(value).equal(nb::handle(expected));
      case Check::same: return (guard.weak ? weak_target(expected) : expected) == value && Py_TYPE(value) == guard.type;
      case Check::array: return Py_TYPE(value) == guard.type && equals_snapshot(value, expected);
      default: return true;
    }
  }

  std::vector<Guard> list_;
};

PyType_Slot guards_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(+[](PyObject* self, visitproc visit, void* arg) -> int {
       Py_VISIT(Py_TYPE(self));
       return nb::inst_ready(self) ? nb::inst_ptr<Guards>(self)->visit(visit, arg) : 0;
     })},
    {Py_tp_clear, reinterpret_cast<void*>(+[](PyObject* self) -> int {
       if (nb::inst_ready(self)) nb::inst_ptr<Guards>(self)->clear();
       return 0;
     })},
    {0, nullptr}};

// A context manager. In its scope, `callback(code, globals)` is called when this thread enters a Python function for
// the first time, before the first line of the function runs.
class FunctionEntryHook {
 public:
  explicit FunctionEntryHook(nb::object callback) : entered_(std::move(callback)) {}

  void begin() {
    PyThreadState* thread = PyThreadState_Get();
    before_ = thread->c_profilefunc;
    before_object_ = nb::borrow(thread->c_profileobj);
    nb::object self = nb::find(*this);
    PyEval_SetProfile(&FunctionEntryHook::on_event, self.ptr());
  }
  void end() {
    PyEval_SetProfile(before_, before_object_.ptr());
    before_object_ = {};
    if (failed_) throw *std::exchange(failed_, std::nullopt);
  }

 private:
  static int on_event(PyObject* self, PyFrameObject* frame, int what, PyObject* argument) {
    FunctionEntryHook& hook = *nb::inst_ptr<FunctionEntryHook>(self);
    if (what == PyTrace_CALL) {
      nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
      if (hook.seen_.insert(code.ptr()).second) hook.enter(std::move(code), reinterpret_cast<PyObject*>(frame));
    }
    return hook.before_ == nullptr ? 0 : hook.before_(hook.before_object_.ptr(), frame, what, argument);
  }

  void enter(nb::object code, PyObject* frame) {
    codes_.push_back(code);  // kept alive, so that no other code object gets the same address
    if (failed_) return;
    try {
      entered_(code, nb::handle(frame).attr("f_globals"));
    } catch (const nb::python_error& error) {
      failed_.emplace(error);
    }  // keeps the python_error, not only its value, which may still be a string before Python 3.12
  }

  nb::object entered_, before_object_;
  std::optional<nb::python_error> failed_;
  Py_tracefunc before_ = nullptr;
  std::unordered_set<PyObject*> seen_;
  std::vector<nb::object> codes_;
};

}  // namespace

void init_guards(nb::module_& m) {
  nb::class_<Guards>(m, "Guards", nb::type_slots(guards_slots))
      .def(nb::init<>())
      .def("add", &Guards::add, "parent"_a, "fetch"_a, "key"_a.none(), "check"_a, "value"_a.none())
      .def("all_hold", &Guards::all_hold)
      .def("failing", &Guards::failing)
      .def("value", &Guards::value, "number"_a, "missing"_a.none())
      .def("expected", &Guards::expected)
      .def("drop", &Guards::drop)
      .def("loosen", &Guards::loosen)
      .def("dropped", &Guards::dropped)
      .def("__len__", &Guards::size);
  nb::class_<FunctionEntryHook>(m, "FunctionEntryHook")
      .def(nb::init<nb::object>())
      .def("__enter__", &FunctionEntryHook::begin)
      .def("__exit__", [](FunctionEntryHook& hook, nb::args) { hook.end(); });
}

}  // namespace karez::python

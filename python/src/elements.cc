// Converts Python objects to elements of data sets and back.
#include "python/src/elements.h"

#include "karez/api/data_iterator.h"

namespace karez::python {
namespace {

using data::Element;
using data::Field;
using data::Object;
using data::Structure;
using data::StructureRef;

bool has_array(nb::handle object) {
  return PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())), "__array__") != 0;
}

// Appends the leaves of an object to the fields of an element.
class Flattening {
 public:
  Flattening(Element& element, Copies copies) : element_(element), copies_(copies) {}

  StructureRef add(nb::handle object) {
    if (PyTuple_Check(object.ptr())) return add_items(object, Structure::Kind::tuple);
    if (PyList_Check(object.ptr())) return add_items(object, Structure::Kind::list);
    if (PyDict_Check(object.ptr())) return add_dict(object);
    element_.fields.push_back(field_of(object));
    return data::leaf_structure();
  }

 private:
  Field field_of(nb::handle object) const {
    if (PyBool_Check(object.ptr())) return HostArray(scalar(DType::b8, object.ptr() == Py_True ? 1 : 0));
    if (PyLong_Check(object.ptr())) {
      int overflow = 0;
      const std::int64_t number = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
      if (overflow != 0) return hold(nb::borrow(object));
      return HostArray::of<std::int64_t>({}, {number});
    }
    if (PyFloat_CheckExact(object.ptr())) return HostArray::of<float>({}, {nb::cast<float>(object)});
    if (std::optional<HostArray> scalar = array_of_scalar(object)) return *std::move(scalar);
    nb::object array = nb::borrow(object);
    if (!is_numpy(object)) {
      if (!has_array(object)) return hold(std::move(array));
      try {
        array = nb::module_::import_("numpy").attr("asarray")(object);
      } catch (nb::python_error& error) {  // such as for a bfloat16 tensor of PyTorch
        if (!error.matches(PyExc_TypeError) || !nb::hasattr(object, "__dlpack__")) throw;
        return half_array_from_dlpack(nb::cast<nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>>(object));
      }
    }
    if (!dtype_of_numpy(array)) return hold(std::move(array));
    return copies_ == Copies::borrow ? borrowed_array(array) : host_array(array);
  }
  static HostArray scalar(DType dtype, int byte) {
    HostArray out(TensorType{dtype, {}});
    *out.bytes() = static_cast<std::byte>(byte);
    return out;
  }
  StructureRef add_items(nb::handle items, Structure::Kind kind) {
    auto structure = std::make_shared<Structure>();
    structure->kind = kind;
    for (nb::handle item : items) structure->children.push_back(add(item));
    return structure;
  }
  StructureRef add_dict(nb::handle dict) {
    auto structure = std::make_shared<Structure>();
    structure->kind = Structure::Kind::dict;
    for (auto [key, item] : nb::borrow<nb::dict>(dict)) {
      require(ErrorKind::type, PyUnicode_Check(key.ptr()),
              "a key of a dict in an element of a data set must be a string");
      structure->keys.push_back(nb::cast<std::string>(key));
      structure->children.push_back(add(item));
    }
    return structure;
  }

  Element& element_;
  Copies copies_;
};

using Convert = nb::object (*)(const Element&, std::size_t field);  // for arrays

nb::object field_to_python(const Element& element, std::size_t number, Convert convert) {
  const Field& field = element.fields[number];
  if (std::holds_alternative<HostArray>(field)) return convert(element, number);
  if (const auto* object = std::get_if<Object>(&field)) return nb::borrow(handle_of(*object));
  nb::list rows;
  for (const Object& row : std::get<std::vector<Object>>(field)) rows.append(handle_of(row));
  // NumPy arrays of other dtypes, such as int16, are stacked as others are.
  for (nb::handle row : rows)
    if (!is_numpy(row)) return rows;
  return rows.size() == 0 ? nb::object(rows) : nb::module_::import_("numpy").attr("stack")(rows);
}

nb::object build(const Structure& structure, const Element& element, std::size_t& next, Convert convert) {
  if (structure.kind == Structure::Kind::leaf) return field_to_python(element, next++, convert);
  if (structure.kind == Structure::Kind::dict) {
    nb::dict out;
    for (std::size_t i = 0; i < structure.children.size(); ++i)
      out[structure.keys[i].c_str()] = build(*structure.children[i], element, next, convert);
    return out;
  }
  nb::list items;
  for (const StructureRef& child : structure.children) items.append(build(*child, element, next, convert));
  return structure.kind == Structure::Kind::list ? nb::object(items) : nb::object(nb::tuple(items));
}

nb::handle skip_object;  // lives until the process ends

nb::object read_only(const Element& element, std::size_t field) {
  const HostArray& array = data::array_of(element, field);
  return array.shape().empty() ? numpy_scalar(array) : read_only_numpy_array(array);
}

}  // namespace

Object hold(nb::object object) {
  return {object.release().ptr(), [](const void* pointer) {
            if (Py_IsInitialized() == 0 || is_finalizing_elsewhere()) return;  // the process frees the object
            keep_thread_state();
            nb::gil_scoped_acquire gil;
            Py_DECREF(static_cast<PyObject*>(const_cast<void*>(pointer)));
          }};
}

nb::handle handle_of(const Object& object) { return static_cast<PyObject*>(const_cast<void*>(object.get())); }

void set_skip_object(nb::object object) { skip_object = object.release(); }

data::SkipReport skip_report(nb::object function) {
  return [f = hold(std::move(function))](const data::SkippedRecords& skipped) {
    with_gil([&] { nb::borrow(handle_of(f))(skipped.count, skipped.first_error); });
  };
}

Element element_from(nb::handle object, Copies copies) {
  if (object.is(skip_object)) return data::skipped_element();
  Element element;
  element.structure = Flattening(element, copies).add(object);
  return element;
}

nb::object python_of(const Element& element) {
  if (element.skipped) return nb::borrow(skip_object);
  std::size_t next = 0;
  return build(*element.structure, element, next, read_only);
}

nb::object tensors_of(const Element& element) {
  std::size_t next = 0;
  return build(*element.structure, element, next,
               [](const Element& from, std::size_t field) { return nb::cast(Value(tensor_of(from, field))); });
}

nb::tuple arguments_of(const Element& element) {
  nb::object object = python_of(element);
  if (element.structure->kind == Structure::Kind::tuple) return nb::borrow<nb::tuple>(object);
  return nb::make_tuple(object);
}

nb::object call(const Object& function, const Element& element) {
  return nb::borrow(handle_of(function))(*arguments_of(element));
}

std::uint64_t key_word(const data::RandomKey& key, std::uint64_t first) {
  return std::uint64_t{key.word(first)} << 32 | key.word(first + 1);
}

Element opaque_element(nb::object object) {
  Element element;
  element.structure = data::leaf_structure();
  element.fields.emplace_back(hold(std::move(object)));
  return element;
}

}  // namespace karez::python

// NumPy arrays in and out, and dtypes by the names that both have for them.
#include <cstring>
#include <string>

#include "python/src/value.h"

namespace karez::python {
namespace {

struct Named {
  DType dtype;
  std::string_view numpy;
};
constexpr Named names[] = {
    {DType::f32, "float32"}, {DType::f64, "float64"}, {DType::i32, "int32"}, {DType::i64, "int64"}, {DType::b8, "bool"},
};

constexpr std::string_view said = "; there are float32, float64, int32, int64 and bool: x.astype(...) makes one of these";

DType from_dlpack(nb::dlpack::dtype dtype) {
  for (const Named& one : names)
    if (dlpack_of(one.dtype) == dtype) return one.dtype;
  constexpr std::string_view kinds[] = {"int", "uint", "float", "object", "bfloat", "complex", "bool"};
  const std::string_view kind = dtype.code < std::size(kinds) ? kinds[dtype.code] : "?";
  base::fail(ErrorKind::type, "an array of ", kind, static_cast<int>(dtype.bits), said);
}

// The class of this name in numpy, which whoever holds such an object has imported already. Null: it has not.
nb::object numpy_class(const char* name) {
  PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  return numpy == nullptr ? nb::object() : nb::object(nb::handle(numpy).attr(name));
}

}  // namespace

nb::dlpack::dtype dlpack_of(DType dtype) {
  return with_type(dtype, []<class T>() { return nb::dtype<T>(); });
}

bool is_numpy(nb::handle object) {
  for (const char* name : {"ndarray", "generic"})
    if (const nb::object type = numpy_class(name); type.is_valid() && nb::isinstance(object, type)) return true;
  return false;
}

DType dtype_of_object(nb::handle object) {
  std::string name = nb::isinstance<nb::str>(object) ? nb::cast<std::string>(object) : "";
  if (name.empty()) {
    const nb::object named = nb::getattr(object, "__name__", nb::getattr(object, "name", nb::none()));
    if (nb::isinstance<nb::str>(named)) name = nb::cast<std::string>(named);
  }
  if (name == "float") name = "float32";  // Python's own types mean what a number of theirs becomes
  if (name == "int") name = "int64";
  for (const Named& one : names)
    if (name == one.numpy) return one.dtype;
  return tensor::dtype_from(name);
}

HostArray host_array(nb::handle object) {
  using namespace nb::literals;
  const nb::object array = nb::module_::import_("numpy").attr("asarray")(object, "order"_a = "C");
  nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig> given;
  const nb::object dtype = array.attr("dtype"), kind = dtype.attr("kind");
  const bool numbers = std::string_view("fiub").find(nb::cast<std::string>(kind)) != std::string_view::npos;
  if (!numbers || !nb::try_cast(array, given, false))
    base::fail(ErrorKind::type, "an array of ", nb::cast<std::string>(nb::str(nb::handle(dtype))), said);
  HostArray out(TensorType{from_dlpack(given.dtype()), Shape(given.shape_ptr(), given.shape_ptr() + given.ndim())});
  nb::gil_scoped_release released;
  std::memcpy(out.bytes(), given.data(), given.nbytes());
  return out;
}

nb::object numpy_array(HostArray array) {
  auto* owner = new HostArray(std::move(array));
  nb::capsule capsule(owner, [](void* bytes) noexcept { delete static_cast<HostArray*>(bytes); });
  std::vector<std::size_t> shape(owner->shape().begin(), owner->shape().end());
  nb::ndarray<nb::numpy> out(owner->bytes(), shape.size(), shape.data(), capsule, nullptr, dlpack_of(owner->dtype()));
  return nb::cast(out);
}

}  // namespace karez::python

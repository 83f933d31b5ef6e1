// Conversion between NumPy arrays and host arrays, and lookup of dtypes by their NumPy and Karez names.
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/src/value.h"

namespace karez::python {
namespace {

struct NumpyDType {
  DType dtype;
  std::string_view numpy;
};
constexpr NumpyDType numpy_dtypes[] = {
    {DType::f32, "float32"}, {DType::f64, "float64"}, {DType::i32, "int32"},     {DType::i64, "int64"},
    {DType::b8, "bool"},     {DType::f16, "float16"}, {DType::bf16, "bfloat16"}, {DType::u8, "uint8"},
};

constexpr std::string_view supported_dtypes =
    "; the supported dtypes are float32, float64, float16, int32, int64, uint8 and bool, and bfloat16 from ml_dtypes "
    "or "
    "DLPack. x.astype(";

// The supported dtype of NumPy to which an array of this kind (NumPy's letter) is best converted.
std::string_view closest_dtype(char kind, std::size_t bits) {
  if (kind == 'f') return bits == 16 ? "numpy.float16" : bits == 32 ? "numpy.float32" : "numpy.float64";
  if (kind == 'i') return bits <= 32 ? "numpy.int32" : "numpy.int64";
  if (kind == 'u') return bits <= 16 ? "numpy.int32" : "numpy.int64";
  return "...";
}

[[noreturn]] void reject_dtype(std::string_view name, char kind, std::size_t bits) {
  base::fail(ErrorKind::type, "unsupported array dtype ", name, supported_dtypes, closest_dtype(kind, bits),
             ") converts an array (see 'dtypes' in docs/from-pytorch.md)");
}

DType from_dlpack(nb::dlpack::dtype dtype) {
  for (const NumpyDType& one : numpy_dtypes)
    if (dlpack_of(one.dtype) == dtype) return one.dtype;
  constexpr std::string_view kinds[] = {"int", "uint", "float", "object", "bfloat", "complex", "bool"};
  const std::string_view kind = dtype.code < std::size(kinds) ? kinds[dtype.code] : "?";
  reject_dtype(cat(kind, static_cast<int>(dtype.bits)),
               kind == "int" || kind == "uint" || kind == "float" ? kind[0] : '?', dtype.bits);
}

// An array of one number, with the address of the number, and the type of its scalars.
struct NumpyNumber {
  PyTypeObject* type;
  PyObject* array;
  void* bytes;
  DType dtype;
};

// Objects of numpy that conversions need for each array. They are never freed. Access requires the interpreter's lock.
struct NumpyObjects {
  PyObject *ndarray = nullptr, *generic = nullptr;
  std::vector<std::pair<PyObject*, DType>> dtypes;  // those of arrays in this machine's byte order, except bfloat16
  std::vector<NumpyNumber> numbers;                 // of these dtypes
};
// Null if numpy is not imported; in that case none of its objects exists.
const NumpyObjects* numpy_objects() {
  static NumpyObjects objects;
  if (objects.generic != nullptr) return &objects;
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  if (module == nullptr) return nullptr;
  const nb::handle numpy(module);
  NumpyObjects found;
  for (const NumpyDType& one : numpy_dtypes) {
    if (one.dtype == DType::bf16) continue;
    const nb::object dtype = numpy.attr("dtype")(nb::str(one.numpy.data(), one.numpy.size()));
    nb::object type = dtype.attr("type"), array = numpy.attr("empty")(1, dtype);
    auto* buffer = new Py_buffer;  // never released, so the number stays where it is
    if (PyObject_GetBuffer(array.ptr(), buffer, PyBUF_WRITABLE) != 0) nb::raise_python_error();
    found.numbers.push_back(
        {reinterpret_cast<PyTypeObject*>(type.release().ptr()), array.release().ptr(), buffer->buf, one.dtype});
    found.dtypes.emplace_back(nb::object(dtype).release().ptr(), one.dtype);
  }
  found.ndarray = nb::object(numpy.attr("ndarray")).release().ptr();
  found.generic = nb::object(numpy.attr("generic")).release().ptr();
  return &(objects = found);
}

// Keeps the references that threads without the interpreter's lock have released, until a pending call drops them in a
// thread that holds the lock.
class DeferredDecref {
 public:
  static void drop(PyObject* object) noexcept {
    if (!Py_IsInitialized()) return;  // the interpreter and all objects are gone
    if (PyGILState_Check() != 0) return Py_DECREF(object);
    std::lock_guard lock(mutex_);
    objects_.push_back(object);
    Py_AddPendingCall(&drop_pending, nullptr);  // if the queue is full, an earlier pending call drops this object too
  }

 private:
  static int drop_pending(void*) {
    std::vector<PyObject*> objects;
    {
      std::lock_guard lock(mutex_);
      objects.swap(objects_);
    }
    for (PyObject* object : objects) Py_DECREF(object);
    return 0;
  }
  static std::mutex mutex_;
  static std::vector<PyObject*> objects_;
};
std::mutex DeferredDecref::mutex_;
std::vector<PyObject*> DeferredDecref::objects_;

// Returns an ndarray view of a NumPy array. If the dtype is not supported, throws an error that names it.
using NumpyView = nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>;
NumpyView numpy_view(const nb::object& array) {
  const nb::object dtype = array.attr("dtype");
  const auto kind = nb::cast<std::string>(dtype.attr("kind"));
  NumpyView array_view;
  const bool numbers = std::string_view("fiub").find(kind) != std::string_view::npos;
  if (!numbers || !nb::try_cast(array, array_view, false))
    reject_dtype(nb::cast<std::string>(nb::str(nb::handle(dtype))), kind[0],
                 8 * nb::cast<std::size_t>(dtype.attr("itemsize")));
  return array_view;
}
TensorType type_of(const NumpyView& array_view) {
  return {from_dlpack(array_view.dtype()), Shape(array_view.shape_ptr(), array_view.shape_ptr() + array_view.ndim())};
}

// A copy of a NumPy array or scalar that is dense and in this machine's byte order; nothing for other objects. It takes
// a tenth of the time of the other way.
std::optional<HostArray> copy_dense(nb::handle object) {
  const NumpyObjects* numpy = numpy_objects();
  if (!is_numpy(object)) return std::nullopt;
  const nb::object dtype = object.attr("dtype");
  const auto found =
      std::find_if(numpy->dtypes.begin(), numpy->dtypes.end(), [&](const auto& row) { return dtype.is(row.first); });
  if (found == numpy->dtypes.end()) return std::nullopt;
  Py_buffer buffer;
  if (PyObject_GetBuffer(object.ptr(), &buffer, PyBUF_ND) != 0) return PyErr_Clear(), std::nullopt;
  const std::unique_ptr<Py_buffer, decltype(&PyBuffer_Release)> release(&buffer, &PyBuffer_Release);
  HostArray out(TensorType{found->second, Shape(buffer.shape, buffer.shape + buffer.ndim)});
  const auto bytes = static_cast<std::size_t>(buffer.len);
  if (bytes < 1 << 16) {
    if (bytes > 0) std::memcpy(out.bytes(), buffer.buf, bytes);
  } else {
    GilRelease without_gil;
    std::memcpy(out.bytes(), buffer.buf, bytes);
  }
  return out;
}

}  // namespace

nb::dlpack::dtype dlpack_of(DType dtype) {
  if (is_half(dtype))
    return {
        static_cast<std::uint8_t>(dtype == DType::f16 ? nb::dlpack::dtype_code::Float : nb::dlpack::dtype_code::Bfloat),
        16, 1};
  return with_type(dtype, []<class T>() {
    if constexpr (tensor::is_half_type<T>) return nb::dlpack::dtype{};
    else return nb::dtype<T>();
  });
}

bool is_numpy(nb::handle object) {
  const NumpyObjects* numpy = numpy_objects();
  if (numpy == nullptr) return false;
  for (PyObject* type : {numpy->ndarray, numpy->generic})
    if (PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject*>(type)) != 0) return true;
  return false;
}

std::optional<DType> dtype_of_numpy(nb::handle array) {
  const nb::object dtype = array.attr("dtype");
  if (const NumpyObjects* numpy = numpy_objects())
    for (const auto& [object, found] : numpy->dtypes)
      if (dtype.is(object)) return found;
  const std::string name = nb::cast<std::string>(dtype.attr("name"));
  for (const NumpyDType& one : numpy_dtypes)
    if (name == one.numpy) return one.dtype;
  return std::nullopt;
}

std::string_view numpy_name(DType dtype) {
  for (const NumpyDType& one : numpy_dtypes)
    if (one.dtype == dtype) return one.numpy;
  return tensor::name_of(dtype);
}

DType dtype_of_object(nb::handle object) {
  std::string name = nb::isinstance<nb::str>(object) ? nb::cast<std::string>(object) : "";
  if (name.empty()) {
    const nb::object named = nb::getattr(object, "__name__", nb::getattr(object, "name", nb::none()));
    if (nb::isinstance<nb::str>(named)) name = nb::cast<std::string>(named);
  }
  if (name == "float") name = "float32";  // the Python types stand for the dtypes that their numbers get
  if (name == "int") name = "int64";
  for (const NumpyDType& one : numpy_dtypes)
    if (name == one.numpy) return one.dtype;
  return tensor::dtype_from(name);
}

HostArray host_array(nb::handle object) {
  using namespace nb::literals;
  if (std::optional<HostArray> copy = copy_dense(object)) return std::move(*copy);
  nb::object array = nb::module_::import_("numpy").attr("asarray")(object, "order"_a = "C");
  const bool bf16 = nb::cast<std::string>(array.attr("dtype").attr("name")) == "bfloat16";  // from ml_dtypes
  if (bf16) array = array.attr("view")("uint16");
  const NumpyView array_view = bf16 ? nb::cast<NumpyView>(array) : numpy_view(array);
  HostArray out(bf16
                    ? TensorType{DType::bf16, Shape(array_view.shape_ptr(), array_view.shape_ptr() + array_view.ndim())}
                    : type_of(array_view));
  GilRelease without_gil;
  std::memcpy(out.bytes(), array_view.data(), array_view.nbytes());
  return out;
}

HostArray borrowed_array(nb::handle object) {
  const nb::object flags = object.attr("flags");
  if (!nb::cast<bool>(flags.attr("c_contiguous")) || !nb::cast<bool>(flags.attr("aligned"))) return host_array(object);
  const NumpyView array_view = numpy_view(nb::borrow(object));
  if (array_view.size() == 0) return host_array(object);
  auto* bytes = static_cast<std::byte*>(
      const_cast<void*>(array_view.data()));  // HostArray requires non-const bytes, but a tensor never writes them
  PyObject* owner = nb::borrow(object).release().ptr();
  return HostArray(type_of(array_view),
                   std::shared_ptr<std::byte[]>(bytes, [owner](std::byte*) { DeferredDecref::drop(owner); }));
}

HostArray half_array_from_dlpack(const nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>& array_view) {
  HostArray out(TensorType{from_dlpack(array_view.dtype()),
                           Shape(array_view.shape_ptr(), array_view.shape_ptr() + array_view.ndim())});
  std::memcpy(out.bytes(), array_view.data(), array_view.nbytes());
  return out;
}

nb::object numpy_array(HostArray array) {
  if (array.dtype() == DType::bf16) {
    PyObject* types = PyDict_GetItemString(PyImport_GetModuleDict(), "ml_dtypes");
    if (types == nullptr)
      base::fail(ErrorKind::type,
                 "NumPy has no bfloat16. x.float().numpy() converts the values to float32; torch.from_dlpack(x) keeps "
                 "bfloat16; if ml_dtypes is imported, x.numpy() returns an array of ml_dtypes.bfloat16");
    HostArray bits(TensorType{DType::f16, array.shape()});
    std::memcpy(bits.bytes(), array.bytes(), static_cast<std::size_t>(array.type().bytes()));
    return numpy_array(std::move(bits)).attr("view")(nb::handle(types).attr("bfloat16"));
  }
  auto* owner = new HostArray(std::move(array));
  nb::capsule capsule(owner, [](void* bytes) noexcept { delete static_cast<HostArray*>(bytes); });
  std::vector<std::size_t> shape(owner->shape().begin(), owner->shape().end());
  nb::ndarray<nb::numpy> out(owner->bytes(), shape.size(), shape.data(), capsule, nullptr, dlpack_of(owner->dtype()));
  return nb::cast(out);
}

std::optional<HostArray> array_of_scalar(nb::handle object) {
  const NumpyObjects* numpy = numpy_objects();
  if (numpy == nullptr) return std::nullopt;
  for (const NumpyNumber& number : numpy->numbers) {
    if (Py_TYPE(object.ptr()) != number.type) continue;
    Py_buffer buffer;
    if (PyObject_GetBuffer(object.ptr(), &buffer, PyBUF_SIMPLE) != 0) nb::raise_python_error();
    HostArray out(TensorType{number.dtype, {}});
    std::memcpy(out.bytes(), buffer.buf, static_cast<std::size_t>(size_of(number.dtype)));
    PyBuffer_Release(&buffer);
    return out;
  }
  return std::nullopt;
}

// An index into an array takes a fifth of the time of the constructor of a scalar.
nb::object numpy_scalar(const HostArray& array) {
  if (const NumpyObjects* numpy = numpy_objects())
    for (const NumpyNumber& number : numpy->numbers) {
      if (number.dtype != array.dtype()) continue;
      std::memcpy(number.bytes, array.bytes(), static_cast<std::size_t>(size_of(array.dtype())));
      PyObject* scalar = PySequence_GetItem(number.array, 0);
      if (scalar == nullptr) nb::raise_python_error();
      return nb::steal(scalar);
    }
  return read_only_numpy_array(array)[nb::tuple()];
}

nb::object read_only_numpy_array(const HostArray& array) {
  const auto bytes = static_cast<std::size_t>(array.type().bytes());
  const NumpyObjects* numpy = numpy_objects();
  if (numpy != nullptr && bytes > 0 && bytes <= 4096 && array.dtype() != DType::bf16) {
    const nb::bytes copy(reinterpret_cast<const char*>(array.bytes()), bytes);
    nb::object shape = nb::steal(PyTuple_New(std::ssize(array.shape())));
    for (std::size_t i = 0; i < array.shape().size(); ++i)
      PyTuple_SET_ITEM(shape.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(array.shape()[i]));
    for (const auto& [dtype, found] : numpy->dtypes)
      if (found == array.dtype()) return nb::handle(numpy->ndarray)(shape, nb::handle(dtype), copy);
  }
  nb::object out = numpy_array(array);
  out.attr("setflags")(nb::arg("write") = false);
  return out;
}

}  // namespace karez::python

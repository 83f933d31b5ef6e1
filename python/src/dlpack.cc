// Shares the memory of unsharded arrays with other libraries, through DLPack and the buffer protocol, read-only and
// without a copy.
#include <memory>

#include "karez/api/parts.h"
#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
namespace {

// Returns an object that supports __dlpack__ and the buffer protocol, and keeps the memory alive.
nb::object export_buffer(const Value& value) {
  const SourceLine line = user_line();
  const Tensor tensor = value.outside();
  ensure_default_device();
  Array array;
  std::shared_ptr<const std::byte> bytes;
  TensorType type = tensor.type;
  if (const auto lent = std::make_shared<HostArray>(tensor.host_array()); lent->valid()) {
    bytes = std::shared_ptr<const std::byte>(lent, lent->bytes());
  } else {
    GilRelease without_gil;
    array = computed_whole(tensor, line);
    bytes = array.bytes();
    type = array.type();
  }
  if (bytes == nullptr)
    base::fail(ErrorKind::layout, "a tensor ", sbp::print(array.type(), array.mesh(), array.layout()),
               " is split over several devices, which no other library supports: x.numpy() assembles it");
  const void* data = bytes.get();
  nb::capsule owner(new std::shared_ptr<const std::byte>(std::move(bytes)),
                    [](void* context) noexcept { delete static_cast<std::shared_ptr<const std::byte>*>(context); });
  const std::vector<std::size_t> shape(type.shape.begin(), type.shape.end());
  return nb::cast(
      nb::ndarray<nb::ro, nb::array_api>(data, shape.size(), shape.data(), owner, nullptr, dlpack_of(type.dtype)));
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  try {
    return PyObject_GetBuffer(export_buffer(*nb::inst_ptr<Value>(self)).ptr(), view,
                              flags);  // the view holds the exported object
  } catch (nb::python_error& error) { error.restore(); } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
  }
  view->obj = nullptr;
  return -1;
}

}  // namespace

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)}, {0, nullptr}};

void init_dlpack(nb::module_& m) { m.def("export_buffer", &export_buffer); }

}  // namespace karez::python

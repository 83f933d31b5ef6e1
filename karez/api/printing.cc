// Formats arrays and tensors as text.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/trace/expression.h"
#include "karez/base/text.h"

namespace karez {
namespace {

constexpr std::int64_t edge = 3;  // the number of elements shown at each end of a long dimension

std::string format_number(double value) {
  if (std::isnan(value)) return "nan";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::general, 6).ptr;
  return std::string(text, end);
}

template <class T> std::string format_element(T value) {
  if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
  else if constexpr (std::is_integral_v<T>) return cat(value);
  else return format_number(static_cast<double>(value));
}

// Formats the elements or rows of one dimension; `first` points to the first element.
template <class T> std::string format_dimension(const T* first, const Shape& shape, std::size_t dimension) {
  if (dimension == shape.size()) return format_element(*first);
  const std::int64_t size = shape[dimension],
                     stride = count_of(Shape(shape.begin() + static_cast<std::ptrdiff_t>(dimension) + 1, shape.end()));
  const bool has_rows = dimension + 1 < shape.size();
  const std::string separator = has_rows ? ",\n" + std::string(dimension + 1, ' ') : ", ";
  std::string out = "[";
  for (std::int64_t i = 0; i < size; ++i) {
    if (i > 0) out += separator;
    if (size > 2 * edge && i == edge) {
      out += "..." + separator;
      i = size - edge;
    }
    out += format_dimension(first + i * stride, shape, dimension + 1);
  }
  return out + "]";
}

std::string format_elements(const HostArray& array) {
  if (array.count() == 0) return "[]";
  return with_type(array.dtype(),
                   [&]<class T>() { return format_dimension(array.data<T>().data(), array.shape(), 0); });
}

}  // namespace

std::string print(const Array& array) {
  const bool is_broadcast =
      std::all_of(array.layout().begin(), array.layout().end(), [](const Sbp& entry) { return entry == Sbp{}; });
  const std::string type =
      is_broadcast ? tensor::print(array.type()) : sbp::print(array.type(), array.mesh(), array.layout());
  return cat(type, " ", format_elements(array.read()));
}
std::ostream& operator<<(std::ostream& out, const Array& array) { return out << print(array); }

std::string text_of(const Tensor& tensor, SourceLine where) {
  if (tensor.lazy == nullptr)
    return tensor.id.valid() ? cat(tensor.type, " of a program that is being traced") : std::string("no tensor");
  if (const Trace* open = Trace::open(); open != nullptr && tensor.trace == open->number())
    return cat(tensor.type, " of a function whose gradient is being taken");
  if (tensor.lazy->host.valid()) return cat(tensor.type, " ", format_elements(tensor.lazy->complete_host()));
  return print(computed(tensor, where));
}

}  // namespace karez

// The mesh of computations outside of compiled functions, gradients of functions, and text of arrays.
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "karez/api/trace/expression.h"
#include "karez/base/text.h"

namespace karez {
namespace {

thread_local const Interactive* innermost = nullptr;

constexpr std::int64_t edge = 3;  // elements at each end of a long dimension

std::string number(double value) {
  if (std::isnan(value)) return "nan";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::general, 6).ptr;
  return std::string(text, end);
}

template <class T> std::string element(T value) {
  if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
  else if constexpr (std::is_integral_v<T>) return cat(value);
  else return number(static_cast<double>(value));
}

// One dimension's elements or rows, from its first element on.
template <class T> std::string corners(const T* from, const Shape& shape, std::size_t dimension) {
  if (dimension == shape.size()) return element(*from);
  const std::int64_t size = shape[dimension],
                     stride = count_of(Shape(shape.begin() + static_cast<std::ptrdiff_t>(dimension) + 1, shape.end()));
  const bool rows = dimension + 1 < shape.size();
  const std::string between = rows ? ",\n" + std::string(dimension + 1, ' ') : ", ";
  std::string out = "[";
  for (std::int64_t i = 0; i < size; ++i) {
    if (i > 0) out += between;
    if (size > 2 * edge && i == edge) {
      out += "..." + between;
      i = size - edge;
    }
    out += corners(from + i * stride, shape, dimension + 1);
  }
  return out + "]";
}

std::string numbers(const HostArray& array) {
  if (array.count() == 0) return "[]";
  return with_type(array.dtype(), [&]<class T>() { return corners(array.data<T>().data(), array.shape(), 0); });
}

}  // namespace

Interactive::Interactive(DeviceMesh mesh, bool train) : mesh_(std::move(mesh)), train_(train), before_(innermost) {
  require(mesh_.world != nullptr, "Interactive needs a mesh that a World has made");
  innermost = this;
}
Interactive::~Interactive() { innermost = before_; }
const DeviceMesh* Interactive::mesh() { return innermost == nullptr ? nullptr : &innermost->mesh_; }
bool Interactive::training() { return innermost == nullptr || innermost->train_; }

ValueAndGradients value_and_gradients(const Body& f, const GradientOf& of, std::vector<Term> arguments,
                                      SourceLine where) {
  return at_line(where, [&](Trace& t) {
    std::vector<Tensor> inputs, wanted;
    for (const Term& argument : arguments) inputs.push_back(t.tensor(t.value(argument, t.dtype_of(argument))));
    for (int i : of.arguments) {
      if (!of.parameters.empty()) break;
      require(i >= 0 && static_cast<std::size_t>(i) < inputs.size(), "value_and_grad: there is no argument ", i,
              "; the number of arguments is ", inputs.size());
      wanted.push_back(inputs[static_cast<std::size_t>(i)]);
    }
    const std::vector<Tensor> values = f(inputs);
    require(values.size() == 1, "value_and_grad: the function returns ", values.size(),
            " tensors; it must return one scalar");
    const Term loss(values[0], where);
    return ValueAndGradients{values[0], of.parameters.empty() ? grad(loss, wanted) : grad(loss, of.parameters)};
  });
}

std::string print(const Array& array) {
  const bool whole =
      std::all_of(array.layout().begin(), array.layout().end(), [](const Sbp& one) { return one == Sbp{}; });
  const std::string type = whole ? tensor::print(array.type()) : sbp::print(array.type(), array.mesh(), array.layout());
  return cat(type, " ", numbers(array.read()));
}
std::ostream& operator<<(std::ostream& out, const Array& array) { return out << print(array); }

std::string text_of(const Tensor& tensor, SourceLine where) {
  if (tensor.lazy == nullptr)
    return tensor.id.valid() ? cat(tensor.type, " of a program that is being traced") : std::string("no tensor");
  if (const Trace* open = Trace::open(); open != nullptr && tensor.trace == open->number())
    return cat(tensor.type, " of a function whose gradient is being taken");
  if (tensor.lazy->host.valid()) return cat(tensor.type, " ", numbers(tensor.lazy->host));
  return print(computed(tensor, where));
}

}  // namespace karez

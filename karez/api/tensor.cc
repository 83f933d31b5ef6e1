// Constructors, destructors, assignment and sizes of tensors and operands.
#include "karez/api/tensor.h"

#include <utility>

#include "karez/api/array.h"
#include "karez/api/namespace.h"

namespace karez {

Tensor::Tensor() = default;
Tensor::Tensor(const Tensor&) = default;
Tensor::Tensor(Tensor&&) noexcept = default;
Tensor& Tensor::operator=(const Tensor&) = default;
Tensor& Tensor::operator=(Tensor&&) noexcept = default;
Tensor::~Tensor() = default;
Tensor::Tensor(ValueId value, std::uint64_t trace_number, TensorType t)
    : id(value),
      trace(trace_number),
      type(std::move(t)) {}

std::int64_t Tensor::size(int dimension) const {
  int d = dimension < 0 ? dimension + rank() : dimension;
  require(d >= 0 && d < rank(), "dimension ", dimension, " of a tensor of shape ", type.shape, " does not exist");
  return type.shape[static_cast<std::size_t>(d)];
}

const Tensor& Tensors::only() const {
  require(list.size() == 1, "a function returns ", list.size(), " tensors, but one is required; select one: f(x)[0]");
  return list[0];
}

Term::Term(const Term&) = default;
Term::Term(Term&&) noexcept = default;
Term& Term::operator=(const Term&) = default;
Term& Term::operator=(Term&&) noexcept = default;
Term::~Term() = default;
Term::Term(const Tensor& tensor, SourceLine line) : value(tensor), where(line) {}
Term::Term(Tensor&& passing, SourceLine line) : value(std::move(passing)), where(line) {
  std::get<Tensor>(value).handle.reset();
}
Term::Term(const Array& array, SourceLine line) : value(Tensor(array)), where(line) {}
Term::Term(HostArray array, SourceLine line) : value(Tensor(std::move(array))), where(line) {}
Term::Term(Parameter parameter, SourceLine line) : value(std::move(parameter)), where(line) {
  if (std::get<Parameter>(value) == Parameter()) fail("the parameter is uninitialised\n  at ", print(line));
}
Term::Term(const Tensors& tensors, SourceLine line) : value(tensors.only()), where(line) {}

}  // namespace karez

// Constructors, destructors and assignment of tensors and operands.
#include "karez/api/tensor.h"

#include <utility>

#include "karez/api/array.h"

namespace karez {

Tensor::Tensor() = default;
Tensor::Tensor(const Tensor&) = default;
Tensor::Tensor(Tensor&&) noexcept = default;
Tensor& Tensor::operator=(const Tensor&) = default;
Tensor& Tensor::operator=(Tensor&&) noexcept = default;
Tensor::~Tensor() = default;
Tensor::Tensor(ValueId value, std::uint64_t of, TensorType t) : id(value), trace(of), type(std::move(t)) {}

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
Term::Term(Parameter parameter, SourceLine line) : value(std::move(parameter)), where(line) {}
Term::Term(const Tensors& tensors, SourceLine line) : value(tensors.only()), where(line) {}

}  // namespace karez

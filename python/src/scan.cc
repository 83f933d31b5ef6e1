// The binding of scan, whose body is a Python callable.
#include "karez/api/scan.h"

#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
namespace {
using namespace nb::literals;

nb::list values_list(const std::vector<Tensor>& tensors) {
  nb::list out;
  for (const Tensor& tensor : tensors) out.append(Value(tensor));
  return out;
}

std::vector<Tensor> tensors_of(nb::handle values) {
  std::vector<Tensor> out;
  for (nb::handle value : values) {
    const Term term = Operand{nb::borrow(value)};
    const auto* tensor = std::get_if<Tensor>(&term.value);
    out.push_back(tensor != nullptr ? *tensor : term.is_number() ? broadcast_to(term, {}) : stop_gradient(term));
  }
  return out;
}

nb::tuple run(nb::object body, const Operands& init, const Operands& xs, bool reverse, std::int64_t length) {
  ensure_default_device();
  const ScanBody each = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& rows) {
    const nb::object body_results = body(values_list(carry), values_list(rows));
    return Scanned{tensors_of(body_results[0]), tensors_of(body_results[1])};
  };
  const Scanned out = scan(each, terms_of(init), terms_of(xs), {reverse, length}, user_line());
  return nb::make_tuple(values_list(out.carry), values_list(out.ys));
}

}  // namespace

void init_scan(nb::module_& m) { m.def("scan", &run, "body"_a, "init"_a, "xs"_a, "reverse"_a, "length"_a); }

}  // namespace karez::python

// The bindings of scan and vmap, whose bodies are Python callables.
#include "karez/api/scan.h"
#include "karez/api/function_transforms.h"

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

MappedRandomness randomness_from(const std::string& text) {
  require(text == "error" || text == "same" || text == "different",
          "vmap: randomness must be 'error', 'same' or 'different', got '", text, "'");
  return text == "error"  ? MappedRandomness::error
         : text == "same" ? MappedRandomness::same
                          : MappedRandomness::different;
}

// Returns the results, and for each whether its dimension 0 is that of the batch.
nb::tuple map(nb::object body, const Operands& xs, const Ints& dims, const std::string& randomness,
              std::int64_t chunk_size) {
  ensure_default_device();
  std::vector<MappedOperand> operands;
  for (std::size_t i = 0; i < xs.size(); ++i) operands.push_back({xs[i], dims.at(i)});
  const auto each = [&](const std::vector<Tensor>& elements) { return tensors_of(body(values_list(elements))); };
  const MappedResults out = vmap(each, operands, {randomness_from(randomness), chunk_size}, user_line());
  return nb::make_tuple(values_list(out.values), nb::cast(out.is_mapped));
}

}  // namespace

void init_scan(nb::module_& m) {
  m.def("vmap", &map, "body"_a, "xs"_a, "dims"_a, "randomness"_a, "chunk_size"_a);
  m.def("in_trace", [] { return in_trace(); });  // also in the body of a scan or vmap outside of compiled functions
  m.def("scan", &run, "body"_a, "init"_a, "xs"_a, "reverse"_a, "length"_a);
}

}  // namespace karez::python

// Matches loaded values with new variables.
#include "karez/api/state/pending_weights.h"
#include "karez/api/namespace.h"

#include <algorithm>

#include "karez/base/suggest_names.h"
#include "karez/base/text.h"

namespace karez {
namespace {

bool is_same(const Parameter::Identity& a, const Parameter::Identity& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

// Returns the index of the parameter's value: a value that the parameter owns, otherwise one with its name, or -1.
std::ptrdiff_t index_of(const std::vector<PendingWeight>& list, const Parameter& parameter) {
  std::ptrdiff_t match = -1;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const PendingWeight& weight = list[i];
    if (weight.owner && is_same(*weight.owner, parameter.identity())) return static_cast<std::ptrdiff_t>(i);
    if (weight.owner || weight.offer.name != parameter.name()) continue;
    if (weight.offer.origin.empty() ? weight.offer.ordinal.value_or(parameter.ordinal()) == parameter.ordinal()
                                    : weight.offer.origin == parameter.origin())
      match = static_cast<std::ptrdiff_t>(i);
  }
  return match;
}

}  // namespace

HostArray value_of(const WeightFiles& file, const OfferedWeight& offer, const TensorType& type) {
  return array_of(offer.entry, offer.part, type.dtype, file.read(offer.entry));
}

void require_fits(const WeightFiles& file, const OfferedWeight& offer, const std::string& name,
                  const TensorType& type) {
  const WeightEntry& entry = offer.entry;
  const auto message = [&] {
    return cat(file.path(), ": tensor ", quote(entry.name), " is ", entry.dtype, entry.shape, "; ");
  };
  Shape shape;
  try {
    shape = data::shape_of(entry, offer.part);
  } catch (const Error& error) { fail(ErrorKind::shape, file.path(), ": ", error.what()); }
  const bool is_transposed = shape.size() == 2 && type.shape.size() == 2 && shape != type.shape &&
                             shape[0] == type.shape[1] && shape[1] == type.shape[0];
  if (shape != type.shape)
    fail(ErrorKind::shape, message(), "parameter '", name, "' is ", type,
         offer.part == WeightPart{} ? "" : cat(", and the part that the rule selects is ", shape),
         is_transposed ? "; a rule with .transposed exchanges the dimensions" : "");
  require(ErrorKind::type, is_representable(entry, type.dtype), message(), "parameter '", name, "' is ", type,
          "; only lossless conversions are made, from F16 and BF16 to f32 or f64");
}

std::vector<const PendingWeight*> PendingWeights::match(const std::vector<Parameter>& parameters) const {
  std::vector<const PendingWeight*> out;
  for (const Parameter& parameter : parameters) {
    const std::ptrdiff_t index = index_of(list, parameter);
    const auto other = std::find_if(list.begin(), list.end(), [&](const PendingWeight& weight) {
      return !weight.owner && weight.offer.name == parameter.name();
    });
    if (index < 0 && other != list.end())
      fail(ErrorKind::name, "variable '", parameter.name(), "' is used for the first time, but ", other->file->path(),
           " has several tensors with this name, which were made at other places in the program that saved them, so "
           "the match is ambiguous; give the variables distinct names with a named root module");
    if (index < 0 && !complete_checkpoint.empty())
      fail(ErrorKind::name, "variable '", parameter.name(), "' is used for the first time, but ", complete_checkpoint,
           ", which was loaded for all variables, has no value for it. Among the values without a variable, ",
           suggest_names(parameter.name(), list, [](const PendingWeight& weight) { return weight.offer.name; }),
           ". load(path, {.parameters = net.state()}) loads only a model's weights; with {.missing = true} missing "
           "parameters begin with their initial values");
    out.push_back(index < 0 ? nullptr : &list[static_cast<std::size_t>(index)]);
    if (index < 0) continue;
    const PendingWeight& weight = *out.back();
    require(ErrorKind::name, std::count(out.begin(), out.end(), &weight) == 1, "two new variables are named '",
            parameter.name(), "', but ", weight.file->path(),
            " has only one tensor with this name; give the variables distinct names with a named root module");
    require_fits(*weight.file, weight.offer, parameter.name(), parameter.type());
  }
  return out;
}

void PendingWeights::remove(const Parameter& parameter) {
  if (const std::ptrdiff_t index = index_of(list, parameter); index >= 0) list.erase(list.begin() + index);
}

void PendingWeights::drop_expired() {
  std::erase_if(list, [](const PendingWeight& weight) { return weight.owner && weight.owner->expired(); });
}

}  // namespace karez

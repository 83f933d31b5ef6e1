// Converts kinds and algorithms of collectives to and from their names.
#include "karez/plan/collective_kind.h"

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::plan {
namespace {

constexpr CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_gather, CollectiveKind::all_to_all, CollectiveKind::transfer};
constexpr CollectiveAlgorithm algorithms[] = {CollectiveAlgorithm::ring, CollectiveAlgorithm::direct,
                                              CollectiveAlgorithm::flat, CollectiveAlgorithm::recursive};

template <class Item, std::size_t N>
Item from_name(const Item (&items)[N], std::string_view name, std::string_view what) {
  for (Item item : items)
    if (name_of(item) == name) return item;
  fail("unknown ", what, " '", name,
       "'; expected one of: ", join(items, ", ", [](Item item) { return name_of(item); }));
}

}  // namespace

std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::transfer: return "transfer";
  }
  return "?";
}

std::string_view name_of(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::ring: return "ring";
    case CollectiveAlgorithm::direct: return "direct";
    case CollectiveAlgorithm::flat: return "flat";
    case CollectiveAlgorithm::recursive: return "recursive";
  }
  return "?";
}

CollectiveKind collective_kind_from(std::string_view name) { return from_name(kinds, name, "collective"); }

CollectiveAlgorithm collective_algorithm_from(std::string_view name) {
  return from_name(algorithms, name, "collective algorithm");
}

}  // namespace karez::plan

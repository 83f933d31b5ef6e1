// Which tensor of a file is which variable: rules, names, and ordinals where several have one name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/checkpoint.h"
#include "data/weight_files.h"

namespace karez {

// A tensor of a file, or a part of one, under the name that it has here.
struct OfferedWeight {
  std::string name;
  std::optional<int> ordinal;  // "w#2"; none: there is one of the name
  data::WeightEntry entry;
  data::WeightPart part;
};

// What the entries are after the rules. Errors name the file, the rule and the tensor.
std::vector<OfferedWeight> offered(const std::vector<data::WeightEntry>& entries, const std::vector<WeightRule>& rules, const std::string& path);

struct WantedWeight {
  std::string name;
  int ordinal = 0;
};
// For each wanted one the offer that is meant, or -1. Where several have one name they are told apart by their ordinals, or, if as many are wanted as
// offered, by the order of these: the same program makes the same parameters in the same order. What cannot be told apart is an error.
std::vector<int> matched(const std::vector<OfferedWeight>& offers, const std::vector<WantedWeight>& wanted, const std::string& path);

}  // namespace karez

// Matches tensors of a file with variables: by rules, names, and ordinals if several have one name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "karez/api/checkpoint.h"
#include "karez/data/weight_files.h"

namespace karez {

// A tensor of a file, or a part of one, under its name in this program.
struct OfferedWeight {
  std::string name;
  std::optional<int> ordinal;  // "w#2"; none if the name is unique
  // The origin of the saved parameter, if several had one name; "" if the file does not contain it.
  std::string origin;
  data::WeightEntry entry;
  data::WeightPart part;
};

// The note that holds an entry's origin.
std::string origin_note(const std::string& entry);

// The file's entries after applying the rules. Errors name the file, the rule and the tensor.
std::vector<OfferedWeight> offered_weights(const data::WeightFiles& file, const std::vector<WeightRule>& rules);

struct WantedWeight {
  std::string name;
  int ordinal = 0;
  std::string origin;
};
// Whether the parameter with the first origin was made before the other one; for parameters of one name.
bool created_before(const std::string& origin, const std::string& other);

// The index of the matching offer for each wanted weight, or -1. If a name is wanted as often as it is offered, weights
// match in the order in which their parameters were made: the same program makes the same parameters in the same order.
// If it is wanted less often, they match by origin, or, if the file has no origins, by ordinal; but not if only `some`
// parameters are loaded, as the file may be another program's. An ambiguous match is an error.
std::vector<int> match_weights(const std::vector<OfferedWeight>& offers, const std::vector<WantedWeight>& wanted,
                               const std::string& path, bool some);

}  // namespace karez

// Which tensor of a file is which variable: rules, names, and ordinals where several have one name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "karez/api/checkpoint.h"
#include "karez/data/weight_files.h"

namespace karez {

// A tensor of a file, or a part of one, under the name that it has here.
struct OfferedWeight {
  std::string name;
  std::optional<int> ordinal;  // "w#2"; none: there is one of the name
  std::string origin;  // of the parameter that was saved, where several had one name; "": the file does not say it
  data::WeightEntry entry;
  data::WeightPart part;
};

// The note that holds an entry's origin.
std::string origin_note(const std::string& entry);

// What the file's entries are after the rules. Errors name the file, the rule and the tensor.
std::vector<OfferedWeight> offered_weights(const data::WeightFiles& file, const std::vector<WeightRule>& rules);

struct WantedWeight {
  std::string name;
  int ordinal = 0;
  std::string origin;
};
// Of which parameter of several that have one name: in the order in which they were made.
bool created_before(const std::string& origin, const std::string& other);

// For each wanted one the offer that is meant, or -1. Where as many of one name are wanted as offered, they are told
// apart by the order in which they were made: the same program makes the same parameters in the same order. Where fewer
// are wanted, by their origins, or, if the file has none, by their ordinals; not if `some` parameters are loaded, of
// whatever program. What cannot be told apart is an error.
std::vector<int> match_weights(const std::vector<OfferedWeight>& offers, const std::vector<WantedWeight>& wanted,
                               const std::string& path, bool some);

}  // namespace karez

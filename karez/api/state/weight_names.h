// Matches tensors of a file with variables by rules, by names, and by origins or ordinals if names are equal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "karez/api/checkpoint_options.h"
#include "karez/data/weight_files.h"

namespace karez {

// A tensor of a file, or a part of one, under its name in this program.
struct OfferedWeight {
  std::string name;
  std::optional<int> ordinal;  // 2 for "w#2"; nullopt if the name is unique
  // The origin of the saved parameter, if several had the same name; "" if the file does not contain the origin.
  std::string origin;
  data::WeightEntry entry;
  data::WeightPart part;
};

// Returns the name of the note that holds an entry's origin.
std::string origin_note(const std::string& entry);

// Returns the entries of the file after applying the rules. Errors name the file, the rule and the tensor.
std::vector<OfferedWeight> offered_weights(const data::WeightFiles& file, const std::vector<WeightRule>& rules);

// A parameter or variable for which a value is loaded.
struct WantedWeight {
  std::string name;
  int ordinal = 0;
  std::string origin;
};
// Returns whether the parameter with the first origin was made before the one with the other origin. Their names must
// be equal.
bool created_before(const std::string& origin, const std::string& other);

// Returns the index of the matching offer for each wanted weight, or -1. If a name is wanted as often as it is offered,
// weights match in the order in which their parameters were made, because the same program makes the same parameters in
// the same order. If it is wanted less often, they match by origin, or by ordinal if the file has no origins; but not
// if the load `is_partial`, because the file may be from another program. An ambiguous match is an error.
std::vector<int> match_weights(const std::vector<OfferedWeight>& offers, const std::vector<WantedWeight>& wanted,
                               const std::string& path, bool is_partial);

}  // namespace karez

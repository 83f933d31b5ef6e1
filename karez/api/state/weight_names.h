// Matches tensors of a file with variables: by rules and names, and if several have the same name, by origins or
// ordinals.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "karez/api/checkpoint_options.h"
#include "karez/data/weight_files.h"

namespace karez {

// A tensor of a file, or a part of a tensor, with its name in this program.
struct OfferedWeight {
  std::string name;
  std::optional<int> ordinal;  // 2 for "w#2"; nullopt for a name without a number
  // The origin of the saved parameter, if several had the same name; "" if the file does not contain the origin.
  std::string origin;
  data::WeightEntry entry;
  data::WeightPart part;
};

// Returns the name of the note that holds an entry's origin.
std::string origin_note(const std::string& entry);

// Returns the entries of the file, and parts of entries, with the names that the rules give them. Errors name the file,
// the rule and the tensor.
std::vector<OfferedWeight> offered_weights(const data::WeightFiles& file, const std::vector<WeightRule>& rules);

// A parameter or variable for which a value is loaded.
struct WantedWeight {
  std::string name;
  int ordinal = 0;
  std::string origin;
};
// Returns whether the parameter with origin `origin` was made before the one with origin `other`. The two parameters
// must have the same name.
bool created_before(const std::string& origin, const std::string& other);

// Returns for each wanted weight the index of the matching offer, or -1 if there is none. If a name is wanted as often
// as it is offered, weights match in the order in which their parameters were made, because the same program makes the
// same parameters in the same order. Otherwise, they match by origin, or by ordinal if the file has no origins. If
// `is_partial` is true (only some parameters are loaded), this second match is not attempted, because the file may be
// from another program. An ambiguous match is an error.
std::vector<int> match_weights(const std::vector<OfferedWeight>& offers, const std::vector<WantedWeight>& wanted,
                               const std::string& path, bool is_partial);

}  // namespace karez

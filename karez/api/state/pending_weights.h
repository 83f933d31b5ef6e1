// Values that were loaded for variables that do not exist yet: each takes its own when it is born.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "karez/api/state/weight_names.h"

namespace karez {

struct PendingWeight {
  std::shared_ptr<const data::WeightFiles> file;  // open as it was found
  OfferedWeight offer;
  std::optional<Parameter::Identity> owner;  // whose it is; none: whoever bears name (and ordinal, if it has one) first
};

// The value of an offer for a variable of this type, read from its file.
HostArray value_of(const data::WeightFiles& file, const OfferedWeight& offer, const TensorType& type);
// Errors say both types, and what would make them one.
void require_fits(const data::WeightFiles& file, const OfferedWeight& offer, const std::string& name,
                  const TensorType& type);

struct PendingWeights {
  std::vector<PendingWeight> list;
  std::string whole_checkpoint;  // the checkpoint of everything that was loaded: who is born must be in it. Empty:
                                 // initial values will do

  // What waits for each of these, which are born together; null: nothing. One of another type, none where there must be
  // one, and one that two would take are errors.
  std::vector<const PendingWeight*> match(const std::vector<Parameter>& parameters) const;
  void remove(const Parameter& parameter);  // or is to be taken from elsewhere: it waits no more
  void drop_expired();                      // those whose owners are no more
};

}  // namespace karez

// Values that were loaded for variables that do not exist yet; a variable takes its value when it is created.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "karez/api/state/weight_names.h"

namespace karez {

struct PendingWeight {
  std::shared_ptr<const data::WeightFiles> file;  // the file, kept open
  OfferedWeight offer;
  // The parameter for which the value is loaded; nullopt means the first with this name (and ordinal, if any).
  std::optional<Parameter::Identity> owner;
};

// Reads the value of an offer for a variable of this type from the file.
HostArray value_of(const data::WeightFiles& file, const OfferedWeight& offer, const TensorType& type);
// Throws an error with both types and a possible fix if the offer does not fit a variable of this type.
void require_fits(const data::WeightFiles& file, const OfferedWeight& offer, const std::string& name,
                  const TensorType& type);

struct PendingWeights {
  std::vector<PendingWeight> list;
  // The path of the checkpoint from which everything was loaded, so that it must contain each new variable. If empty,
  // variables may start with their initial values.
  std::string complete_checkpoint;

  // Returns the pending value for each of these parameters, which are created together; null if there is no value.
  // Errors: a value of a different type, a missing value although `complete_checkpoint` is set, and one value for two
  // parameters.
  std::vector<const PendingWeight*> match(const std::vector<Parameter>& parameters) const;
  void remove(const Parameter& parameter);  // removes the value of a parameter, if any
  void drop_expired();                      // removes values with an owner that no longer exists
};

}  // namespace karez

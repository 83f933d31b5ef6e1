// Values that were loaded for variables that do not exist yet; each variable takes its value when it is created.
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
  // The parameter it is for; none: the first with its name (and ordinal, if it has one).
  std::optional<Parameter::Identity> owner;
};

// The value of an offer for a variable of this type, read from its file.
HostArray value_of(const data::WeightFiles& file, const OfferedWeight& offer, const TensorType& type);
// Errors contain both types, and a possible fix.
void require_fits(const data::WeightFiles& file, const OfferedWeight& offer, const std::string& name,
                  const TensorType& type);

struct PendingWeights {
  std::vector<PendingWeight> list;
  // The checkpoint from which everything was loaded: each new variable must be in it. Empty: variables may start with
  // their initial values.
  std::string whole_checkpoint;

  // The pending value for each of these parameters, which are created together; null if there is none. A value of
  // another type, no value although `whole_checkpoint` is set, and one value for two parameters are errors.
  std::vector<const PendingWeight*> match(const std::vector<Parameter>& parameters) const;
  void remove(const Parameter& parameter);  // also used if the parameter gets another value
  void drop_expired();                      // values with an owner that no longer exists
};

}  // namespace karez

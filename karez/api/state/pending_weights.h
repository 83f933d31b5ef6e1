// PendingWeights: values that were loaded for variables that do not exist yet. A variable takes its value when it is
// created.
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
// Throws if the value of the offer does not fit a variable of this type. The error gives the two types and a possible
// fix.
void require_fits(const data::WeightFiles& file, const OfferedWeight& offer, const std::string& name,
                  const TensorType& type);

struct PendingWeights {
  std::vector<PendingWeight> list;
  // The path of the checkpoint if all variables were loaded from one; each new variable must then be in this file. If
  // empty, variables may start with their initial values.
  std::string complete_checkpoint;

  // Returns the pending value of each of these parameters, which are created together; null for a parameter without a
  // value. Throws if a value has a different type, if a value is missing although `complete_checkpoint` is set, or if
  // two parameters match the same value.
  std::vector<const PendingWeight*> match(const std::vector<Parameter>& parameters) const;
  void remove(const Parameter& parameter);  // removes the value of a parameter, if any
  void drop_expired();                      // removes values with an owner that no longer exists
};

}  // namespace karez

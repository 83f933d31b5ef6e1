// Ranks that read a stream agree, for each element, whether all of them have one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "karez/api/state/world_state.h"

namespace karez {

class BatchAgreement {
 public:
  // `stream` is the number of the iterator in this world, the same on all ranks.
  BatchAgreement(std::weak_ptr<WorldState> world, int stream) : world_(std::move(world)), stream_(stream) {}

  enum class Presence : std::uint8_t { all, some, none };
  // Call on all ranks. `types` describes this rank's element; it is empty if the rank's stream has ended. Throws if the
  // elements have different types, or if a rank calls another op.
  Presence agree(std::int64_t epoch, std::int64_t number, const std::string& types) const;
  // Call on all ranks. Returns the texts of all ranks.
  std::vector<std::string> all_texts(const std::string& text) const;
  int ranks() const;
  int rank() const;

 private:
  std::shared_ptr<WorldState> world() const;
  std::weak_ptr<WorldState> world_;
  int stream_;
};

}  // namespace karez

// Random data sets of numbers, each with a model: the numbers of an epoch, computed with plain lists.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "karez/data/dataset.h"
#include "karez/data/namespace.h"

namespace karez::data {

using Numbers = std::vector<std::int64_t>;

struct ModelledDataset {
  Dataset dataset;
  std::function<Numbers(std::int64_t epoch)> model;
};

// Random numbers from a seed.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::int64_t below(std::int64_t limit);
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool chance(double p) { return static_cast<double>(below(1 << 30)) < p * (1 << 30); }

 private:
  std::uint64_t seed_, count_ = 0;
};

struct RandomDatasetOptions {
  int stages = 6;             // at most
  bool errors = false;        // a function may throw at some number
  bool unordered = false;     // stages may be non-deterministic
  Draw* lanes = nullptr;      // draws only the numbers of lanes
  bool automatic = false;     // some numbers of lanes and slots are automatic
  std::string snapshot = {};  // the path of a snapshot, which is one of the stages; empty: none
};
// The elements are i64 scalars.
ModelledDataset random_dataset(Draw& draw, const RandomDatasetOptions& options = {});

std::int64_t number_of(const Element& element);                    // of an i64 scalar
Numbers read_all(const Dataset& dataset, std::int64_t epoch = 0);  // sequentially

}  // namespace karez::data

// An iterator of a data set, whose elements the data threads of a world produce ahead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "karez/api/names.h"
#include "karez/data/dataset.h"

namespace karez {

namespace runtime {
class DataThreads;
class DatasetReader;
}  // namespace runtime

// Options of World::iterate.
struct IterateOptions {
  int slots = 2;  // the number of elements that are produced ahead of the reader
  // With several ranks: all of them iterate over equal data sets, which is checked; only the indices of shards may
  // differ. If false, ranks iterate independently.
  bool compare = true;
};

// Reads the epochs of a data set. May be used by one thread at a time, except for `close`.
//
//   DataIterator batches = world.iterate(data::from_arrays({x, y}).shuffle().batch(64));
//   while (auto batch = batches.next()) step(data::array_of(*batch, 0), data::array_of(*batch, 1));
class DataIterator {
 public:
  DataIterator(const data::Dataset& dataset, std::shared_ptr<runtime::DataThreads> threads, int slots,
               std::function<void()> while_waiting);
  DataIterator(DataIterator&&) noexcept;
  ~DataIterator();  // calls close() if it was not called

  // Returns the next element of the epoch, or nothing at its end; the call after that begins the next epoch. The first
  // epoch has number 0. An error of a stage is thrown after the preceding elements, and the epoch then ends.
  std::optional<data::Element> next();
  // Begins this epoch, whatever was read before.
  void start(std::int64_t epoch);
  // The position as text: after the last element that `next` returned. `restore` continues there, also in another
  // process, for the same data set.
  std::string state() const;
  void restore(std::string_view state);
  std::int64_t epoch() const;  // of the last element
  // Frees the elements produced ahead; `next` then returns nothing. Waits for functions of the data set that are
  // running; if `wait` is false, they may continue after `close` and after the destructor. Any thread may call it.
  void close(bool wait = true);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace karez

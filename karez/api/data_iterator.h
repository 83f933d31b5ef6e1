// An iterator of a data set, whose elements the data threads of a world produce ahead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "karez/api/names.h"
#include "karez/api/tensor.h"
#include "karez/data/dataset.h"

namespace karez {

struct WorldState;
class BatchAgreement;

// What happens if the data sets of several ranks end after different numbers of elements, for example because each
// rank filters its own shard.
enum class UnevenEnd : std::uint8_t {
  stop,  // the epoch ends on all ranks with the shortest of them
  pad,   // the epoch ends with the longest of them; the other ranks read zeros, as weights of LastBatch::pad are 0
};

// Options of World::iterate.
struct IterateOptions {
  // The number of elements that are produced ahead of the reader. Automatic: 2, unless other numbers of the data set
  // are automatic.
  int slots = data::automatic;
  // With several ranks: all of them iterate over equal data sets, which is checked; only the indices of shards may
  // differ. Of batches whose rows can be read by index, each rank makes only the rows that it reads (see
  // `next_partial`). Shards, and data sets that cannot be read by index, may end after different numbers of elements,
  // so for each element the ranks agree whether all of them have one, with the same types; this costs a message to
  // rank 0 and back. If false, ranks iterate independently.
  bool compare = true;
  UnevenEnd uneven = UnevenEnd::stop;  // if the ranks agree on each element
};

// Reads the epochs of a data set. May be used by one thread at a time, except for `close`.
//
//   DataIterator batches = world.iterate(data::from_arrays({x, y}).shuffle().batch(64));
//   while (auto batch = batches.next()) step(data::array_of(*batch, 0), data::array_of(*batch, 1));
class DataIterator {
 public:
  DataIterator(const std::shared_ptr<WorldState>& world, const data::Dataset& dataset, const IterateOptions& options);
  DataIterator(DataIterator&&) noexcept;
  ~DataIterator();  // calls close() if it was not called

  // Returns the next element of the epoch, or nothing at its end; the call after that begins the next epoch. The first
  // epoch has number 0. Elements that a function has skipped are left out. An error of a stage is thrown after the
  // preceding elements, and the epoch then ends. If a rank fails while `next` waits, the error of that rank is thrown;
  // the iterator stays usable. A stage that runs longer than WorldOptions::call_timeout while another rank waits is
  // such a failure.
  std::optional<data::Element> next();
  // The same, except that rows may be missing in a batch (they are zeros) if the ranks compare a data set that can be
  // read by index. `tensor_of` makes tensors from it, for which missing rows are made when they are read. At first, no
  // row is missing; later, those that this rank has never read.
  std::optional<data::Element> next_partial();
  // Begins this epoch, whatever was read before.
  void start(std::int64_t epoch);
  // The position as text: after the last element that `next` returned. `restore` continues there, also in another
  // process, for the same data set.
  std::string state() const;
  // The position for a checkpoint of all ranks; all of them must call it. It equals `state` if all ranks read the same
  // elements. Otherwise, as with shards, it contains the positions of all ranks, and only the same number of ranks can
  // restore it.
  std::string common_state() const;
  void restore(std::string_view state);
  std::int64_t epoch() const;  // of the last element
  // A table of the actors that execute the stages, those of the sources first: lanes, filled slots of all slots, acts,
  // elements emitted, the time of the acts (in total and for each element emitted), and the shares of the time in which
  // an act ran, the actor had no input, or it had no free slot, and whether the acts mostly compute (CPU) or mostly
  // wait (IO), with the part of their time in which they compute. `position` says how the actor continues at a
  // position: by an index, by numbers, by reading elements again (`replay`) or by a generator's own state. Lines below
  // the table say why automatic numbers are what they are now, for how long the devices waited for data since the first
  // element, and which stage limits the others.
  std::string explain() const;
  // Frees the elements produced ahead; `next` then returns nothing. Waits for functions of the data set that are
  // running; if `wait` is false, they may continue after `close` and after the destructor. Any thread may call it.
  void close(bool wait = true);
  // Throws in a process that was forked after a world was created: it lacks the threads of data sets. `close` does
  // nothing there.
  static void check_process();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The array in a field of an element as a tensor, without a copy.
Tensor tensor_of(const data::Element& element, std::size_t field = 0);

}  // namespace karez

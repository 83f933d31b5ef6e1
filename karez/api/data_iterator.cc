// Reads the epochs of a data set, and prints and restores the position.
#include "karez/api/data_iterator.h"

#include <atomic>

#include "karez/api/namespace.h"
#include "karez/base/scanner.h"
#include "karez/data/stages/stage_tree.h"
#include "karez/runtime/stages/dataset_reader.h"

namespace karez {

struct DataIterator::State {
  State(const data::Dataset& dataset, std::shared_ptr<runtime::DataThreads> data_threads, int slots,
        std::function<void()> while_waiting)
      : threads(std::move(data_threads)),
        ordered(data::is_ordered(*dataset.node())),
        reader(dataset, *threads, {.slots = slots, .while_waiting = std::move(while_waiting)}) {}
  std::shared_ptr<runtime::DataThreads> threads;
  const bool ordered;
  runtime::DatasetReader reader;
  std::int64_t epoch = 0;
  bool started = false, ended = false;
  std::atomic<bool> closed{false};
};

DataIterator::DataIterator(const data::Dataset& dataset, std::shared_ptr<runtime::DataThreads> threads, int slots,
                           std::function<void()> while_waiting)
    : state_(std::make_unique<State>(dataset, std::move(threads), slots, std::move(while_waiting))) {}
DataIterator::DataIterator(DataIterator&&) noexcept = default;
DataIterator::~DataIterator() = default;

std::optional<data::Element> DataIterator::next() {
  if (state_->closed) return std::nullopt;
  if (!state_->started) start(state_->epoch);
  else if (state_->ended) start(state_->epoch + 1);
  std::optional<data::Element> element = state_->reader.next();
  if (!element && state_->reader.closed()) {
    require(state_->closed, "the world has ended, so its data sets cannot be read any more");
    return std::nullopt;  // the position stays
  }
  state_->ended = !element;
  return element;
}

void DataIterator::start(std::int64_t epoch) {
  require(epoch >= 0, "the epoch must be at least 0, got ", epoch);
  state_->reader.start({epoch});
  state_->epoch = epoch;
  state_->started = true, state_->ended = false;
}

std::int64_t DataIterator::epoch() const { return state_->epoch; }

std::string DataIterator::state() const {
  require(state_->ordered,
          "an iterator has no position if a stage passes elements on as soon as they are ready (deterministic=False)");
  if (state_->ended) return cat("epoch ", state_->epoch + 1, " -");
  return cat("epoch ", state_->epoch, " ", print(state_->reader.state()));
}

void DataIterator::restore(std::string_view text) {
  std::int64_t epoch = 0;
  std::size_t position = 0;
  try {
    base::Scanner in(text, "the state of an iterator");
    in.expect("epoch");
    epoch = in.integer();
    position = in.position();
  } catch (const Error& error) { throw Error(ErrorKind::data, error.what()); }
  require(ErrorKind::data, epoch >= 0, "the state of an iterator has epoch ", epoch);
  state_->reader.start({epoch, data::parse_stream_state(text.substr(position))});
  state_->epoch = epoch;
  state_->started = true, state_->ended = false;
}

void DataIterator::close(bool wait) {
  state_->closed = true;
  state_->reader.close(wait);
}

}  // namespace karez

// Reads the elements of a data set, which data threads produce ahead.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "karez/data/dataset.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/stages/data_threads.h"
#include "karez/runtime/stages/served_stream.h"

namespace karez::runtime {

struct ReaderOptions {
  // The number of elements that are produced ahead of the reader. Automatic: 2, unless other numbers of the data set
  // are automatic.
  int slots = data::automatic;
  // Called about twenty times a second while `next` waits. An exception leaves `next`; the reader stays usable.
  std::function<void()> while_waiting = nullptr;
};

// May be used by one thread at a time, except for `close`. The threads must exist until it is closed.
class DatasetReader {
 public:
  DatasetReader(const Dataset& dataset, DataThreads& threads, ReaderOptions options = {})
      : slots_(options.slots),
        threads_(threads),
        while_waiting_(std::move(options.while_waiting)) {
    StageTree tree = stage_tree(dataset.node(), slots_);
    if (tree.has_automatic_numbers()) dataset_ = dataset;
    served_ = threads.serve(std::move(tree));
  }
  ~DatasetReader() {
    if (!closed_) threads_.close(served_);
  }
  DatasetReader(const DatasetReader&) = delete;
  DatasetReader& operator=(const DatasetReader&) = delete;

  // Starts an epoch, from its beginning or from a state. An epoch that is being read ends.
  void start(const RunStart& run = {}) {
    if (remaking_ || (wants_other_actors() && !threads_.is_closed(*served_))) make_again();
    threads_.start(*served_, run);
    epoch_ = run.epoch, state_ = run.state, stays_ = false;
  }
  // The next element; nothing at the end of the epoch or after `close`. Throws an error of a stage once; the epoch has
  // then ended.
  std::optional<Element> next() {
    if (remaking_ || (!stays_ && wants_other_actors())) {
      stays_ = !remaking_ && !threads_.may_continue_at(*served_, state_.get());
      if (!stays_) {
        make_again();
        try {
          threads_.start(*served_, {epoch_, state_});
        } catch (const Error&) {
          if (closed_) return std::nullopt;  // by another thread
          throw;
        }
      }
    }
    std::optional<Element> element = threads_.next(served_, while_waiting_);
    if (element) state_ = element->state;
    return element;
  }
  // The state after the last element that `next` returned in this epoch; null before the first one.
  const StreamStateRef& state() const { return state_; }
  // Whether it was closed, possibly by the end of the threads.
  bool closed() const { return threads_.is_closed(*served_); }
  // What the stages have done, as text. Any thread may call it between calls of `next` and `start`.
  std::string explain() const { return threads_.explain(*served_, state_); }
  // Ends the reader: waits for running acts, unless one of them calls it, and frees all elements. Any thread may call
  // it, any number of times. If `wait` is false, neither `close` nor the destructor waits; the last act then frees the
  // elements.
  void close(bool wait = true) {
    closed_ = true;
    std::optional<Dataset> unused;  // destroyed without the lock
    std::unique_lock lock(mutex_);
    unused.swap(dataset_);
    const std::shared_ptr<ServedStream> served = served_;
    lock.unlock();
    threads_.close(served, wait, while_waiting_);
  }

 private:
  bool wants_other_actors() const { return served_->wants_other_actors.load(std::memory_order_relaxed); }
  // Replaces the stream by one with other actors. Acts of the old one have ended, because functions need not allow
  // several calls at the same time. If an exception of `while_waiting` leaves it, the next call goes on with it.
  void make_again() {
    remaking_ = true;
    threads_.close(served_, true, while_waiting_);
    std::unique_lock lock(mutex_);
    const std::optional<Dataset> dataset = dataset_;
    lock.unlock();
    remaking_ = false;
    if (!dataset) return;  // closed by another thread
    std::shared_ptr<ServedStream> made = threads_.serve(stage_tree(dataset->node(), slots_));
    lock.lock();
    served_ = std::move(made);
    lock.unlock();
    if (closed_) threads_.close(served_);
  }

  std::optional<Dataset> dataset_;  // if it has automatic numbers, and until it is closed
  const int slots_;
  DataThreads& threads_;
  std::function<void()> while_waiting_;
  std::mutex mutex_;  // guards served_ and dataset_, because another thread may close them
  std::shared_ptr<ServedStream> served_;
  std::atomic<bool> closed_{false};
  bool remaking_ = false;
  bool stays_ = false;  // this epoch cannot go on with other actors
  std::int64_t epoch_ = 0;
  StreamStateRef state_;
};

}  // namespace karez::runtime

// Reads the elements of a data set, which data threads produce ahead.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "karez/data/dataset.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/stages/data_threads.h"

namespace karez::runtime {

struct ReaderOptions {
  int slots = 2;  // elements that are produced ahead of the reader
  // Called about twenty times a second while `next` waits. An exception leaves `next`; the reader stays usable.
  std::function<void()> while_waiting = nullptr;
};

// May be used by one thread at a time, except for `close`. The threads must exist until it is closed.
class DatasetReader {
 public:
  DatasetReader(const Dataset& dataset, DataThreads& threads, ReaderOptions options = {})
      : threads_(threads),
        while_waiting_(std::move(options.while_waiting)),
        served_(threads.serve(stage_tree(dataset.node(), options.slots))) {}
  ~DatasetReader() {
    if (!closed_) threads_.close(served_);
  }
  DatasetReader(const DatasetReader&) = delete;
  DatasetReader& operator=(const DatasetReader&) = delete;

  // Starts an epoch, from its beginning or from a state. An epoch that is being read ends.
  void start(const RunStart& run = {}) {
    threads_.start(*served_, run);
    state_ = run.state;
  }
  // The next element; nothing at the end of the epoch or after `close`. Throws an error of a stage once; the epoch has
  // then ended.
  std::optional<Element> next() {
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
    threads_.close(served_, wait, while_waiting_);
    closed_ = true;
  }

 private:
  DataThreads& threads_;
  std::function<void()> while_waiting_;
  std::shared_ptr<ServedStream> served_;
  std::atomic<bool> closed_{false};
  StreamStateRef state_;
};

}  // namespace karez::runtime

// A record of the acts of data set stages, and of the times when devices waited for data, while a profile is on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct StageSpan {
  std::shared_ptr<const std::string> stage;  // "map(decode)"; of a stall: the stage that the reader reads
  int thread = 0;                            // the number of a data thread; 0: another thread
  int thread_id = 0;                         // of the system
  std::int64_t begin = 0, end = 0;           // ticks
  bool stall = false;                        // the session had no launch, and the program waited for an element
  std::int64_t elements = 0;                 // emitted
  std::int64_t bytes = 0;                    // of their arrays
};

// Any thread may call the functions.
class StageLog {
 public:
  explicit StageLog(std::size_t max_spans = 1 << 21) : max_spans_(max_spans) {}
  void add(StageSpan span) {
    std::lock_guard lock(mutex_);
    if (spans_.size() < max_spans_) spans_.push_back(std::move(span));
    else ++lost_;
  }
  std::vector<StageSpan> spans() const {
    std::lock_guard lock(mutex_);
    return spans_;
  }
  std::size_t lost() const {  // the number of spans beyond the limit
    std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  const std::size_t max_spans_;
  mutable std::mutex mutex_;
  std::vector<StageSpan> spans_;
  std::size_t lost_ = 0;
};

}  // namespace karez::runtime

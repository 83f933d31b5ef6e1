// Counts of the records that functions of a stream skip because of errors, which are reported at the end of the epoch.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/data/formats.h"
#include "karez/data/namespace.h"

namespace karez::data {

// Counts by the name of the function, such as "from_text" or "decode". May be used by several threads.
class SkipCounts {
 public:
  void add(std::string_view function, const SkippedRecords& skipped, const SkipReport& report);
  void add(const SkipCounts& other);
  // Reports each function's count, with its first error, and starts again at 0.
  void report();

 private:
  struct Entry {
    std::string function;
    SkippedRecords skipped;
    SkipReport report;
  };
  std::vector<Entry> entries() const;

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

// The counts of the stream whose stage this thread executes; null outside of streams.
std::shared_ptr<SkipCounts> current_skip_counts();

// While it exists, records that this thread skips are added to these counts.
class SkipCountsScope {
 public:
  explicit SkipCountsScope(std::shared_ptr<SkipCounts> counts);
  ~SkipCountsScope();
  SkipCountsScope(const SkipCountsScope&) = delete;
  SkipCountsScope& operator=(const SkipCountsScope&) = delete;

 private:
  std::shared_ptr<SkipCounts> outer_;
};

}  // namespace karez::data

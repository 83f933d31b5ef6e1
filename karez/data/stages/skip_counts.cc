// Adds up and reports skipped records.
#include "karez/data/stages/skip_counts.h"

#include <algorithm>

#include "karez/base/log.h"

namespace karez::data {
namespace {

thread_local std::shared_ptr<SkipCounts> counts_of_thread;

void report_skipped(std::string_view function, const SkippedRecords& skipped, const SkipReport& report) {
  if (report) return report(skipped);
  note(LogLevel::warning, function, ": ", skipped.count,
       " damaged records or files were skipped; the first error: ", skipped.first_error);
}

}  // namespace

void SkipCounts::add(std::string_view function, const SkippedRecords& skipped, const SkipReport& report) {
  std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.function == function; });
  if (found == entries_.end()) entries_.push_back({std::string(function), skipped, report});
  else found->skipped.count += skipped.count;
}

void SkipCounts::add(const SkipCounts& other) {
  for (const Entry& entry : other.entries()) add(entry.function, entry.skipped, entry.report);
}

std::vector<SkipCounts::Entry> SkipCounts::entries() const {
  std::lock_guard lock(mutex_);
  return entries_;
}

void SkipCounts::report() {
  std::vector<Entry> entries;
  {
    std::lock_guard lock(mutex_);
    entries.swap(entries_);
  }
  for (const Entry& entry : entries) report_skipped(entry.function, entry.skipped, entry.report);
}

std::shared_ptr<SkipCounts> current_skip_counts() { return counts_of_thread; }

void count_skipped(std::string_view function, const SkippedRecords& skipped, const SkipReport& report) {
  if (counts_of_thread) counts_of_thread->add(function, skipped, report);
  else report_skipped(function, skipped, report);
}

SkipCountsScope::SkipCountsScope(std::shared_ptr<SkipCounts> counts)
    : outer_(std::exchange(counts_of_thread, std::move(counts))) {}
SkipCountsScope::~SkipCountsScope() { counts_of_thread = std::move(outer_); }

}  // namespace karez::data

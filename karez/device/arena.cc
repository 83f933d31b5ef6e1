// Implements arenas with reserved address ranges of the host.
#include "karez/device/arena.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::device {

struct Arena::Range {
  std::byte* begin = nullptr;
  std::int64_t reserved = 0, committed = 0;
  std::multiset<std::int64_t> uses;
  std::mutex mutex;
  std::shared_ptr<MemoryCounters> counters;

  Range(std::int64_t min_bytes, std::shared_ptr<MemoryCounters> shared) : counters(std::move(shared)) {
    constexpr std::int64_t default_bytes = std::int64_t{64} << 30;
    const std::int64_t physical_bytes = sysconf(_SC_PHYS_PAGES) * page_size();
    if (rlimit limit{}; getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      return;  // reserved addresses would count towards the limit
    for (std::int64_t reserved_bytes = round_up(std::max({default_bytes, physical_bytes, min_bytes}), page_size());
         reserved_bytes >= min_bytes; reserved_bytes = round_up(reserved_bytes / 2, page_size())) {
      void* address = mmap(nullptr, static_cast<std::size_t>(reserved_bytes), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (address == MAP_FAILED) continue;
      begin = static_cast<std::byte*>(address);
      reserved = reserved_bytes;
      return;
    }
  }
  ~Range() {
    if (begin != nullptr)
      munmap(begin, static_cast<std::size_t>(reserved));  // no lease is left, so no memory is counted
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  static std::int64_t page_size() {
    static const std::int64_t size = sysconf(_SC_PAGESIZE);
    return size;
  }

  // Call with the lock held. Touches new pages here, so that the first launch does not.
  void commit(std::int64_t bytes) {
    const std::int64_t new_end = round_up(bytes, page_size()), old_end = round_up(committed, page_size());
    if (bytes > committed && old_end > committed)
      std::memset(
          begin + committed, 0,
          static_cast<std::size_t>(std::min(bytes, old_end) - committed));  // these bytes belonged to an earlier lease
    if (new_end > old_end) {
      if (new_end > reserved ||
          mprotect(begin + old_end, static_cast<std::size_t>(new_end - old_end), PROT_READ | PROT_WRITE) != 0)
        fail(ErrorKind::device, "out of host memory: ", bytes_text(bytes), " requested, ",
             bytes_text(counters->current.load()), " in use");
      std::memset(begin + old_end, 0, static_cast<std::size_t>(new_end - old_end));
    } else if (new_end < old_end) {
      madvise(begin + new_end, static_cast<std::size_t>(old_end - new_end), MADV_DONTNEED);
      mprotect(begin + new_end, static_cast<std::size_t>(old_end - new_end), PROT_NONE);
    }
    counters->add(bytes - committed);
    committed = bytes;
  }
};

Arena::Arena(std::shared_ptr<MemoryCounters> counters) : counters_(std::move(counters)) {}

std::optional<Arena::Lease> Arena::lease(std::int64_t bytes) {
  require(bytes >= 0, "an arena must have at least 0 bytes, got ", bytes);
  if (range_ == nullptr) {
    auto range = std::make_shared<Range>(round_up(std::max<std::int64_t>(bytes, 1), Range::page_size()), counters_);
    if (range->begin == nullptr) return std::nullopt;
    range_ = std::move(range);
  }
  if (bytes > range_->reserved) return std::nullopt;
  return Lease(range_, bytes);
}

std::int64_t Arena::bytes() const {
  if (range_ == nullptr) return 0;
  std::lock_guard lock(range_->mutex);
  return range_->committed;
}

Arena::Lease::Lease(std::shared_ptr<Range> range, std::int64_t bytes) : range_(std::move(range)), bytes_(bytes) {
  std::lock_guard lock(range_->mutex);
  zeroed_from_ = range_->committed;
  if (bytes > range_->committed) range_->commit(bytes);
  range_->uses.insert(bytes);
}

Arena::Lease::~Lease() {
  if (range_ == nullptr) return;
  std::lock_guard lock(range_->mutex);
  range_->uses.erase(range_->uses.find(bytes_));
  const std::int64_t largest = range_->uses.empty() ? 0 : *range_->uses.rbegin();
  if (largest < range_->committed) range_->commit(largest);
}

std::byte* Arena::Lease::data() const { return range_->begin; }

}  // namespace karez::device

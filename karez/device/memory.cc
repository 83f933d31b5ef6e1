// Device memory on the host: aligned allocation, counters and poison.
#include "karez/device/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/device/free_blocks.h"

namespace karez::device {
namespace {

constexpr std::size_t huge_page = 2 << 20;  // of x86

// Returns null if memory runs out. Sizes larger than any address space are not passed to malloc, because sanitizers
// would abort.
std::byte* allocate_aligned(std::int64_t bytes) {
  if (bytes >> 47) return nullptr;
  const auto size = static_cast<std::size_t>(bytes), alignment = size < huge_page ? 64 : huge_page;
  void* data = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (data != nullptr && size >= huge_page)
    madvise(data, size / huge_page * huge_page, MADV_HUGEPAGE);  // has no effect if it fails
  return static_cast<std::byte*>(data);
}

}  // namespace

void MemoryCounters::add(std::int64_t bytes) {
  std::int64_t total = current.fetch_add(bytes) + bytes, old_peak = peak.load();
  while (total > old_peak && !peak.compare_exchange_weak(old_peak, total)) {}
}

Memory::Memory(std::byte* data, std::int64_t bytes, std::shared_ptr<MemoryCounters> counters)
    : data_(data),
      bytes_(bytes),
      counters_(std::move(counters)) {
  if (counters_) counters_->add(bytes_);
}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(counters_, other.counters_);
  return *this;
}

Memory::~Memory() {
  if (counters_) counters_->add(-bytes_);
  if (counters_ && counters_->free_blocks && data_ != nullptr)
    counters_->free_blocks->keep(data_, bytes_, counters_->current.load());
  else std::free(data_);
}

Memory allocate_host(std::int64_t bytes, std::shared_ptr<MemoryCounters> counters) {
  require(bytes >= 0, "a block must have at least 0 bytes, got ", bytes);
  FreeBlocks* free_blocks = counters ? counters->free_blocks.get() : nullptr;
  if (free_blocks != nullptr)
    if (std::byte* kept = free_blocks->take(bytes)) return Memory(kept, bytes, std::move(counters));
  const std::int64_t capacity =
      free_blocks != nullptr ? FreeBlocks::capacity(bytes) : round_up(std::max<std::int64_t>(bytes, 1), 64);
  std::byte* data = allocate_aligned(capacity);
  if (data == nullptr && free_blocks != nullptr) {
    free_blocks->clear();
    data = allocate_aligned(capacity);
  }
  if (data == nullptr)  // formatting sizes takes longer than allocating small blocks
    fail(ErrorKind::device, "out of host memory: ", bytes_text(bytes), " requested, ",
         bytes_text(counters ? counters->current.load() : 0), " in use");
  if (free_blocks == nullptr) std::memset(data, 0, static_cast<std::size_t>(capacity));
  return Memory(data, bytes, std::move(counters));
}

// The pattern 0xFBFBFBFB would be unsuitable: it is a large negative f32, not a NaN. This pattern is invalid in all
// types: f32 0xFFFBFBFB and f64 0xFFFBFBFBFFFBFBFB are NaNs, i32 and i64 are negative, no byte is 0 or 1.
void poison(std::byte* data, std::int64_t bytes) {
  static constexpr unsigned char pattern[4] = {0xFB, 0xFB, 0xFB, 0xFF};
  for (std::int64_t i = 0; i < bytes; ++i) data[i] = std::byte{pattern[i % 4]};
}

}  // namespace karez::device

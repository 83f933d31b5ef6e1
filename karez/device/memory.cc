// Device memory on the host: aligned allocation, counters and poison.
#include "karez/device/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::device {

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
  std::free(data_);
}

Memory allocate_host(std::int64_t bytes, std::shared_ptr<MemoryCounters> counters) {
  require(bytes >= 0, "a block must have at least 0 bytes, got ", bytes);
  auto rounded = round_up(std::max<std::int64_t>(bytes, 1), 64);
  // Sizes larger than any address space are not passed to malloc, because sanitizers would abort.
  auto* data =
      rounded >> 47 ? nullptr : static_cast<std::byte*>(std::aligned_alloc(64, static_cast<std::size_t>(rounded)));
  if (data == nullptr)  // formatting sizes takes longer than allocating small blocks
    fail(ErrorKind::device, "out of host memory: ", bytes_text(bytes), " requested, ",
         bytes_text(counters ? counters->current.load() : 0), " in use");
  std::memset(data, 0, static_cast<std::size_t>(rounded));
  return Memory(data, bytes, std::move(counters));
}

// The pattern 0xFBFBFBFB would be unsuitable: it is a large negative f32, not a NaN. This pattern is invalid in all
// types: f32 0xFFFBFBFB and f64 0xFFFBFBFBFFFBFBFB are NaNs, i32 and i64 are negative, no byte is 0 or 1.
void poison(std::byte* data, std::int64_t bytes) {
  static constexpr unsigned char pattern[4] = {0xFB, 0xFB, 0xFB, 0xFF};
  for (std::int64_t i = 0; i < bytes; ++i) data[i] = std::byte{pattern[i % 4]};
}

}  // namespace karez::device

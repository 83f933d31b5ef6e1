// Allocates the bytes of an array in host memory, or uses existing bytes.
#include "karez/device/host_array.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "karez/device/block_cache.h"

namespace karez::device {

HostArray::HostArray() = default;
HostArray::HostArray(const HostArray&) = default;
HostArray::HostArray(HostArray&&) noexcept = default;
HostArray& HostArray::operator=(const HostArray&) = default;
HostArray& HostArray::operator=(HostArray&&) noexcept = default;
HostArray::~HostArray() = default;

HostArray::HostArray(TensorType type) : view_(std::move(type)) {
  std::size_t bytes = static_cast<std::size_t>(round_up(std::max<std::int64_t>(view_.bytes(), 1), 64));
  if (bytes <= 1024) {  // one allocation of less time than std::aligned_alloc takes
    const auto block = std::make_shared<std::byte[]>(bytes + 63);
    const auto begin = reinterpret_cast<std::uintptr_t>(block.get());
    bytes_ = std::shared_ptr<std::byte[]>(block, block.get() + ((begin + 63) / 64 * 64 - begin));
    return;
  }
  bytes_ = allocate_shared_bytes(view_.bytes());
  std::memset(bytes_.get(), 0, bytes);
}

HostArray::HostArray(TensorType type, std::shared_ptr<std::byte[]> bytes)
    : view_(std::move(type)),
      bytes_(std::move(bytes)) {
  require(bytes_ != nullptr &&
              reinterpret_cast<std::uintptr_t>(bytes_.get()) % static_cast<std::uintptr_t>(size_of(view_.dtype)) == 0,
          "the bytes of an array of ", view_, " are not aligned for its elements");
}

}  // namespace karez::device

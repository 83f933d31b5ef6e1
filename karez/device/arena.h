// An arena: memory of one device that several plans use one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "karez/device/memory.h"
#include "karez/device/namespace.h"

namespace karez::device {

// Reserves a range of addresses once, and commits as much memory at its beginning as the largest lease needs. The
// memory grows and shrinks at its end, and addresses stay the same. The arena does not synchronise leases: their owners
// must not use them at the same time. Leases may outlive the arena.
class Arena {
  struct Range;

 public:
  explicit Arena(std::shared_ptr<MemoryCounters> counters);

  // The right to use the first `bytes` bytes during the lifetime of this object.
  class Lease {
   public:
    Lease(std::shared_ptr<Range> range, std::int64_t bytes);
    Lease(Lease&& other) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    std::byte* data() const;
    std::int64_t zeroed_from() const { return zeroed_from_; }  // bytes from this offset on are new and zero

   private:
    std::shared_ptr<Range> range_;
    std::int64_t bytes_ = 0, zeroed_from_ = 0;
  };
  // Returns nullopt if addresses are limited (`ulimit -v`) or no range of this size is free; throws if memory runs out.
  std::optional<Lease> lease(std::int64_t bytes);
  std::int64_t bytes() const;  // the committed bytes

 private:
  std::shared_ptr<MemoryCounters> counters_;
  std::shared_ptr<Range> range_;
};

}  // namespace karez::device

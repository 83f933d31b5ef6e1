// An arena: memory of one device that several plans use, one after the other.
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

// A range of addresses is reserved once, and as much of it holds memory as the largest use asks for: it grows and
// shrinks at its end, and addresses stay. Its users keep out of each other's way themselves. Uses may outlive it.
class Arena {
  struct Range;

 public:
  explicit Arena(std::shared_ptr<MemoryCounters> counters);

  // So many bytes from the beginning on, as long as this lives.
  class Lease {
   public:
    Lease(std::shared_ptr<Range> range, std::int64_t bytes);
    Lease(Lease&& other) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    std::byte* data() const;
    std::int64_t zeroed_from() const { return zeroed_from_; }  // from this byte on, what lies there is new, and zero

   private:
    std::shared_ptr<Range> range_;
    std::int64_t bytes_ = 0, zeroed_from_ = 0;
  };
  // None where addresses are limited (`ulimit -v`), or no range of this size can be had. No memory left: an error.
  std::optional<Lease> lease(std::int64_t bytes);
  std::int64_t bytes() const;  // that it holds

 private:
  std::shared_ptr<MemoryCounters> counters_;
  std::shared_ptr<Range> range_;
};

}  // namespace karez::device

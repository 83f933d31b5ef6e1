// Sets the time slice of a thread of the ordinary scheduling class with sched_setattr(2).
#include "karez/comm/time_slice.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace karez::comm {
namespace {

struct SchedulingAttributes {  // as defined by the kernel
  std::uint32_t size, policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime, deadline, period;
};

}  // namespace

void request_short_time_slice() {
  SchedulingAttributes attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  constexpr std::uint32_t ordinary_class = 0;
  if (attributes.policy != ordinary_class) return;  // other classes have their own rules
  attributes.size = sizeof attributes;
  attributes.runtime = 100'000;  // ns
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace karez::comm

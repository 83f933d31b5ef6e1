// How much of the time of a data stage's acts is spent computing: whether the stage is bound by the CPU or by IO.
#pragma once

#include <time.h>

#include <cstdint>
#include <optional>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

// The CPU time of the calling thread in ns. A call takes about 200 ns.
inline double thread_cpu_ns() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// Acts of the last seconds have the most weight.
class CpuShare {
 public:
  // Whether the CPU time of the next act should be measured. That of short acts is measured once in 64 acts, because
  // reading it takes as long as such an act.
  bool is_due(bool short_act) { return !short_act || ++short_acts_ % 64 == 0; }
  void add(double cpu_ns, double ns) {
    cpu_ns_ += cpu_ns < ns ? cpu_ns : ns;  // two clocks
    ns_ += ns;
    if (ns_ > 4e9) ns_ /= 2, cpu_ns_ /= 2;
  }
  // From 0 to 1; nothing before the first act that was measured.
  std::optional<double> share() const { return ns_ > 0 ? std::optional(cpu_ns_ / ns_) : std::nullopt; }

 private:
  std::uint32_t short_acts_ = 0;
  double cpu_ns_ = 0, ns_ = 0;
};

}  // namespace karez::runtime

// Teams of threads for one kernel run. They are teams of GNU OpenMP, which oneDNN also uses, so Karez and oneDNN share
// one thread pool.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Splits 0..count-1 into at most `team` contiguous parts, as evenly as possible, and calls body(begin, end, part) for
// each part on a thread of the team. A part has at least `grain` items, unless it is the only part. Parts depend only
// on the arguments, so results do not change from run to run. A team of one calls the body directly, without OpenMP.
// The body must not throw.
template <class Body> void parallel_for(int team, std::int64_t count, std::int64_t grain, Body body) {
  const std::int64_t parts = std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, team);
  if (parts <= 1) {
    if (count > 0) body(std::int64_t{0}, count, 0);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(parts))
  {
    // OpenMP may start fewer threads than requested; the parts do not change.
    for (std::int64_t part = omp_get_thread_num(); part < parts; part += omp_get_num_threads())
      body(count * part / parts, count * (part + 1) / parts, static_cast<int>(part));
  }
}

}  // namespace karez::kernels

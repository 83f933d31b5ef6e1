// A copy by a team: what benchmarks measure the speed of memory with.
#include "kernels/cpu/team.h"

#include <cstring>

namespace karez {

void copy_bytes(int team, std::byte* to, const std::byte* from, std::int64_t bytes) {
  parallel_for(team, bytes, 1 << 17,
               [&](std::int64_t begin, std::int64_t end, int) { std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin)); });
}

}  // namespace karez

// For tests: a hub whose members are all in this process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/local_hub.h"

namespace karez::comm::test {

class TestHub : public LocalHub {
 public:
  explicit TestHub(int members, int depth = 8) : LocalHub(members, list_members(members), depth) {}
  // Returns the bytes that all members have sent; exact when no message is in transit.
  std::int64_t bytes_sent() {
    std::int64_t sum = 0;
    for (int member : local_members()) sum += endpoint(member).bytes_sent();
    return sum;
  }

 private:
  static std::vector<int> list_members(int members) {
    std::vector<int> out(static_cast<std::size_t>(std::max(members, 0)));
    std::iota(out.begin(), out.end(), 0);
    return out;
  }
};

}  // namespace karez::comm::test

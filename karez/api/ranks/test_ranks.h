// For tests: several ranks in one process, each a thread with its own worlds.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "karez/api/world.h"
#include "karez/base/text.h"
#include "karez/comm/sodium.h"

namespace karez {

// A rendezvous for `ranks` ranks of this process, or of processes that it starts, under a name that no other test uses.
inline Ranks test_rendezvous(int ranks) {
  const std::string secret = comm::print(comm::random_token());
  return {.ranks = ranks, .store = cat("@karez-test-", secret.substr(0, 24)), .token = secret};
}

// Runs body for each rank; the first exception, by rank, is rethrown after all ranks have ended.
inline void on_ranks(int ranks, const std::function<void(const Ranks&)>& body) {
  const Ranks all = test_rendezvous(ranks);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Ranks mine = all;
      mine.rank = rank;
      try {
        body(mine);
      } catch (...) { thrown[static_cast<std::size_t>(rank)] = std::current_exception(); }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : thrown)
    if (error) std::rethrow_exception(error);
}

}  // namespace karez

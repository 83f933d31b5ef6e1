// Test helpers that run several ranks in one process, each as a thread with its own worlds.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "karez/api/compile.h"
#include "karez/base/test_error.h"
#include "karez/base/text.h"
#include "karez/comm/rendezvous/sodium.h"

namespace karez {

// Makes a rendezvous with a unique name. The ranks are threads of this process, or processes that it starts.
inline Ranks test_rendezvous(int ranks) {
  const std::string secret = comm::print(comm::random_token());
  return {.ranks = ranks, .store = cat("@karez-test-", secret.substr(0, 24)), .token = secret};
}

// Runs `body` on each rank. After all ranks have ended, rethrows the exception of the lowest rank that threw one.
inline void on_ranks(int ranks, const std::function<void(const Ranks&)>& body) {
  const Ranks rendezvous = test_rendezvous(ranks);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Ranks job = rendezvous;
      job.rank = rank;
      try {
        body(job);
      } catch (...) { errors[static_cast<std::size_t>(rank)] = std::current_exception(); }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

// Runs `body` on each rank, and returns the error of each rank, or "no error".
inline std::vector<std::string> errors_by_rank(int ranks, const std::function<void(const Ranks&)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  on_ranks(ranks,
           [&](const Ranks& job) { errors[static_cast<std::size_t>(job.rank)] = base::error_of([&] { body(job); }); });
  return errors;
}
// Runs `body` on each rank with a world, which ends normally after an error.
inline std::vector<std::string> errors_by_rank(int ranks, const std::function<void(World&, int rank)>& body,
                                               double peer_timeout = 30) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](const Ranks& job) {
    World world({.ranks = job, .peer_timeout = peer_timeout});
    errors[static_cast<std::size_t>(job.rank)] = base::error_of([&] { body(world, job.rank); });
  });
  return errors;
}

// A source that fills each batch with the position of the batch. Reading the batch at `unreadable` fails.
struct PositionSource : Source {
  explicit PositionSource(std::int64_t unreadable, std::int64_t size = 4) : unreadable(unreadable), size(size) {}
  TensorType type() const override { return {DType::f64, {size}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const tensor::TensorRef& out) const override {
    base::require(base::ErrorKind::data, position != unreadable, "batch ", position, " is damaged");
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<double>()[i] = static_cast<double>(position);
  }
  const std::int64_t unreadable, size;
};

}  // namespace karez

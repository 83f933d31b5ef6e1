// A world's way to its other ranks: where they meet, the links to them, and what all agree on before anything is computed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/world.h"
#include "comm/peers.h"
#include "comm/reactor.h"
#include "comm/store_server.h"

namespace karez {

// A process' place among the ranks: its store and its links. All its worlds share it, and the n-th of them meets the n-th of the others.
struct RankedProcess {
  explicit RankedProcess(const Ranks& where);
  ~RankedProcess();  // rank 0 keeps the store until nobody asks it any more

  comm::Token token;
  comm::Reactor reactor;
  std::unique_ptr<comm::StoreServer> server;  // rank 0's
  comm::StoreClient store;
  comm::Peers peers;
  int worlds = 0;  // that it has made

 private:
  Ranks where_;
};

// What all ranks of a world do alike.
struct Agreed {
  int cores = 1;            // that each may reckon with: of the rank that has fewest
  std::int64_t memory = 0;  // of each device: the smallest limit, 0 where nobody has one
  std::string costs;        // rank 0's table
  std::string print() const;
  static Agreed parse(std::string_view text);
};

// One world's ranks. A world of one process has rank 0 of 1, and nobody to ask.
class WorldRanks {
 public:
  explicit WorldRanks(const std::optional<Ranks>& where);

  int rank() const { return process_ == nullptr ? 0 : process_->peers.rank(); }
  int ranks() const { return process_ == nullptr ? 1 : process_->peers.ranks(); }
  bool alone() const { return ranks() == 1; }
  std::uint64_t number() const { return static_cast<std::uint64_t>(number_); }
  comm::Peers* peers() const { return alone() ? nullptr : &process_->peers; }

  // Called by all ranks, with their options: throws on all of them where those differ that must be equal.
  Agreed agree(const WorldOptions& options, const CostTable& costs) const;
  void barrier() const;

 private:
  std::string key(std::string_view what) const;  // in the store

  std::shared_ptr<RankedProcess> process_;  // none where this rank is alone
  int number_ = 0;                          // of the process' worlds
};

}  // namespace karez

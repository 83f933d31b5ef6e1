// A world's way to its other ranks: where they meet, the links to them, and what all agree on before anything is
// computed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/api/ranks/link_costs.h"
#include "karez/api/world.h"

namespace karez::comm {
class Peers;
}

namespace karez {

// What all ranks of a world do alike.
struct CommonSettings {
  int cores = 1;            // that each may reckon with: of the rank that has fewest
  std::int64_t memory = 0;  // of each device: the smallest limit, 0 where nobody has one
  RankTopology topology;
  std::string costs;  // rank 0's table
  std::string print() const;
  static CommonSettings parse(std::string_view text);
};

// One world's ranks. A world of one process has rank 0 of 1, and nobody to ask.
class WorldRanks {
 public:
  // Meets the others, if there are any: told by the options, or else by who started this process, who also may say how
  // many devices it has.
  explicit WorldRanks(WorldOptions& options);
  ~WorldRanks();  // ends: well, unless an exception unwinds the stack
  WorldRanks(const WorldRanks&) = delete;
  WorldRanks& operator=(const WorldRanks&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool alone() const { return ranks_ == 1; }
  comm::Peers* peers() const;  // null where this rank is alone, or has ended
  // Closes all connections, once. `well`: when the others have come here too; otherwise at once, and they are told that
  // this rank has gone.
  void end(bool well);

  // Called by all ranks, with their options and the versions of what they compute with, a line each: throws on all of
  // them where what must be equal is not.
  CommonSettings agree(const WorldOptions& options, const CostTable& costs, const std::string& versions) const;
  // Of the texts that two ranks have, the first lines that differ: "rank 0: ...\nrank 2: ...". Called by all ranks.
  std::string first_difference(std::uint64_t op, std::pair<int, int> of, const std::string& mine) const;
  // What each rank says of its links to another one, by that rank's number, as lines: the first two ranks that say
  // different things, and what.
  std::string link_mismatch(std::uint64_t op, const std::map<int, std::string>& mine) const;
  // How something ended on rank 0, which tells it before an op that all ranks await, and the others ask behind it.
  void publish_outcome(const std::string& what, const std::optional<base::Error>& failure) const;
  std::optional<base::Error> read_outcome(const std::string& what) const;
  // After a failure, by all ranks: waits for all of them, calls `leave`, behind which there is no link to another rank,
  // and returns when all have done so; connections are new then. Throws where a rank has gone, or has not come in so
  // many seconds; may be called again then.
  void rejoin(double seconds, const std::function<void()>& leave);

 private:
  void reset_barrier(const std::string& word, double seconds) const;
  std::string key_of(std::string_view what, std::uint64_t op) const;  // of a text in the store
  struct Connections;
  // Says this word to all, and gives those who have not said it when so long is over. Throws where one has gone.
  void await_ranks(const WorldOptions& options) const;
  std::string decide_settings(std::string costs, std::string link) const;
  std::string await_key(const std::string& key, const std::function<void()>& meanwhile = {}) const;
  std::vector<int> missing(const std::string& word, double seconds) const;
  void await_readers(const std::string& word) const;
  std::unique_ptr<Connections> connections_;  // null where this rank is alone
  int rank_ = 0, ranks_ = 1;
  int generation_ = 0;     // how often all have met again
  bool has_left_ = false;  // this one has left the others, and they have not all
  double peer_timeout_ = 30;
  bool oversubscribed_ = false;  // more ranks than cores here, somebody said
};

}  // namespace karez

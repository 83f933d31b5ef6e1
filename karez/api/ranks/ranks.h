// A world's connection to its other ranks: the rendezvous, the links to them, and the settings on which all agree
// before any computation.
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

// Settings that all ranks of a world share.
struct CommonSettings {
  int cores = 1;            // cores per rank: those of the rank that has fewest
  std::int64_t memory = 0;  // per device: the smallest limit, 0 if no rank has one
  RankTopology topology;
  std::string costs;  // rank 0's table
  std::string print() const;
  static CommonSettings parse(std::string_view text);
};

// The ranks of one world. A world of one process has rank 0 of 1 and no connections.
class WorldRanks {
 public:
  // Joins the other ranks, if any: those of the options, otherwise those of the launcher that started this process,
  // which may also set the number of devices.
  explicit WorldRanks(WorldOptions& options);
  ~WorldRanks();  // calls end; `well` unless an exception unwinds the stack
  WorldRanks(const WorldRanks&) = delete;
  WorldRanks& operator=(const WorldRanks&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool alone() const { return ranks_ == 1; }
  comm::Peers* peers() const;  // null if this is the only rank, or after the end
  // Closes all connections, once. `well`: after all other ranks have called it; otherwise immediately, and they are
  // notified that this rank has left.
  void end(bool well);

  // Called by all ranks, with their options and the versions of their libraries, one per line: throws on all ranks if
  // values that must be equal differ.
  CommonSettings agree(const WorldOptions& options, const CostTable& costs, const std::string& versions) const;
  // The first lines in which the texts of two ranks differ: "rank 0: ...\nrank 2: ...". Called by all ranks.
  std::string first_difference(std::uint64_t op, std::pair<int, int> of, const std::string& mine) const;
  // Compares each rank's description of its links to other ranks, as lines by the other rank's number: the first two
  // ranks that disagree, and their lines.
  std::string link_mismatch(std::uint64_t op, const std::map<int, std::string>& mine) const;
  // The outcome of an operation on rank 0, which publishes it before an op that all ranks await; the others read it
  // after that op.
  void publish_outcome(const std::string& what, const std::optional<base::Error>& failure) const;
  std::optional<base::Error> read_outcome(const std::string& what) const;
  // Called by all ranks after a failure: waits for all of them, calls `leave`, which ends all use of links, and returns
  // when all ranks have done so, with new connections. Throws if a rank has left, or has not called it within this many
  // seconds; may then be called again.
  void rejoin(double seconds, const std::function<void()>& leave);

 private:
  void reset_barrier(const std::string& word, double seconds) const;
  std::string key_of(std::string_view what, std::uint64_t op) const;  // of a text in the store
  struct Connections;
  void await_ranks(const WorldOptions& options) const;
  std::string decide_settings(std::string costs, std::string link) const;
  std::string await_key(const std::string& key, const std::function<void()>& meanwhile = {}) const;
  // Sets this rank's key for `word`, and returns the ranks that have not set theirs after this time. Throws if one has
  // left.
  std::vector<int> missing(const std::string& word, double seconds) const;
  void await_readers(const std::string& word) const;
  std::unique_ptr<Connections> connections_;  // null if this is the only rank
  int rank_ = 0, ranks_ = 1;
  int generation_ = 0;     // number of completed rejoins
  bool has_left_ = false;  // this rank has left its links, but not all others have
  double peer_timeout_ = 30;
  bool oversubscribed_ = false;  // the launcher reported more ranks than cores on this host
};

}  // namespace karez

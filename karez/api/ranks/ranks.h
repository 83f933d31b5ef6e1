// WorldRanks: the connections of this rank to the other ranks of its world, and the settings on which all ranks agree
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

#include "karez/api/ranks/common_settings.h"
#include "karez/api/world_options.h"

namespace karez::comm {
class Peers;
}

namespace karez {

// The ranks of one world. A world of one process has rank 0 of 1 and no connections.
class WorldRanks {
 public:
  // Joins the other ranks, if any, as set by the options or by the launcher that started this process. The launcher may
  // also set the number of devices.
  explicit WorldRanks(WorldOptions& options);
  ~WorldRanks();  // calls end(true), or end(false) during stack unwinding
  WorldRanks(const WorldRanks&) = delete;
  WorldRanks& operator=(const WorldRanks&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool alone() const { return ranks_ == 1; }
  comm::Peers* peers() const;  // null if this is the only rank, or after end()
  // Closes all connections. If `graceful` is true, first waits until all other ranks have called end; otherwise closes
  // them immediately and notifies the other ranks that this rank has left. Later calls do nothing.
  void end(bool graceful);

  // Call on all ranks, with their options and the versions of their libraries, one per line. Throws on all ranks if
  // values that must be equal differ.
  CommonSettings agree(const WorldOptions& options, const CostTable& costs, const std::string& versions) const;
  // Call on all ranks. Returns the first line in which the texts of two ranks differ: "rank 0: ...\nrank 2: ...".
  std::string first_difference(std::uint64_t op, std::pair<int, int> differing_ranks, const std::string& text) const;
  // Call on all ranks. Returns the texts of all ranks, each of at most a megabyte.
  std::vector<std::string> all_texts(std::uint64_t op, const std::string& text) const;
  // Call on all ranks. `lines_by_rank` describes this rank's links to each other rank. Returns the first two ranks that
  // describe the links between them differently, and the lines that differ.
  std::string link_mismatch(std::uint64_t op, const std::map<int, std::string>& lines_by_rank) const;
  // Rank 0 publishes the outcome of an operation, then all ranks wait for each other in an op, and then the other ranks
  // read the outcome.
  void publish_outcome(const std::string& operation, const std::optional<base::Error>& failure) const;
  std::optional<base::Error> read_outcome(const std::string& operation) const;
  // Call on all ranks after a failure. Waits until all ranks have called rejoin, and then calls `leave`, which must end
  // all use of links. Returns with new connections when all ranks have done so. Throws if a rank has left the world, or
  // if a rank has not called rejoin after `seconds`; in the latter case, rejoin may be called again.
  void rejoin(double seconds, const std::function<void()>& leave);

 private:
  void reset_barrier(const std::string& name, double seconds) const;
  std::string key_of(std::string_view what, std::uint64_t op) const;  // the key of a text in the store
  struct Connections;
  void await_ranks(const WorldOptions& options) const;
  std::string decide_settings(std::string costs, std::string link) const;
  std::string await_key(const std::string& key, const std::function<void()>& meanwhile = {}) const;
  // Sets this rank's key for the barrier. Returns the ranks that have not set their keys after `seconds`. Throws if a
  // rank has left.
  std::vector<int> missing_ranks(const std::string& barrier, double seconds) const;
  void await_readers(const std::string& text) const;
  std::unique_ptr<Connections> connections_;  // null if this is the only rank
  int rank_ = 0, ranks_ = 1;
  int generation_ = 0;     // number of completed rejoins
  bool has_left_ = false;  // this rank has ended its use of links, but not all other ranks have
  double peer_timeout_ = 30;
  bool oversubscribed_ = false;  // the launcher reported more ranks than cores on this host
};

}  // namespace karez

// Finds the rank of this process from the settings of the launcher and the options of the world.
#include "karez/api/ranks/job_launch.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "karez/api/namespace.h"

namespace karez {
namespace {

// Converts the options to the form of a launcher's settings.
comm::JobLaunch make_launch(const Ranks& ranks) {
  require(ranks.ranks >= 1 && ranks.rank >= 0 && ranks.rank < ranks.ranks,
          "Ranks: rank must be at least 0 and below ranks; got rank ", ranks.rank, " and ranks ", ranks.ranks);
  require(ranks.ranks == 1 || !ranks.store.empty(), "rank ", ranks.rank, " of ", ranks.ranks,
          " has no rendezvous address; set Ranks::store, for example to 127.0.0.1:4711");
  comm::JobLaunch out;
  out.rank = ranks.rank;
  out.ranks = ranks.ranks;
  if (ranks.ranks == 1) return out;
  out.store = comm::parse_address(ranks.store);
  out.one_host = out.store.is_name();
  out.token = comm::parse_token(ranks.token);
  out.rank_variables = cat("WorldOptions::ranks of rank ", ranks.rank);
  return out;
}

}  // namespace

comm::JobLaunch find_launch(const WorldOptions& options) {
  comm::JobLaunch launch = comm::launch_from(comm::process_environment());
  if (!options.ranks) return launch;
  const Ranks& requested = *options.ranks;
  require(launch.launcher == comm::Launcher::none || (launch.rank == requested.rank && launch.ranks == requested.ranks),
          "World: the options say rank ", requested.rank, " of ", requested.ranks, ", but ",
          comm::name_of(launch.launcher), " started this process as rank ", launch.rank, " of ", launch.ranks, " (",
          launch.rank_variables, ")");
  return make_launch(requested);
}

int next_world(const comm::JobLaunch& launch) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, int> world_counts;  // by store and rank
  std::lock_guard lock(mutex);
  return world_counts[{comm::print(launch.store), launch.rank}]++;
}

}  // namespace karez

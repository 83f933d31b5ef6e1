// Who started this process, as which rank of how many, and where rank 0's store is: read from the environment and from
// nothing else.
//
//   launcher    rank                   ranks                  on this host                                        the
//   job's name karez run   KAREZ_RANK             KAREZ_RANKS            KAREZ_LOCAL_RANK, KAREZ_LOCAL_RANKS
//   KAREZ_STORE torchrun    RANK                   WORLD_SIZE             LOCAL_RANK, LOCAL_WORLD_SIZE MASTER_ADDR,
//   MASTER_PORT Open MPI    OMPI_COMM_WORLD_RANK   OMPI_COMM_WORLD_SIZE   OMPI_COMM_WORLD_LOCAL_RANK, ..._LOCAL_SIZE
//   PMIX_NAMESPACE Slurm       SLURM_PROCID           SLURM_STEP_NUM_TASKS   SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE
//   SLURM_JOB_ID, SLURM_STEP_ID
//
// The innermost wins, in this order; the others are ignored. An empty variable counts as one that is not set.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/comm/namespace.h"
#include "karez/comm/socket.h"
#include "karez/comm/sodium.h"

namespace karez::comm {

enum class Launcher { none, karez_run, torchrun, open_mpi, slurm };
std::string_view name_of(Launcher launcher);

// The value of a variable, or nothing.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();  // getenv

struct JobLaunch {
  Launcher launcher = Launcher::none;
  int rank = 0, ranks = 1;
  int local_rank = 0, local_ranks = 1;  // among those of this host; -1 and 0 where nobody says so
  bool one_host = true;

  // Of the first world of the process. On one host "@name", which only this network namespace sees; on several the name
  // or numeric address of rank 0's host, and a port. With one rank it is empty: there is nobody to meet.
  Address store{"", 0};
  bool uses_pmix = false;      // rank 0 tells its address through PMIx instead; `store` is empty
  std::optional<Token> token;  // none: one host, where the kernel vouches for who comes (meeting.h)
  std::string token_source;    // "karez run", "KAREZ_TOKEN", "Open MPI's transport key", ""

  std::optional<int> devices;  // of this rank: KAREZ_DEVICES
  std::optional<bool>
      crowded;  // KAREZ_CROWDED: there are more ranks than cores on this host, so teams are of 1 and nobody spins
  std::optional<std::string> interface;  // KAREZ_INTERFACE: whose address others reach this process at
  std::vector<std::string> ignored;      // a variable of each launcher that is not the innermost: "SLURM_PROCID"
  std::string
      rank_variables;  // by the winner, for errors that show both: "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4"
};

// Throws Error (kind user) on variables that are half set, contradict each other or hold what they should not; it shows
// both. More than one host without a token is one of them.
JobLaunch launch_from(const Environment& environment);

// Of the n-th world that this process makes, from 0: it meets the n-th of the others. Worlds that meet at ports take
// these in turn.
inline constexpr int ports_per_job = 8;
Address store_address(const JobLaunch& launch, int world);
// The first of ports_per_job ports in a row that are free on this host; it is at least `first` and less than `last`,
// which lie below the ports that the kernel hands out. Throws Error (kind device).
int free_ports(int first = 15000, int last = 30000);

// "karez: 4 ranks x 1 device, from Open MPI, links shm+tcp; ignored: SLURM_PROCID"
std::string startup_line(const JobLaunch& launch, int devices, std::string_view links);

}  // namespace karez::comm

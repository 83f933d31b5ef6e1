// Launcher: the job that started this process, with its rank, the number of ranks and the store of rank 0, read from
// the environment only.
//
//             karez run          torchrun          Open MPI                     Slurm
//   rank      KAREZ_RANK         RANK              OMPI_COMM_WORLD_RANK         SLURM_PROCID
//   ranks     KAREZ_RANKS        WORLD_SIZE        OMPI_COMM_WORLD_SIZE         SLURM_STEP_NUM_TASKS
//   on this   KAREZ_LOCAL_RANK,  LOCAL_RANK,       OMPI_COMM_WORLD_LOCAL_RANK,  SLURM_LOCALID,
//   host      KAREZ_LOCAL_RANKS  LOCAL_WORLD_SIZE  OMPI_COMM_WORLD_LOCAL_SIZE   SLURM_STEP_TASKS_PER_NODE
//   the job   KAREZ_STORE        MASTER_ADDR,      PMIX_NAMESPACE               SLURM_JOB_ID,
//                                MASTER_PORT                                    SLURM_STEP_ID
//
// If the variables of several launchers are set, the first launcher in this order, which is the innermost, applies. An
// empty variable counts as unset.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/comm/namespace.h"
#include "karez/comm/rendezvous/sodium.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {

enum class Launcher { none, karez_run, torchrun, open_mpi, slurm };
std::string_view name_of(Launcher launcher);

// Returns the value of a variable, if it is set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();  // getenv

struct JobLaunch {
  Launcher launcher = Launcher::none;
  int rank = 0, ranks = 1;
  int local_rank = 0, local_ranks = 1;  // rank within this host and number of its ranks; -1 and 0 if unknown
  bool one_host = true;

  // The store of the first world of the process. On one host it is "@name", visible in this network namespace only; on
  // several hosts, the name or numeric address of rank 0's host, and a port. Empty for one rank, which needs no store.
  Address store{"", 0};
  bool uses_pmix = false;      // `store` is empty, because rank 0 publishes its address through PMIx
  std::optional<Token> token;  // may be missing on one host, where the kernel identifies the peer's user (rendezvous.h)
  std::string token_source;    // "karez run", "KAREZ_TOKEN", "Open MPI's transport key", ""

  std::optional<int> devices;  // KAREZ_DEVICES: the number of devices of this rank
  // KAREZ_CROWDED: this host has more ranks than cores, so teams have one thread and no thread spins.
  std::optional<bool> crowded;
  std::optional<std::string> interface;  // KAREZ_INTERFACE: other hosts reach this process through this interface
  std::vector<std::string> ignored;      // one variable of each launcher that is ignored: "SLURM_PROCID"
  std::string rank_variables;            // for errors: "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4"
};

// Throws Error (kind user) with the values if variables are missing, contradict each other or have invalid values, or
// if there are several hosts and no token.
JobLaunch launch_from(const Environment& environment);

// Returns the store of the n-th world that this process creates, counted from 0; the n-th worlds of the other ranks
// share it. If the store has a port, consecutive worlds cycle through this number of ports.
inline constexpr int ports_per_job = 8;
Address store_address(const JobLaunch& launch, int world);
// Returns the first of ports_per_job consecutive free ports of this host; it is at least `first` and less than `last`.
// The defaults are below the ports that the kernel assigns. Throws Error (kind device) if there are none.
int free_ports(int first = 15000, int last = 30000);

// "karez: 4 ranks x 1 device, from Open MPI, links shm+tcp; ignored: SLURM_PROCID"
std::string startup_line(const JobLaunch& launch, int devices, std::string_view links);

}  // namespace karez::comm

// Options of a world: its devices, threads, limits and ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "karez/api/names.h"

namespace karez::runtime {
struct SessionOptions;
}

namespace karez {

// The rank of this process, if several processes run the same program. All ranks have the same number of devices.
// Only programs that are not started as docs/distributed.md describes need to set this.
struct Ranks {
  int rank = 0, ranks = 1;
  std::string store = {};  // address of rank 0 for the rendezvous: "127.0.0.1:4711", or "@name" within one host
  std::string token = {};  // shared secret of the ranks: 64 hexadecimal digits
  // The kind of link: "shm", "tcp" or "ucx". If empty, KAREZ_LINK is used; by default, ranks of one host share memory.
  std::string link = {};
  // Identifies the host. If empty, KAREZ_HOST is used; by default, the kernel and its network namespace.
  std::string host = {};
};

// The way in which ranks compare the arguments of their calls.
enum class InputCheck {
  off,
  // The first three calls of each program compare hashes of all bytes and wait for the result; later calls send hashes
  // of a sample without waiting.
  sampled,
  full,  // every call compares hashes of all bytes and waits for the result
};

// Options of a world, fixed when it is created.
struct WorldOptions {
  // The number of logical CPU devices of this process; with several ranks, of each rank. If this is 1, KAREZ_DEVICES is
  // used.
  int devices = 1;
  // The maximum number of devices, because plans for more devices take minutes to make.
  int device_limit = 4096;
  // The number of threads that serve the devices; 0 means one per device, at most the number of cores.
  int workers = 0;
  // The number of threads of one kernel, at most 1024; 0 means the cores available to each worker. The last bits of
  // results depend on this number.
  int team = 0;
  // The maximum number of calls that run at the same time, up to 1024; a further call waits until one has ended,
  // whether or not its result is read.
  int in_flight = 4;
  std::uint64_t seed = 1;  // of initial weights and dropout
  // The planner's cost table. If it is not set, the planner reads `cost_file`, a file written by `karez doctor`, or
  // "default" for a typical CPU; if that is empty, the file in KAREZ_COSTS; otherwise it uses the table that Karez has
  // for this processor, if any. summary() reports which table was used.
  std::optional<CostTable> costs = {};
  std::string cost_file = {};
  // The maximum number of bytes of each device that one plan may use; 0 means no limit. A plan that needs more is made
  // with fewer slots, those with the shortest predicted time (sources, transfers and pipeline stages run ahead less);
  // a plan that does not fit even with one slot each is an error.
  std::int64_t memory = 0;
  // Check every result: the first call that makes a NaN or an infinity from finite operands makes its launch fail.
  // This is slow.
  bool check_nan = false;
  // With several ranks: compare the arguments of calls, which must be equal on all ranks. If this is not set,
  // KAREZ_CHECK_INPUTS (off, sampled, full) is used.
  InputCheck check_inputs = InputCheck::sampled;
  // A function that a waiting or planning thread calls about twenty times a second; an exception from it ends only that
  // wait or that planning.
  std::function<void()> while_waiting = {};
  // Fill unused memory with a pattern that no correct plan reads; by default only in test builds.
  std::optional<bool> poison = {};
  // By default, the rank that the launcher assigned to this process (docs/distributed.md); without a launcher one rank.
  std::optional<Ranks> ranks = {};
  double start_timeout = 600;  // seconds that the ranks wait for each other to join this world
  // Seconds without a message after which a rank, or every rank of a host, counts as exited or hanging.
  double peer_timeout = 30;
  // Seconds that one call of a kernel or source may take while other ranks wait; a longer call counts as a hang.
  double call_timeout = 300;
  // User-defined ops and kernels in addition to the built-in ones; a name that already exists is an error. An op
  // requires its own kernel; `apply` calls the op by its name.
  std::vector<OpDef> ops = {};
  std::vector<KernelRow> kernels = {};
  // Changes further options of the session, for tests of the engine, which include karez/runtime/session.h.
  std::function<void(runtime::SessionOptions&)> session = {};
};

}  // namespace karez

// WorldOptions: the devices, threads, limits and ranks of a world.
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

// The rank of this process, if several processes run the same program. All ranks have the same number of devices. A
// program needs to set this only if it is not started in one of the ways that docs/distributed.md describes.
struct Ranks {
  int rank = 0, ranks = 1;
  std::string store = {};  // address of rank 0 for the rendezvous: "127.0.0.1:4711", or "@name" within one host
  std::string token = {};  // shared secret of the ranks: 64 hexadecimal digits
  // The kind of link: "shm", "tcp" or "ucx". If empty, KAREZ_LINK is used; by default, ranks on one host share memory.
  std::string link = {};
  // Identifies the host. If empty, KAREZ_HOST is used; by default, the boot id and the network namespace.
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
  // The number of logical CPU devices of this process; with several ranks, the number for each rank. If this is 1 and
  // the environment variable KAREZ_DEVICES is set, that number is used.
  int devices = 1;
  // The maximum number of devices. There is a limit because making plans for many devices takes minutes.
  int device_limit = 4096;
  // The number of threads that serve the devices; 0 means one per device, at most the number of cores.
  int workers = 0;
  // The number of threads that execute one kernel call, at most 1024; 0 means the number of cores per worker. The last
  // bits of results depend on this number.
  int team = 0;
  // The number of cores that kernels leave to the stages of data sets (World::iterate); kernels use at least one core.
  // The threads of stages run only on these cores, or on any core if the number is 0. The last bits of results depend
  // on this number. With data::automatic, it is chosen while the program reads elements for its calls: for some
  // seconds, calls use plans for other numbers, and then those with which most elements are read. This needs a world of
  // one rank and the automatic `team`.
  int data_cores = 0;
  // The maximum number of calls that run at the same time, up to 1024. A further call waits until a running call ends,
  // whether or not the results of that call are read.
  int in_flight = 4;
  std::uint64_t seed = 1;  // of initial weights and dropout
  // The planner's cost table. If it is not set, the planner reads `cost_file`: a file written by `karez doctor`, or
  // "default" for the table of a typical CPU. If `cost_file` is empty, KAREZ_COSTS is used in the same way. If that is
  // not set either, the planner uses the table that `karez doctor --kernels --save` has saved for this processor,
  // otherwise the one that Karez has for it, otherwise the default table. All ranks use the table of rank 0. summary()
  // reports which table was used.
  std::optional<CostTable> costs = {};
  std::string cost_file = {};
  // The maximum number of bytes on each device that one plan may use, together with the elements of the data sets that
  // are read when the plan is made; 0 means no limit. Of a data set, DatasetOptions::bytes are counted if they are
  // limited, otherwise the elements ahead of the reader as large as the first one, and in both cases one element for
  // each running call (`in_flight`). These bytes are divided equally among the devices of a rank. A plan that needs
  // more is made again with fewer slots, so that sources, transfers and pipeline stages run ahead less. Among the
  // numbers of slots that fit, those with the shortest predicted time are chosen. If the plan does not fit even with
  // one slot for each register, the error says so.
  std::int64_t memory = 0;
  // Check the results of every kernel call. The first call that makes a NaN or an infinity from finite operands makes
  // its launch fail. This is slow.
  bool check_nan = false;
  // With several ranks: how to check that the arguments of calls are equal on all ranks. If this has its default value
  // and the environment variable KAREZ_CHECK_INPUTS (off, sampled, full) is set, that value is used.
  InputCheck check_inputs = InputCheck::sampled;
  // A function that a waiting or planning thread calls about twenty times a second; if the function throws, only that
  // wait or that planning ends, with this exception.
  std::function<void()> while_waiting = {};
  // Calls its argument, which ends the threads of data sets when nothing refers to the world any more. It may release a
  // lock that their functions need.
  std::function<void(const std::function<void()>&)> while_ending = {};
  // Fill unused memory with a pattern that no correct plan reads; by default only in test builds.
  std::optional<bool> poison = {};
  // By default, the rank that the launcher assigned to this process (docs/distributed.md), or a world of one rank if
  // there is no launcher.
  std::optional<Ranks> ranks = {};
  double start_timeout = 600;  // seconds that the ranks wait for each other to join this world
  // Seconds without a message after which a rank, or every rank of a host, counts as exited or hanging.
  double peer_timeout = 30;
  // Seconds that one call of a kernel, a source or a stage of a data set for which the program waits may take while
  // other ranks wait; a longer call counts as a hang.
  double call_timeout = 300;
  // User-defined ops and kernels in addition to the built-in ones; a name that already exists is an error. A
  // user-defined op needs a user-defined kernel; `apply` calls the op by its name.
  std::vector<OpDef> ops = {};
  std::vector<KernelRow> kernels = {};
  // Changes further options of the session, for tests of the engine, which include karez/runtime/session.h.
  std::function<void(runtime::SessionOptions&)> session = {};
};

}  // namespace karez

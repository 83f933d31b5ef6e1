// The world: devices, the session that runs on them, the state (parameters, counters) that outlives calls, and meshes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/api/checkpoint.h"
#include "karez/api/tensor.h"

namespace karez::runtime {
struct SessionOptions;
}

namespace karez {

// Which rank this process is, if several processes run the same program. All ranks have the same number of devices.
// Only for programs that are not started as docs/distributed.md describes.
struct Ranks {
  int rank = 0, ranks = 1;
  std::string store = {};  // rendezvous: an address of rank 0, "127.0.0.1:4711", or "@name" within one host
  std::string token = {};  // shared secret of the ranks: 64 hexadecimal digits
  // "shm", "tcp" or "ucx" forces a kind of link; "": KAREZ_LINK, and without it shared memory within a host.
  std::string link = {};
  std::string host = {};  // identifies the host; "": KAREZ_HOST, and without it the kernel and its network namespace
};

// How the arguments of calls are compared between ranks.
enum class InputCheck {
  off,
  // The first three calls of each program compare hashes of all bytes, and wait; later calls send hashes of a sample
  // without waiting.
  sampled,
  full,  // every call compares hashes of all bytes, and waits
};

// Options of a world, fixed when it is created.
struct WorldOptions {
  // Logical CPU devices of this process; with several ranks, of each rank (KAREZ_DEVICES, if this is 1).
  int devices = 1;
  // More devices than this are an error: plans for so many take minutes to make.
  int device_limit = 4096;
  // Threads that serve the devices; 0: one per device, at most the number of cores.
  int workers = 0;
  // Threads of one kernel, at most 1024; 0: the cores available to each worker. The last bits of results depend on it.
  int team = 0;
  // Calls that run at the same time, at most 1024; a further call waits until one has ended, whether or not its result
  // is read.
  int in_flight = 4;
  std::uint64_t seed = 1;  // of initial weights and dropout
  // The planner's cost table. Without it: the table in `cost_file` (as `karez doctor` writes it; "default": a typical
  // CPU's); if that is empty, the file in KAREZ_COSTS; otherwise the table that Karez has for this processor, if any.
  // summary() reports which one was used.
  std::optional<CostTable> costs = {};
  std::string cost_file = {};
  // Bytes of each device that one plan may use; 0: no limit. A plan that needs more is planned with fewer slots, the
  // fastest that fit by prediction (run-ahead of slow sources, transfers and other pipeline stages is reduced), and is
  // an error if it does not fit with one slot each.
  std::int64_t memory = 0;
  // Check every result: the first call that makes a NaN or an infinity from finite operands fails its launch. Slow.
  bool check_nan = false;
  // With several ranks: compare the arguments of calls, which are the whole array on every rank. For programs that do
  // not set it, KAREZ_CHECK_INPUTS does (off, sampled, full).
  InputCheck check_inputs = InputCheck::sampled;
  // Called about twenty times a second by a thread that waits or plans; an exception from it ends only that wait or
  // plan.
  std::function<void()> while_waiting = {};
  // Fill unused memory with a pattern that no correct plan reads; by default only in test builds.
  std::optional<bool> poison = {};
  // None: as the launcher of this process set (docs/distributed.md); without a launcher one rank.
  std::optional<Ranks> ranks = {};
  double start_timeout = 600;  // seconds that the ranks wait for each other to join this world
  // Seconds after which a silent rank, or a rank on a silent host, counts as exited or hanging.
  double peer_timeout = 30;
  // Seconds that one call of a kernel or source may take while other ranks wait; a longer call counts as a hang.
  double call_timeout = 300;
  // User-defined rows in addition to the built-in ones; a name that already exists is an error. An op requires its own
  // kernel; `apply` calls it by name.
  std::vector<OpDef> ops = {};
  std::vector<KernelRow> kernels = {};
  // For tests of the engine, which include karez/runtime/session.h: changes further options of the session.
  std::function<void(runtime::SessionOptions&)> session = {};
};

struct WorldState;

// Devices of one world along named axes; an argument of `compile`. It keeps the world's state alive.
struct DeviceMesh {
  std::shared_ptr<WorldState> world;
  Mesh mesh;
};

// The devices of a mesh: from device `first` on, or the devices listed, row-major along its axes. Devices are numbered
// rank by rank.
struct MeshPlace {
  int first = 0;
  std::vector<int> devices = {};
};

// Devices, their memory and threads, and the variables stored on them.
class World {
 public:
  // With several ranks: waits for all of them, and throws on all of them if options that must be equal differ. The n-th
  // world of a process joins the n-th worlds of the others.
  explicit World(WorldOptions options = {});

  int rank() const;  // of this process, from 0
  int ranks() const;
  void barrier() const;  // waits until all ranks have called it; running calls continue
  // Increases the number of devices to at least this many. An error with several ranks, and beyond
  // WorldOptions::device_limit.
  void grow_to(int devices);

  // The first devices of the world, row-major along the axes: world.mesh({{"data", 2}, {"model", 2}}) or
  // world.mesh("data=2,model=2"); others with world.mesh("data=2", {.first = 2}) or {.devices = {3, 1}}. Meshes may
  // overlap. More devices than the world has, a device that does not exist and one that is listed twice are errors.
  DeviceMesh mesh(std::vector<MeshAxis> axes = {}, const MeshPlace& place = {}) const;
  DeviceMesh mesh(std::string_view text, const MeshPlace& place = {}) const;

  // The whole logical tensor of a parameter or other variable ("adam.step"), in any layout. A variable exists from the
  // first call of a function that uses it; before that, and for unknown names, the error lists the existing ones; a
  // name of two parameters is an error that lists both. With several ranks: a variable that every rank holds whole is
  // read locally; any other is gathered by a launch, so that all ranks must read it. All ranks must write a variable,
  // with equal values.
  HostArray read(std::string_view name, SourceLine where = SourceLine::current()) const;
  HostArray read(const Parameter& parameter, SourceLine where = SourceLine::current()) const;
  void write(std::string_view name, const HostArray& value);
  void write(const Parameter& parameter, const HostArray& value);
  // A write to a parameter that no function has used yet sets its first value. has: whether a function has used it, so
  // that it can be read. first_values: the first values of parameters that no function has used.
  bool has(const Parameter& parameter) const;
  std::vector<HostArray> first_values(const std::vector<Parameter>& parameters) const;
  std::vector<std::string> variables() const;  // a name of two parameters occurs twice
  Layout layout(std::string_view name) const;  // as stored, one entry per axis of its mesh
  Layout layout(const Parameter& parameter) const;

  // Writes a checkpoint: every variable after the calls made before, including the random counter, and the notes. A
  // file in the safetensors format: written under a temporary name, synced, renamed, so that the path is always the
  // complete old or new checkpoint. Loaded values without a variable yet (see `waiting`) are included. An error after a
  // failed launch. With several ranks all of them save, rank 0 writes, and all wait until the file exists; other
  // threads must not call functions during that. All ranks load, from a path that all of them can read.
  void save(const std::string& path, const CheckpointNotes& notes = {}, SourceLine where = SourceLine::current()) const;

  // Loads variables' values from a file that `save` or another program wrote (*.safetensors, or the *.index.json of
  // several), on any mesh, bit for bit; waits for the calls made before. All names and types are checked first: a
  // refused load changes nothing. A variable that no function has used yet gets its value when it is created; the file
  // stays open until then. When everything is loaded, the file must be complete: a variable that it lacks is an error,
  // now or when the variable is created; its other tensors wait for variables of their names (waiting()). After a
  // failed launch, loading everything makes the world usable again: variables are created again, and functions compile
  // again at their next call. All ranks load files of equal contents; if one does not load, nothing changes, and the
  // ranks that do get an error.
  CheckpointNotes load(const std::string& path, const LoadOptions& options = {},
                       SourceLine where = SourceLine::current());
  // Names of loaded values that no variable has taken yet; a name that two values have occurs twice.
  std::vector<std::string> waiting() const;

  Counters counters() const;  // of bytes and messages, by place of transfer
  // Bytes of existing arrays on all devices together; not part of WorldOptions::memory. Never waits.
  std::int64_t held_bytes() const;
  // From now on, initial weights and dropout (from its first step again) use another seed. With several ranks all of
  // them must call it.
  void seed(std::uint64_t seed);
  // Deletes variables and plans, and recovers from a failed launch; functions compile again at their next call. With
  // several ranks all of them must call it: a rank that calls another op instead gets an error as for a failed rank,
  // and a rank that has not called it `peer_timeout` seconds after a failure is named by an error here. A rank that has
  // exited or hangs is an error too: the job must be restarted.
  void reset();

  // Ends the world before its last owner (also a mesh, a function or a future) is destroyed: later calls are errors,
  // but results of earlier calls can still be read. With `wait` it waits for earlier calls, and with several ranks for
  // the other ranks to end theirs; an exception from `while_waiting` stops the wait, and `end` may be called again.
  // Without it, running calls fail, and the other ranks get an error that this rank failed. Destroying the last owner
  // ends the world with `wait`, or without it during stack unwinding. `std::exit` ends all existing worlds with `wait`.
  void end(bool wait = true);

 private:
  std::shared_ptr<WorldState> state_;
};

}  // namespace karez

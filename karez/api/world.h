// The world: devices, the session that runs on them, and the state (parameters, counters) that outlives calls. And
// meshes on it.
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

// Which of several processes this one is, all of which run the same program: each is a rank, and all have as many
// devices. For programs that are started otherwise than docs/distributed.md says.
struct Ranks {
  int rank = 0, ranks = 1;
  std::string store = {};  // where they meet: an address of rank 0, "127.0.0.1:4711", or "@name" within one host
  std::string token = {};  // what all know and nobody else does: 64 hexadecimal digits
  std::string link =
      {};  // "shm", "tcp" or "ucx" instead of what fits; "": KAREZ_LINK, and without it shared memory within a host
  std::string host = {};  // what is one host; "": KAREZ_HOST, and without it the kernel and its network namespace
};

// How the arguments of calls are compared between ranks.
enum class InputCheck {
  off,
  sampled,  // the first three calls of each program compare hashes of all bytes, and wait; later ones send hashes of
            // some, and wait for nothing
  full,     // every call compares hashes of all bytes, and waits
};

// What a world has, fixed when it is made.
struct WorldOptions {
  int devices =
      1;  // logical CPU devices of this process; with several ranks of each (KAREZ_DEVICES, where 1 stands here)
  int device_limit = 4096;  // more devices than this are an error: a plan for that many takes minutes to make
  int workers = 0;          // threads that serve them; 0: one a device, never more than cores
  int team = 0;  // threads of one kernel, at most 1024; 0: the cores a worker has for itself. Results depend on it in
                 // their last bits
  int in_flight = 4;       // calls under way at once, at most 1024; a further one waits until one is over, whether its
                           // result was read or not
  std::uint64_t seed = 1;  // of initial weights and of dropout
  // What the planner reckons with; otherwise the table in `cost_file` (as `karez doctor` writes it; "default": one of a
  // usual CPU) or, where that is empty, in KAREZ_COSTS; otherwise the one that comes with Karez for this processor, if
  // there is one. summary() says which it was.
  std::optional<CostTable> costs = {};
  std::string cost_file = {};
  // Bytes of each device that one plan may take; 0: no limit. A plan that would take more is made with fewer slots, the
  // fastest that fit as far as predicted (what runs ahead of a slow source, of a transfer or of another pipeline stage
  // gives way), and is an error where not even one each fits.
  std::int64_t memory = 0;
  bool check_nan = false;  // look at every result: the first call that makes a NaN or an infinity of finite operands
                           // fails its launch. Slow
  // With several ranks: compare the arrays that calls are given, which are the whole on every rank. KAREZ_CHECK_INPUTS
  // says it for programs that do not (off, sampled, full).
  InputCheck check_inputs = InputCheck::sampled;
  std::function<void()> while_waiting =
      {};  // called some twenty times a second by a thread that waits or plans here; what it throws ends that alone
  std::optional<bool> poison =
      {};  // fill fresh memory with a pattern that no correct plan reads; only builds for tests do it unasked
  std::optional<Ranks> ranks = {};  // none: as who started this process says (docs/distributed.md); nobody: it is alone
  double start_timeout = 600;       // seconds that rank 0 waits for all others to come to this world
  double peer_timeout = 30;  // a rank that is silent for so many seconds, or whose host is, has gone or hangs; the
                             // others wait so long for rank 0
  double call_timeout =
      300;  // seconds that one call of a kernel or source may take while other ranks wait; longer is a hang
  // A user's own rows beside ours; a name that is taken is an error. An op needs a kernel of its own, which `apply`
  // then calls it by.
  std::vector<OpDef> ops = {};
  std::vector<KernelRow> kernels = {};
  std::function<void(runtime::SessionOptions&)> session =
      {};  // for tests of the engine, which include karez/runtime/session.h: what else it is told
};

struct WorldState;

// Devices of one world along named axes; what `compile` is given. It keeps the world's state alive.
struct DeviceMesh {
  std::shared_ptr<WorldState> world;
  Mesh mesh;
};

// Where on the world a mesh lies: from device `first` on, or on the devices listed, row-major along its axes. Devices
// are numbered rank by rank.
struct MeshPlace {
  int first = 0;
  std::vector<int> devices = {};
};

// Devices, their memory and threads, and the variables that live on them.
class World {
 public:
  // With several ranks: waits for all of them, and throws on all where their options differ that must be equal. The
  // n-th world of a process meets the n-th of the others.
  explicit World(WorldOptions options = {});

  int rank() const;  // of this process, from 0
  int ranks() const;
  void barrier() const;  // waits until all ranks are here; calls under way go on
  // Has at least so many devices from here on. An error of several ranks, and beyond WorldOptions::device_limit.
  void grow_to(int devices);

  // The first devices of the world, row-major along the axes: world.mesh({{"data", 2}, {"model", 2}}) or
  // world.mesh("data=2,model=2"); others with world.mesh("data=2", {.first = 2}) or {.devices = {3, 1}}. Meshes may
  // overlap. More devices than the world has, a device that it does not have and one that is listed twice are errors.
  DeviceMesh mesh(std::vector<MeshAxis> axes = {}, const MeshPlace& place = {}) const;
  DeviceMesh mesh(std::string_view text, const MeshPlace& place = {}) const;

  // The whole logical tensor of a parameter or other variable ("adam.step"), whatever its layout. It exists from the
  // first call of a function that uses it; before, and for unknown names, an error lists what there is; a name that two
  // parameters hold is an error that lists both. With several ranks: what every rank holds whole is read here; anything
  // else is brought by a launch, so that all ranks must read it. A value is written on every rank, the same one.
  HostArray read(std::string_view name, SourceLine where = SourceLine::current()) const;
  HostArray read(const Parameter& parameter, SourceLine where = SourceLine::current()) const;
  void write(std::string_view name, const HostArray& value);
  void write(const Parameter& parameter, const HostArray& value);
  // Of a parameter that no function has used yet, the value becomes the one it begins with.
  // Whether a function has used it, so that it can be read; and the values with which such begin that none has used.
  bool has(const Parameter& parameter) const;
  std::vector<HostArray> first_values(const std::vector<Parameter>& parameters) const;
  std::vector<std::string> variables() const;  // a name that two parameters hold stands twice
  Layout layout(std::string_view name) const;  // as stored, one entry per axis of its mesh
  Layout layout(const Parameter& parameter) const;

  // A checkpoint: every variable as the calls made before leave it, the random counter among them, and what the program
  // wants back beside. A file in the safetensors format: written aside, synced, renamed, so that the path names the old
  // checkpoint or the new one whatever happens. Values that wait since a load (see below) are in it too. After a failed
  // launch it is an error. With several ranks all of them save, rank 0 writes, and nobody goes on before the file is
  // there; they may not call functions from other threads meanwhile. All of them load, from a path that all see.
  void save(const std::string& path, const CheckpointNotes& notes = {}, SourceLine where = SourceLine::current()) const;

  // Takes variables' values from a file that `save` or others wrote (*.safetensors, or the *.index.json of several), on
  // any mesh, bit for bit; waits for the calls made before. All names and types are looked at first: what is refused
  // changes nothing. A variable that no function has used yet takes its value when it is born; until then the file
  // stays open. Of a whole checkpoint everything must be there: a variable that is missing in it is an error, now or
  // when it is born; what it has besides waits for whoever bears the name (waiting()). After a failed launch the world
  // goes on from a whole checkpoint: variables are born again, and functions compile anew at their next call. All ranks
  // load files of one content; where one does not, nothing changes, and the error comes on those that do.
  CheckpointNotes load(const std::string& path, const LoadOptions& options = {},
                       SourceLine where = SourceLine::current());
  std::vector<std::string> waiting()
      const;  // names of loaded values that no variable has taken yet; one that two wait for stands twice

  Counters counters() const;  // of bytes and messages, where they happened
  std::int64_t held_bytes()
      const;  // of arrays that somebody holds, on all devices together; not part of WorldOptions::memory. Never waits
  // Initial weights from here on, and dropout from its first step again, follow another seed. With several ranks all of
  // them say it.
  void seed(std::uint64_t seed);
  // Forgets variables and plans, and with them a failed launch; functions compile anew at their next call. With several
  // ranks all of them say it: one that comes to something else hears of that as of a failure, and one that has not come
  // `peer_timeout` after a failure is named by an error here. A rank that has gone or hangs is such an error too: the
  // job must be started anew.
  void reset();

  // Ends the world before its last holder goes (a mesh, a function or an array keeps it too): later calls are errors,
  // what calls have made can still be read. `wait`: for the calls made before, and with several ranks for the others to
  // end theirs; what `while_waiting` throws ends the wait, and `end` may be called again. Without it calls under way
  // fail, and the other ranks hear that this one's failed. The last holder to go ends it: well, or without waiting
  // where an exception unwinds the stack. `std::exit` ends all worlds that live, well.
  void end(bool wait = true);

 private:
  std::shared_ptr<WorldState> state_;
};

}  // namespace karez

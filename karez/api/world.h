// The world: devices, the session that runs on them, meshes, and the state that outlives calls (parameters, counters).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "karez/api/checkpoint_options.h"
#include "karez/api/device_mesh.h"
#include "karez/api/tensor.h"
#include "karez/api/world_options.h"

namespace karez {

// Devices, their memory and threads, and the variables stored on them.
class World {
 public:
  // With several ranks, waits for all of them, and throws on all of them if options that must be equal differ. The n-th
  // world of a process joins the n-th worlds of the other processes.
  explicit World(WorldOptions options = {});

  int rank() const;  // of this process, from 0
  int ranks() const;
  void barrier() const;  // waits until all ranks have called barrier(); running calls continue
  // Increases the number of devices to at least this many. An error with several ranks, and beyond
  // WorldOptions::device_limit.
  void grow_to(int devices);

  // Returns a mesh of the first devices of the world, in row-major order along the axes: world.mesh({{"data", 2},
  // {"model", 2}}) or world.mesh("data=2,model=2"). Other devices are selected with world.mesh("data=2", {.first = 2})
  // or {.devices = {3, 1}}. Meshes may overlap. More devices than the world has, a device that does not exist and a
  // device that is listed twice are errors.
  DeviceMesh mesh(std::vector<MeshAxis> axes = {}, const MeshPlace& place = {}) const;
  DeviceMesh mesh(std::string_view text, const MeshPlace& place = {}) const;

  // Read or write the complete logical tensor of a parameter or other variable ("adam.step"), whatever its layout. A
  // variable exists from the first call of a function that uses it; a name that does not exist is an error that lists
  // the existing names, and a name of two parameters is an error that lists both. With several ranks, a variable of
  // which every rank holds a complete copy is read locally; any other variable is gathered by a launch, so all ranks
  // must read it. All ranks must write a variable, with equal values.
  HostArray read(std::string_view name, SourceLine where = SourceLine::current()) const;
  HostArray read(const Parameter& parameter, SourceLine where = SourceLine::current()) const;
  void write(std::string_view name, const HostArray& value);
  void write(const Parameter& parameter, const HostArray& value);
  // Returns whether a function has used the parameter, so that it can be read. A write to a parameter that no function
  // has used yet sets its first value.
  bool has(const Parameter& parameter) const;
  // Returns the first values of parameters that no function has used.
  std::vector<HostArray> first_values(const std::vector<Parameter>& parameters) const;
  std::vector<std::string> variables() const;  // the names; a name of two parameters occurs twice
  Layout layout(std::string_view name) const;  // the stored layout, one entry for each axis of the mesh
  Layout layout(const Parameter& parameter) const;

  // Writes a checkpoint in the safetensors format: the values of all variables after the calls made so far, including
  // the random counter, and the notes. The file is written under a temporary name, synced and renamed, so that the path
  // always holds the complete old or new checkpoint. Loaded values without a variable yet (see `waiting`) are included.
  // Saving after a failed launch is an error. With several ranks all of them must call save; rank 0 writes the file,
  // and all wait until it exists; meanwhile other threads must not call functions. All ranks load, from a path that all
  // of them can read.
  void save(const std::string& path, const CheckpointNotes& notes = {}, SourceLine where = SourceLine::current()) const;

  // Loads the values of variables from a file that `save` or another program wrote (*.safetensors, or the *.index.json
  // of several files), on any mesh, bit for bit; waits for the calls made so far. All names and types are checked
  // first: a load that fails changes nothing. A variable that no function has used yet gets its value when it is
  // created; the file stays open until then. If no parameters are selected, the file must be complete: a variable that
  // is not in the file is an error, now or when the variable is created; tensors without a variable wait for variables
  // of their names (waiting()). After a failed launch, loading a complete file makes the world usable again: variables
  // are created again, and functions compile again at their next call. All ranks must load files of equal contents; if
  // one rank does not call load, nothing changes, and the other ranks get an error.
  CheckpointNotes load(const std::string& path, const LoadOptions& options = {},
                       SourceLine where = SourceLine::current());
  // Returns the names of loaded values that no variable has taken yet; a name that two values have occurs twice.
  std::vector<std::string> waiting() const;

  Counters counters() const;  // bytes and messages, by place of transfer
  // Returns the bytes of existing arrays on all devices together, which do not count towards WorldOptions::memory. Does
  // not wait.
  std::int64_t held_bytes() const;
  // Sets the seed of initial weights and of dropout, which starts again at its first step. With several ranks all of
  // them must call seed.
  void seed(std::uint64_t seed);
  // Deletes variables and plans, and recovers from a failed launch; functions compile again at their next call. With
  // several ranks all of them must call reset: a rank that calls another op instead gets the error of a failed rank,
  // and a rank that has not called reset `peer_timeout` seconds after a failure is named by an error on the other
  // ranks. A rank that has exited or hangs is an error too: the job must be restarted.
  void reset();

  // Ends the world before its last owner (possibly a mesh, a function or a future) is destroyed: later calls are
  // errors, but results of earlier calls can still be read. With `wait`, waits for earlier calls, and with several
  // ranks until the other ranks end their worlds; an exception from `while_waiting` stops the wait, and `end` may be
  // called again. Without `wait`, running calls fail, and the other ranks get an error that this rank failed.
  // Destroying the last owner ends the world with `wait`, or without it during stack unwinding. `std::exit` ends all
  // existing worlds with `wait`.
  void end(bool wait = true);

 private:
  std::shared_ptr<WorldState> state_;
};

}  // namespace karez

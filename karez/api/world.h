// World: devices, the session that runs on them, meshes, and the state that outlives calls (parameters, counters).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "karez/api/checkpoint_options.h"
#include "karez/api/data_iterator.h"
#include "karez/api/device_mesh.h"
#include "karez/api/tensor.h"
#include "karez/api/world_options.h"

namespace karez {

// Devices, their memory and threads, and the variables stored on them.
class World {
 public:
  // With several ranks, waits for all of them. If options that must be equal differ between ranks, throws on all ranks.
  // The n-th world of a process joins the n-th worlds of the other processes.
  explicit World(WorldOptions options = {});

  int rank() const;  // of this process, from 0
  int ranks() const;
  void barrier() const;  // waits until all ranks have called barrier(); running calls continue
  // Increases the number of devices to at least this many. Throws if the world has several ranks or if the number
  // exceeds WorldOptions::device_limit.
  void grow_to(int devices);

  // Returns a mesh of the first devices of the world, in row-major order along the axes: world.mesh({{"data", 2},
  // {"model", 2}}) or world.mesh("data=2,model=2"). Other devices are selected with world.mesh("data=2", {.first = 2})
  // or {.devices = {3, 1}}. Meshes may overlap. Throws if the mesh needs more devices than the world has, if a device
  // does not exist, or if a device is listed twice.
  DeviceMesh mesh(std::vector<MeshAxis> axes = {}, const MeshPlace& place = {}) const;
  DeviceMesh mesh(std::string_view text, const MeshPlace& place = {}) const;

  // Read or write the complete logical tensor of a parameter or other variable ("adam.step"), whatever its layout. A
  // variable exists from the first call of a function that uses it. A name that does not exist is an error that lists
  // the existing names; a name that two parameters have is an error that lists these parameters. With several ranks, a
  // variable is read locally if every rank holds a complete copy of it. Any other variable is gathered by a launch, so
  // all ranks must read it. A write must be made by all ranks, with equal values.
  HostArray read(std::string_view name, SourceLine where = SourceLine::current()) const;
  HostArray read(const Parameter& parameter, SourceLine where = SourceLine::current()) const;
  void write(std::string_view name, const HostArray& value);
  void write(const Parameter& parameter, const HostArray& value);
  // Returns whether a function has used the parameter, so that `read` finds it. A write to a parameter that no function
  // has used yet sets its first value.
  bool has(const Parameter& parameter) const;
  // Returns the first values of parameters that no function has used. With several ranks, all of them must call
  // first_values.
  std::vector<HostArray> first_values(const std::vector<Parameter>& parameters) const;
  std::vector<std::string> variables() const;  // the names; a name that two parameters have occurs twice
  Layout layout(std::string_view name) const;  // the stored layout, one entry for each axis of the mesh
  Layout layout(const Parameter& parameter) const;

  // Writes a checkpoint in the safetensors format: the notes, and the values that all variables, including the random
  // counter, have after the calls made so far. Loaded values that no variable has taken yet (see `waiting`) are
  // included. The file is written under a temporary name, synced and renamed, so that the path always holds either the
  // complete old checkpoint or the complete new one. Saving after a failed launch is an error. With several ranks, all
  // of them must call save; rank 0 writes the file, and the other ranks wait until it exists. During this time, other
  // threads must not call functions. To load the checkpoint, all ranks must be able to read its path.
  void save(const std::string& path, const CheckpointNotes& notes = {}, SourceLine where = SourceLine::current()) const;

  // Loads the values of variables from a file that `save` or another program wrote (*.safetensors, or an *.index.json
  // that lists several such files). The values are loaded bit for bit on any mesh. Waits for the calls made so far. All
  // names and types are checked first, so a load that fails changes nothing. A variable that no function has used yet
  // gets its value when it is created; the file stays open until then. If no parameters are selected, the file must be
  // complete: a variable that is not in the file is an error, now or when the variable is created. Tensors for which no
  // variable exists yet wait for a variable with the same name (see `waiting`). After a failed launch, loading a
  // complete file makes the world usable again: variables are created again, and functions compile again at their next
  // call. All ranks must load files with equal contents. If one rank does not call load, nothing changes, and the other
  // ranks get an error.
  CheckpointNotes load(const std::string& path, const LoadOptions& options = {},
                       SourceLine where = SourceLine::current());
  // Returns the names of loaded values that no variable has taken yet; a name that two values have occurs twice.
  std::vector<std::string> waiting() const;

  // Reads a data set with data threads. With several ranks, each rank reads its data set by itself.
  DataIterator iterate(const data::Dataset& dataset, const IterateOptions& options = {}) const;

  Counters counters() const;  // counts of launches, messages and bytes since the world was created
  // Returns the total bytes of existing arrays on all devices. These bytes do not count towards WorldOptions::memory.
  // Does not wait.
  std::int64_t held_bytes() const;
  // Sets the seed of initial weights and of dropout, resets the step of dropout to its first value, and restarts the
  // numbering of new parameters on this thread (next_site). With several ranks, all of them must call seed.
  void seed(std::uint64_t seed);
  // Deletes variables and plans, and recovers from a failed launch. Functions compile again at their next call. With
  // several ranks, all of them must call reset. A rank that calls another op instead gets the error that a rank failed.
  // If a rank has not called reset `peer_timeout` seconds after a failure, the other ranks throw an error that names
  // it. If a rank has exited or hangs, reset throws too, and the job must be restarted.
  void reset();

  // Closes all iterators of data sets; no data set can be read in this world any more. Functions of data sets that run
  // longer than five seconds are not waited for. `end` calls it.
  void end_iterators();
  // Ends the world before its last owner (possibly a mesh, a function or a future) is destroyed. Later calls are
  // errors, but results of earlier calls can still be read. If `wait` is true, waits for earlier calls and, with
  // several ranks, until the other ranks end their worlds. An exception from `while_waiting` stops the wait; `end` may
  // then be called again. If `wait` is false, running calls fail, and the other ranks get an error that this rank
  // failed. Destroying the last owner calls end(true), or end(false) during stack unwinding. `std::exit` calls
  // end(true) for all existing worlds.
  void end(bool wait = true);

 private:
  std::shared_ptr<WorldState> state_;
};

}  // namespace karez

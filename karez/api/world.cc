// Implements World: makes meshes, reads and writes variables, and resets or ends the world.
#include "karez/api/world.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <optional>

#include "karez/api/ranks/gather.h"
#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/state/stored_parts.h"
#include "karez/api/state/world_state.h"
#include "karez/base/hash.h"
#include "karez/base/text.h"

namespace karez {

World::World(WorldOptions options) : state_(std::make_shared<WorldState>(std::move(options))) {}

int World::rank() const { return state_->ranks.rank(); }
int World::ranks() const { return state_->ranks.ranks(); }
void World::barrier() const {
  runtime::Session& session = state_->session;
  session.await_op(session.begin_op({.what = "a barrier", .is_barrier = true}));
}

void World::grow_to(int devices) {
  if (devices <= state_->options.devices) return;
  require(ErrorKind::device, ranks() == 1, "World: a world of ", ranks(), " ranks cannot grow from ",
          state_->options.devices, " to ", devices, " devices per rank");
  state_->grow_to(devices);
}

DeviceMesh World::mesh(std::vector<MeshAxis> axes, const MeshPlace& place) const {
  Mesh mesh = Mesh::of(std::move(axes));
  const int devices_per_rank = state_->options.devices, num_devices = devices_per_rank * ranks(),
            end = place.devices.empty() ? place.first + mesh.size() : mesh.size();
  if (mesh.size() > state_->options.device_limit)
    fail(ErrorKind::device, print(mesh), " takes ", mesh.size(), " devices, but the limit is ",
         state_->options.device_limit,
         "; a higher WorldOptions::device_limit allows more, but plans for so many devices take minutes to make");
  if (place.first != 0 && !place.devices.empty())
    fail(ErrorKind::device, print(mesh), ": both first = ", place.first, " and devices = ", join(place.devices, ", "),
         " are given; give only one of the two");
  if (place.first < 0) fail(ErrorKind::device, print(mesh), ": the first device must be at least 0, got ", place.first);
  if (end > num_devices)
    fail(ErrorKind::device, print(mesh),
         place.first > 0 ? cat(" takes devices ", place.first, " to ", end - 1) : cat(" takes ", end, " devices"),
         ", but the world has ", num_devices,
         ranks() == 1 ? cat("; World({.devices = ", end, "}) has enough")
                      : cat(", ", devices_per_rank, " on each rank"));
  if (!place.devices.empty() && static_cast<int>(place.devices.size()) != mesh.size())
    fail(ErrorKind::device, print(mesh), " takes ", mesh.size(), " devices, but ", place.devices.size(), " are listed");
  for (int position = 0; position < mesh.size(); ++position) {
    const auto index = static_cast<std::size_t>(position);
    const int device = place.devices.empty() ? place.first + position : place.devices[index];
    if (device < 0 || device >= num_devices)
      fail(ErrorKind::device, print(mesh), ": device ", device, " does not exist; the world has devices 0 to ",
           num_devices - 1);
    mesh.devices[index] = {device / devices_per_rank, device % devices_per_rank};
    for (std::size_t other = 0; other < index && !place.devices.empty(); ++other)
      if (mesh.devices[other] == mesh.devices[index])
        fail(ErrorKind::device, print(mesh), ": device ", device, " is listed twice");
  }
  return {state_, std::move(mesh)};
}
DeviceMesh World::mesh(std::string_view text, const MeshPlace& place) const {
  return mesh(Mesh::parse(text).axes, place);
}

namespace {

// `Key` is a variable's name or a Parameter.
template <class Key> HostArray read_stored(WorldState& world, const Key& variable_key, SourceLine where) {
  if (!world.ranks.alone()) world.session.wait_for_capacity();
  std::optional<StoredParts> stored;
  std::optional<runtime::Result> gathered;
  {
    WorldLock lock(world);
    const auto& [key, variable] = *world.variables.stored(variable_key);
    if (whole_on_every_rank(world, variable.type, variable.mesh, variable.layout))
      stored.emplace(parts_of(world, key, variable, false));
    else gathered = start_gather(world, key, variable, where);
  }
  return gathered ? gathered->read() : read_parts(*stored);
}

template <class Key> void write_stored(WorldState& world, const Key& variable_key, const HostArray& value) {
  world.deferred_reads.run();
  const StoredParts stored = [&] {
    WorldLock lock(world);
    const auto& [key, variable] = *world.variables.stored(variable_key);
    const std::string name = VariableTable::display_name(key, variable).first;
    if (!value.valid() || value.type() != variable.type)
      fail(ErrorKind::type, "variable '", name, "' is ", variable.type, ", not ",
           value.valid() ? print(value.type()) : "an uninitialised array");
    agree_on_value(world, value, cat("a write of variable '", name, "'"));
    return parts_of(world, key, variable, true);
  }();
  write_parts(stored, value);
}

}  // namespace

HostArray read_variable(WorldState& world, const Parameter& parameter, SourceLine where) {
  return read_stored(world, parameter, where);
}

HostArray World::read(std::string_view name, SourceLine where) const { return read_stored(*state_, name, where); }
HostArray World::read(const Parameter& parameter, SourceLine where) const {
  return read_stored(*state_, parameter, where);
}
void World::write(std::string_view name, const HostArray& value) { write_stored(*state_, name, value); }
void World::write(const Parameter& parameter, const HostArray& value) {
  if (has(parameter)) return write_stored(*state_, parameter, value);
  parameter.set_initial_value(value);
  WorldLock lock(*state_);
  state_->variables.pending_weights.remove(parameter);
}

std::vector<std::string> World::variables() const {
  WorldLock lock(*state_);
  std::vector<std::string> out;
  for (const auto& [key, variable] : state_->variables.by_key)
    out.push_back(VariableTable::display_name(key, variable).first);
  std::sort(out.begin(), out.end());
  return out;
}

Layout World::layout(std::string_view name) const {
  WorldLock lock(*state_);
  return state_->variables.stored(name)->second.layout;
}
Layout World::layout(const Parameter& parameter) const {
  WorldLock lock(*state_);
  return state_->variables.stored(parameter)->second.layout;
}

Counters World::counters() const { return state_->session.counters(); }
std::int64_t World::held_bytes() const { return state_->session.held_bytes(); }

DataIterator World::iterate(const data::Dataset& dataset, const IterateOptions& options) const {
  DataIterator::check_process();
  state_->session.check_open();
  if (options.compare) {
    const std::string text = dataset.common_text();
    agree_on_program(*state_, base::hash_text(text), "the data set", [&] { return text; });
  }
  return {state_, dataset, options};
}

void World::end_iterators() { state_->data_threads->end(); }

void World::end(bool wait) {
  end_iterators();
  state_->session.end(wait ? Session::ShutdownMode::graceful : Session::ShutdownMode::immediate);
  state_->end_ranks(wait);
}

void World::reset() {
  Session& session = state_->session;
  if (!session.failed()) state_->deferred_reads.run();
  session.wait_all_launches();
  bool failed = session.failed();
  if (!failed) try {
      agree_on_reset(*state_);
    } catch (const Error&) {  // another rank calls a different op, and reports an error
      failed = true;
    }
  WorldLock lock(*state_);
  state_->restart(failed);
}

}  // namespace karez

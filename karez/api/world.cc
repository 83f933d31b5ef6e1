// The world: chooses threads, makes meshes, and reads variables from their shards.
#include "karez/api/world.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "karez/api/ranks/gather.h"
#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/state/shipped_costs.h"
#include "karez/api/state/stored_parts.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/evaluator.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/base/hash.h"
#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/device/cpu_budget.h"
#include "karez/device/processor.h"
#include "karez/kernels/cpu/library_versions.h"
#include "karez/ops/all_ops.h"

namespace karez {
namespace {

WorldOptions checked(WorldOptions options) {
  require(options.devices >= 1, "a world of ", options.devices, " devices; at least 1 is required");
  require(options.device_limit >= 1, "a world with a device_limit of ", options.device_limit,
          "; it must be at least 1");
  require(options.devices <= options.device_limit, "a world of ", options.devices, " devices; more than ",
          options.device_limit, " need a higher WorldOptions::device_limit, World({.devices = ", options.devices,
          ", .device_limit = ", options.devices, "}): plans for so many take minutes to make");
  require(options.workers >= 0, "a world with ", options.workers, " workers; 0 selects the number automatically");
  require(options.in_flight >= 1 && options.in_flight <= 1024, "a world with ", options.in_flight,
          " launches in flight; the range is 1 to 1024");
  require(options.memory >= 0, "a world with ", options.memory, " bytes per device; 0 sets no limit");
  if (const char* check = std::getenv("KAREZ_CHECK_INPUTS");
      check != nullptr && options.check_inputs == InputCheck::sampled) {
    const std::string_view word = check;
    require(word == "off" || word == "sampled" || word == "full", "KAREZ_CHECK_INPUTS=", word,
            "; it must be off, sampled or full");
    options.check_inputs = word == "off" ? InputCheck::off : word == "full" ? InputCheck::full : InputCheck::sampled;
  }
  require(options.team >= 0 && options.team <= 1024, "a world with kernels of ", options.team,
          " threads; the range is 1 to 1024, and 0 selects the number automatically");
  return options;
}

SessionOptions session_options(const WorldOptions& options, const WorldRanks& ranks,
                               const CommonSettings& common_settings) {
  SessionOptions out{.workers = options.workers,
                     .poison = options.poison.value_or(poison_by_default),
                     .in_flight = options.in_flight,
                     .check_nan = options.check_nan,
                     .while_waiting = options.while_waiting,
                     .peers = ranks.peers(),
                     .hang_timeouts = {.peer_timeout = options.peer_timeout, .call_timeout = options.call_timeout}};
  if (const char* folder = std::getenv("KAREZ_FLIGHT"); folder != nullptr) out.flight = folder;
  if (!ranks.alone() && common_settings.cores == 1)
    out.spin_microseconds = 0;  // a rank that spins takes another rank's core
  if (options.session) options.session(out);
  return out;
}

CostTable costs_of(const WorldOptions& options) {
  const device::Processor own = device::processor();
  if (options.costs) {
    options.costs->check();
    CostTable given = options.costs->with_isa(own.isa);
    if (given.origin.empty()) given.origin = "those of WorldOptions::costs";
    return given;
  }
  std::string file = options.cost_file;
  if (const char* named = std::getenv("KAREZ_COSTS"); named != nullptr && file.empty()) file = named;
  if (file == "default") return costs_for({});
  if (file.empty()) return costs_for(own);
  std::ifstream in(file);
  require(ErrorKind::data, in.good(), "cannot open the cost table '", file, "'");
  const CostTable all = CostTable::parse(std::string(std::istreambuf_iterator<char>(in), {}));
  CostTable read = all.with_isa(own.isa);
  if (read.origin.empty()) read.origin = cat("those of ", file);
  if (!all.sets.empty() && read.sets.empty())
    read.origin += cat("; its rates are not for the instruction set ", own.isa,
                       ", so coarse rates are used (`karez doctor --kernels --costs ", file, "` measures them)");
  return read;
}

// The built-in rows, then the user's. Errors report whether a duplicate name is built-in or the user's; the tables
// check the rest.
template <class Row>
std::vector<Row> with_rows(std::vector<Row> rows, const std::vector<Row>& more, std::string_view list,
                           std::string_view kind) {
  const std::size_t ours = rows.size();
  for (std::size_t i = 0; i < more.size(); ++i) {
    for (std::size_t other = 0; other < rows.size(); ++other)
      require(rows[other].name != more[i].name, list, "[", i,
              "]: ", other < ours ? cat("Karez has ", kind) : cat("row ", other - ours, " is ", kind), " called '",
              more[i].name, "' already");
    rows.push_back(more[i]);
  }
  return rows;
}

// A user's kernel may throw any exception.
std::vector<OpDef> mark_may_fail(std::vector<OpDef> rows) {
  for (OpDef& row : rows) row.may_fail = true;
  return rows;
}

}  // namespace

WorldState::WorldState(WorldOptions chosen)
    : options(checked(std::move(chosen))),
      ranks(options),
      common_settings(ranks.agree(options, costs_of(options), library_versions())),
      costs(CostTable::parse(common_settings.costs)),
      ops(with_rows(all_op_rows(), mark_may_fail(options.ops), "WorldOptions::ops", "an op")),
      kernels(with_rows(cpu_kernels(), options.kernels, "WorldOptions::kernels", "a kernel")),
      evaluate(make_evaluator(std::make_shared<const KernelTable>(
          with_rows(plain_kernels(), options.kernels, "WorldOptions::kernels", "a kernel")))),
      plans(cache_path(), !options.ops.empty() || !options.kernels.empty()),
      session(session_options(options, ranks, common_settings), kernels),
      expression_plans(std::make_shared<ExpressionPlans>()) {}

namespace {

// The largest number of devices of any rank: the number of threads of a call must not differ between ranks.
int devices_of_a_rank(const Graph& graph) {
  std::set<DeviceName> all;
  std::map<int, int> of_rank;
  int most = 1;
  for (const Mesh& mesh : graph.meshes)
    for (DeviceName device : mesh.devices)
      if (all.insert(device).second) most = std::max(most, ++of_rank[device.rank]);
  return most;
}

}  // namespace

CostTable WorldState::act_costs(const Graph& graph, int team) const {
  return with_class_costs(costs.with_threads(team, 1), graph.meshes, common_settings.topology);
}

CompileOptions WorldState::compile_options(const Graph& graph) const {
  const int devices = devices_of_a_rank(graph), cores = common_settings.cores;
  CompileOptions out;
  out.rank = ranks.rank();
  out.world = ranks.ranks();
  out.memory = common_settings.memory;
  out.check_nan = options.check_nan;
  out.workers = std::min({devices, cores, options.workers > 0 ? options.workers : devices});
  out.team = options.team > 0 ? options.team : std::max(1, cores / out.workers);
  out.costs = with_class_costs(costs.with_threads(out.team, (devices + out.workers - 1) / out.workers), graph.meshes,
                               common_settings.topology);
  return out;
}

World::World(WorldOptions options) : state_(std::make_shared<WorldState>(std::move(options))) {}

int World::rank() const { return state_->ranks.rank(); }
int World::ranks() const { return state_->ranks.ranks(); }
void World::barrier() const {
  runtime::Session& session = state_->session;
  session.await_op(session.begin_op({.what = "a barrier", .is_barrier = true}));
}

void World::grow_to(int devices) {
  if (devices <= state_->options.devices) return;
  require(ErrorKind::device, ranks() == 1, "a world of ", ranks(), " ranks with ", state_->options.devices,
          " devices each cannot grow to ", devices);
  WorldOptions options = state_->options;
  options.devices = devices;
  state_->options.devices = checked(std::move(options)).devices;
}

DeviceMesh World::mesh(std::vector<MeshAxis> axes, const MeshPlace& place) const {
  Mesh mesh = Mesh::of(std::move(axes));
  const int each = state_->options.devices, has = each * ranks(),
            end = place.devices.empty() ? place.first + mesh.size() : mesh.size();
  const bool alone = ranks() == 1;
  require(ErrorKind::device, mesh.size() <= state_->options.device_limit, print(mesh), " takes ", mesh.size(),
          " devices; more than ", state_->options.device_limit,
          " need a higher WorldOptions::device_limit: plans for so many take minutes to make");
  require(ErrorKind::device, place.first == 0 || place.devices.empty(), print(mesh), " is to be on the devices from ",
          place.first, " on and also on devices ", join(place.devices, ", "), "; give only one of the two");
  require(ErrorKind::device, place.first >= 0, print(mesh), " is to be on the devices from ", place.first,
          " on; the first device is 0");
  require(ErrorKind::device, end <= has, print(mesh),
          place.first > 0 ? cat(" from device ", place.first, " on") : std::string(), " takes ", end,
          " devices, but the world has ", has,
          alone ? cat("; World({.devices = ", end, "}) has enough") : cat(", ", each, " on each rank"));
  require(ErrorKind::device, place.devices.empty() || static_cast<int>(place.devices.size()) == mesh.size(),
          print(mesh), " takes ", mesh.size(), " devices; ", place.devices.size(), " are listed");
  for (int position = 0; position < mesh.size(); ++position) {
    const auto at = static_cast<std::size_t>(position);
    const int device = place.devices.empty() ? place.first + position : place.devices[at];
    require(ErrorKind::device, device >= 0 && device < has, print(mesh), ": there is no device ", device,
            "; the world has 0 to ", has - 1);
    mesh.devices[at] = {device / each, device % each};
    for (std::size_t other = 0; other < at && !place.devices.empty(); ++other)
      require(ErrorKind::device, mesh.devices[other] != mesh.devices[at], print(mesh), ": device ", device,
              " is listed twice");
  }
  return {state_, std::move(mesh)};
}
DeviceMesh World::mesh(std::string_view text, const MeshPlace& place) const {
  return mesh(Mesh::parse(text).axes, place);
}

namespace {

template <class Who> HostArray read_stored(WorldState& world, const Who& who, SourceLine where) {
  if (!world.ranks.alone()) world.session.wait_for_capacity();
  std::optional<StoredParts> stored;
  std::optional<runtime::Result> brought;
  {
    WorldLock lock(world);
    const auto& [key, variable] = *world.stored(who);
    if (whole_on_every_rank(world, variable.type, variable.mesh, variable.layout))
      stored.emplace(parts_of(world, key, variable, false));
    else brought = start_gather(world, key, variable, where);
  }
  return brought ? brought->read() : read_parts(*stored);
}

template <class Who> void write_stored(WorldState& world, const Who& who, const HostArray& value) {
  const StoredParts stored = [&] {
    WorldLock lock(world);
    const auto& [key, variable] = *world.stored(who);
    const std::string name = WorldState::display_name(key, variable).first;
    require(ErrorKind::type, value.valid() && value.type() == variable.type, "variable '", name, "' is ", variable.type,
            ", not ", value.valid() ? print(value.type()) : "an uninitialised array");
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
  state_->pending_weights.remove(parameter);
}

std::vector<std::string> World::variables() const {
  WorldLock lock(*state_);
  std::vector<std::string> out;
  for (const auto& [key, variable] : state_->variables) out.push_back(WorldState::display_name(key, variable).first);
  std::sort(out.begin(), out.end());
  return out;
}

Layout World::layout(std::string_view name) const {
  WorldLock lock(*state_);
  return state_->stored(name)->second.layout;
}
Layout World::layout(const Parameter& parameter) const {
  WorldLock lock(*state_);
  return state_->stored(parameter)->second.layout;
}

Counters World::counters() const { return state_->session.counters(); }
std::int64_t World::held_bytes() const { return state_->session.held_bytes(); }

void World::end(bool wait) {
  state_->session.end(wait ? Session::ShutdownMode::graceful : Session::ShutdownMode::immediate);
  state_->end_ranks(wait);
}

void World::reset() {
  Session& session = state_->session;
  session.wait_all_launches();
  bool failed = session.failed();
  if (!failed) try {
      agree_on_reset(*state_);
    } catch (const Error&) {  // another rank calls another op, and gets an error there
      failed = true;
    }
  WorldLock lock(*state_);
  state_->restart(failed);
}

}  // namespace karez

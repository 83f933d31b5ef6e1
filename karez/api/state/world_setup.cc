// Creates the state of a world from the options of the world, and the options of the compiler from that state.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "karez/api/costs/world_costs.h"
#include "karez/api/namespace.h"
#include "karez/api/profile/world_profile.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/evaluator.h"
#include "karez/base/text.h"
#include "karez/control/flight_recorder.h"
#include "karez/control/rank_control.h"
#include "karez/device/cpu_budget.h"
#include "karez/kernels/cpu/library_versions.h"
#include "karez/ops/all_ops.h"

namespace karez {
namespace {

WorldOptions checked(WorldOptions options) {
  require(options.devices >= 1, "World: devices must be at least 1, got ", options.devices);
  require(options.device_limit >= 1, "World: device_limit must be at least 1, got ", options.device_limit);
  require(options.devices <= options.device_limit, "World: ", options.devices, " devices exceed the limit of ",
          options.device_limit, "; World({.devices = ", options.devices, ", .device_limit = ", options.devices,
          "}) raises the limit, but plans for so many devices take minutes to make");
  require(options.workers >= 0, "World: workers must be at least 0 (0 chooses the number automatically), got ",
          options.workers);
  require(options.in_flight >= 1 && options.in_flight <= 1024, "World: in_flight must be from 1 to 1024, got ",
          options.in_flight);
  require(options.memory >= 0, "World: memory must be at least 0 (0 means no limit), got ", options.memory);
  if (const char* check = std::getenv("KAREZ_CHECK_INPUTS");
      check != nullptr && options.check_inputs == InputCheck::sampled) {
    const std::string_view word = check;
    require(word == "off" || word == "sampled" || word == "full",
            "KAREZ_CHECK_INPUTS must be off, sampled or full, got '", word, "'");
    options.check_inputs = word == "off" ? InputCheck::off : word == "full" ? InputCheck::full : InputCheck::sampled;
  }
  require((options.data_cores >= 0 && options.data_cores <= 1024) || options.data_cores == data::automatic,
          "World: data_cores must be from 0 to 1024, got ", options.data_cores);
  require(options.data_cores != data::automatic || options.team == 0,
          "World: automatic data_cores change the number of threads of kernels, so team must be 0, got ", options.team);
  require(options.team >= 0 && options.team <= 1024,
          "World: team must be from 0 to 1024 (0 chooses the number automatically), got ", options.team);
  return options;
}

SessionOptions session_options(const WorldOptions& options, const WorldRanks& ranks,
                               const CommonSettings& common_settings, runtime::DataThreads& data_threads) {
  SessionOptions out{.workers = options.workers,
                     .poison = options.poison.value_or(poison_by_default),
                     .in_flight = options.in_flight,
                     .check_nan = options.check_nan,
                     .while_waiting = options.while_waiting,
                     .add_data_state = [&data_threads](RankState& state) { data_threads.add_state(state); },
                     .idle_clock = data_threads.idle_clock(),
                     .peers = ranks.peers()};
  if (ranks.peers() != nullptr)
    out.make_control = control::rank_control(
        *ranks.peers(), {.peer_timeout = options.peer_timeout, .call_timeout = options.call_timeout});
  if (const char* folder = std::getenv("KAREZ_FLIGHT"); folder != nullptr && *folder != '\0')
    out.write_flight_record = [folder = std::string(folder)](const FlightRecord& record) {
      control::write_flight_record(folder, record);
    };
  if (!ranks.alone() && common_settings.cores == 1)
    out.spin_microseconds = 0;  // a rank that spins takes another rank's core
  if (options.session) options.session(out);
  return out;
}

// The CPUs of this rank's data threads.
std::vector<int> data_cpus(int data_cores, const WorldRanks& ranks, const CommonSettings& common_settings) {
  const std::vector<int>& hosts = common_settings.topology.hosts;  // by rank
  const auto rank = static_cast<std::size_t>(ranks.rank());
  const bool has_hosts = rank < hosts.size();
  const auto lower = has_hosts ? std::count(hosts.begin(), hosts.begin() + ranks.rank(), hosts[rank]) : 0;
  const auto all = has_hosts ? std::count(hosts.begin(), hosts.end(), hosts[rank]) : 1;
  return device::data_cpus(device::cpu_budget().cpus, common_settings.cores, data_cores, static_cast<int>(lower),
                           static_cast<int>(all));
}

// Appends the user's rows to the built-in rows. A duplicate name is an error that says which row has the name; the
// tables make all other checks. `kind` is "op" or "kernel".
template <class Row>
std::vector<Row> with_rows(std::vector<Row> rows, const std::vector<Row>& user_rows, std::string_view list,
                           std::string_view kind) {
  const std::size_t num_builtin = rows.size();
  for (std::size_t i = 0; i < user_rows.size(); ++i) {
    for (std::size_t other = 0; other < rows.size(); ++other)
      if (rows[other].name == user_rows[i].name)
        fail(list, "[", i, "]: the name '", user_rows[i].name, "' is already used by ",
             other < num_builtin ? cat("a built-in ", kind) : cat("row ", other - num_builtin));
    rows.push_back(user_rows[i]);
  }
  return rows;
}

// Marks ops that may fail, because a user's kernel may throw any exception.
std::vector<OpDef> mark_may_fail(std::vector<OpDef> rows) {
  for (OpDef& row : rows) row.may_fail = true;
  return rows;
}

WorldTables make_tables(const WorldOptions& options, const CommonSettings& common_settings) {
  const auto kernels = [&](std::vector<KernelRow> rows) {
    return with_rows(std::move(rows), options.kernels, "WorldOptions::kernels", "kernel");
  };
  return {.costs = CostTable::parse(common_settings.costs),
          .ops = graph::OpTable(with_rows(all_op_rows(), mark_may_fail(options.ops), "WorldOptions::ops", "op")),
          .kernels = KernelTable(kernels(cpu_kernels())),
          .evaluate = make_evaluator(std::make_shared<const KernelTable>(kernels(plain_kernels())))};
}

}  // namespace

WorldState::WorldState(WorldOptions requested_options)
    : options(checked(std::move(requested_options))),
      ranks(options),
      common_settings(ranks.agree(options, costs_of(options, ranks.rank()), library_versions())),
      tables(make_tables(options, common_settings)),
      plans(cache_path(), !options.ops.empty() || !options.kernels.empty()),
      data_cores(std::max(options.data_cores, 0)),
      data_threads(std::make_shared<runtime::DataThreads>(256, data_cpus(data_cores, ranks, common_settings),
                                                          data_cores > 0 ? 0 : common_settings.cores)),
      session(session_options(options, ranks, common_settings, *data_threads), tables.kernels) {
  if (options.data_cores == data::automatic) {
    require(ranks.alone(), "World: automatic data_cores need a world of one rank, got ", ranks.ranks(),
            " ranks; give a number");
    data_threads->choose_cores(common_settings.cores);
  }
  begin_environment_profile(*this);
}

WorldState::~WorldState() {
  const auto end = [this] { data_threads->end(); };
  if (options.while_ending) options.while_ending(end);
  else end();
}

void WorldState::grow_to(int devices) {
  WorldOptions new_options = options;
  new_options.devices = devices;
  options.devices = checked(std::move(new_options)).devices;
}

namespace {

// Returns the largest number of devices of any rank. All ranks use this number, because the number of threads of a call
// must not differ between ranks.
int max_devices_per_rank(const Graph& graph) {
  std::set<DeviceName> devices;
  std::map<int, int> device_counts;  // by rank
  int max_devices = 1;
  for (const Mesh& mesh : graph.meshes)
    for (DeviceName device : mesh.devices)
      if (devices.insert(device).second) max_devices = std::max(max_devices, ++device_counts[device.rank]);
  return max_devices;
}

}  // namespace

void WorldState::update_data_cores() {
  if (options.data_cores != data::automatic || data_threads->wanted_cores() == data_cores) return;
  data_cores = data_threads->wanted_cores();
  data_threads->set_cores(data_cpus(data_cores, ranks, common_settings), data_cores > 0 ? 0 : common_settings.cores);
}

CostTable WorldState::act_costs(const Graph& graph, int team) const {
  return with_class_costs(tables.costs.with_threads(team, 1), graph.meshes, common_settings.topology);
}

CompileOptions WorldState::compile_options(const Graph& graph) const {
  const int devices = max_devices_per_rank(graph), cores = std::max(1, common_settings.cores - data_cores);
  CompileOptions out;
  out.rank = ranks.rank();
  out.world = ranks.ranks();
  if (common_settings.memory > 0) {
    out.data_bytes = (data_bytes + options.devices - 1) / options.devices;
    out.memory = common_settings.memory - out.data_bytes;
    if (out.memory <= 0)
      fail(ErrorKind::device, "the memory limit of ", bytes_text(common_settings.memory),
           " per device leaves nothing for plans, because the elements of data sets may need ",
           bytes_text(out.data_bytes), " per device; use a smaller batch, fewer slots, or with_options(bytes=...)");
  }
  out.check_nan = options.check_nan;
  out.workers = std::min({devices, cores, options.workers > 0 ? options.workers : devices});
  out.team = options.team > 0 ? options.team : std::max(1, cores / out.workers);
  out.costs = with_class_costs(tables.costs.with_threads(out.team, (devices + out.workers - 1) / out.workers),
                               graph.meshes, common_settings.topology);
  return out;
}

}  // namespace karez

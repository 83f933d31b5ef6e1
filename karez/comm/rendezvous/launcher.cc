// The launcher: one function for each launcher reads its variables; they are tried from the innermost outwards.
#include "karez/comm/rendezvous/launcher.h"

#include <algorithm>
#include <cstdlib>
#include <random>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/comm/rendezvous/host.h"
#include "karez/comm/rendezvous/slurm_list.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {
namespace {

constexpr std::int64_t max_ranks = 1 << 20;

struct Reader {
  const Environment& environment;

  std::optional<std::string> text(const std::string& name) const {
    auto value = environment(name);
    return value && !value->empty() ? value : std::nullopt;
  }
  bool has(const std::string& name) const { return text(name).has_value(); }
  std::optional<std::int64_t> number(const std::string& name, std::int64_t min, std::int64_t max) const {
    auto value = text(name);
    if (!value) return std::nullopt;
    bool digits = value->size() <= 18 && value->find_first_not_of("0123456789") == std::string::npos;
    std::int64_t out = digits ? std::stoll(*value) : -1;
    require(digits && out >= min && out <= max, name, " is '", *value, "'; it must be a number from ", min, " to ",
            max);
    return out;
  }
  std::optional<bool> flag(const std::string& name) const {
    auto value = number(name, 0, 1);
    return value ? std::optional(*value == 1) : std::nullopt;
  }
  std::string required(const std::string& name, const std::string& other) const {
    auto value = text(name);
    if (!value.has_value())
      fail(has(other) ? cat(other, " is ", *text(other), ", but ") : std::string(), name,
           " is not set; both are required");
    return *value;
  }
};

void read_ranks(const Reader& reader, JobLaunch& out, const std::string& rank, const std::string& ranks) {
  reader.required(rank, ranks);
  reader.required(ranks, rank);
  out.rank = static_cast<int>(*reader.number(rank, 0, max_ranks - 1));
  out.ranks = static_cast<int>(*reader.number(ranks, 1, max_ranks));
  out.rank_variables = cat(rank, "=", out.rank, " ", ranks, "=", out.ranks);
  require(out.rank < out.ranks, rank, " is ", out.rank, ", but ", ranks, " is ", out.ranks, "; ranks begin at 0");
}

// Reads the rank and the number of ranks on this host, which remain unknown if their variables are not set.
void read_local(const Reader& reader, JobLaunch& out, const std::string& rank, const std::string& ranks) {
  auto local_rank = reader.number(rank, 0, max_ranks - 1), local_ranks = reader.number(ranks, 1, max_ranks);
  out.local_rank = local_rank ? static_cast<int>(*local_rank) : -1;
  out.local_ranks = local_ranks ? static_cast<int>(*local_ranks) : 0;
  require(!local_rank || *local_rank <= out.rank, rank, " is ", local_rank.value_or(0), ", but the global rank is ",
          out.rank, " (", out.rank_variables, ")");
  require(!local_rank || !local_ranks || *local_rank < *local_ranks, rank, " is ", local_rank.value_or(0), ", but ",
          ranks, " is ", local_ranks.value_or(0), "; ranks begin at 0");
  require(!local_ranks || *local_ranks <= out.ranks, ranks, " is ", local_ranks.value_or(0), ", but there are ",
          out.ranks, " ranks (", out.rank_variables, ")");
  out.one_host = out.local_ranks == out.ranks;
}

void set_single_host(JobLaunch& out) {
  out.one_host = true;
  out.local_ranks = out.ranks;
  if (out.local_rank < 0) out.local_rank = out.rank;
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || starts_with(host, "127."); }

// Returns a key that is the same for all ranks of a job and differs between the jobs of a host. It does not reveal the
// text from which it is derived.
std::string job_key(const std::string& job) {
  return print(derive_token(cat("karez, the store of ", job))).substr(0, 32);
}
Address named_store(const std::string& job) { return {cat("@karez-", job_key(job)), 0}; }

// Returns a port that is the same for all ranks and below the ports that the kernel assigns.
int derived_port(const std::string& job) {
  return 15000 + static_cast<int>(std::stoll(job_key(job).substr(0, 8), nullptr, 16) % 15000);
}

Address open_store(const Reader& reader, const std::string& host, const std::string& job) {
  int port = derived_port(job);
  if (auto master_port = reader.number("MASTER_PORT", 1, 65534)) {
    // The store of torchrun's agent may listen at this port.
    const bool used_by_agent = reader.text("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
    port = static_cast<int>(*master_port) + (used_by_agent ? 1 : 0);
  }
  if (auto karez_port = reader.number("KAREZ_PORT", 1, 65535)) port = static_cast<int>(*karez_port);
  return {host, port};
}

// --- launchers

Address parse_store(const std::string& text) {
  if (text[0] == '@') return {text, 0};
  auto colon = text.rfind(':');
  std::string host = text.substr(0, colon), port = colon == std::string::npos ? "" : text.substr(colon + 1);
  bool valid =
      !host.empty() && !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  require(valid && std::stoi(port) > 0 && std::stoi(port) < 65536, "KAREZ_STORE is '", text,
          "'; it must have the form @name, alpha:4711 or [::1]:4711");
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, std::stoi(port)};
}

bool started_by_karez_run(const Reader& reader) { return reader.has("KAREZ_RANK") || reader.has("KAREZ_RANKS"); }
void read_karez_run(const Reader& reader, JobLaunch& out) {
  read_ranks(reader, out, "KAREZ_RANK", "KAREZ_RANKS");
  read_local(reader, out, "KAREZ_LOCAL_RANK", "KAREZ_LOCAL_RANKS");
  if (out.ranks == 1) return;
  out.store = parse_store(reader.required("KAREZ_STORE", "KAREZ_RANK"));
  require(out.one_host || !out.store.is_name(), "KAREZ_STORE is ", out.store.host,
          ", which is visible on one host only, but ", out.local_ranks, " of ", out.ranks,
          " ranks are on this one (KAREZ_LOCAL_RANKS)");
  reader.required("KAREZ_TOKEN", "KAREZ_RANK");
}

bool started_by_torchrun(const Reader& reader) { return reader.has("RANK") || reader.has("WORLD_SIZE"); }
void read_torchrun(const Reader& reader, JobLaunch& out) {
  read_ranks(reader, out, "RANK", "WORLD_SIZE");
  read_local(reader, out, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  if (out.ranks == 1) return;
  std::string host = reader.required("MASTER_ADDR", "RANK"), port = reader.required("MASTER_PORT", "RANK");
  reader.number("MASTER_PORT", 1, 65534);
  if (out.local_ranks == 0 && is_loopback(host)) set_single_host(out);
  std::string job = cat("torchrun ", host, " ", port, " ", reader.text("TORCHELASTIC_RUN_ID").value_or(""), " ",
                        reader.text("TORCHELASTIC_RESTART_COUNT").value_or(""));
  out.store = out.one_host ? named_store(job) : open_store(reader, host, job);
}

// The address of the PMIx server is in one variable for each version of the protocol.
bool offers_pmix(const Reader& reader) {
  for (const char* version : {"2", "21", "3", "4", "41", "5"})
    if (reader.has(cat("PMIX_SERVER_URI", version))) return true;
  return false;
}

constexpr const char* transport_key_variable = "OMPI_MCA_orte_precondition_transports";
bool started_by_open_mpi(const Reader& reader) {
  return reader.has("OMPI_COMM_WORLD_RANK") || reader.has("OMPI_COMM_WORLD_SIZE");
}
void read_open_mpi(const Reader& reader, JobLaunch& out) {
  read_ranks(reader, out, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  read_local(reader, out, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  if (out.ranks == 1) return;
  std::string name = reader.text("PMIX_NAMESPACE").value_or(reader.text("OMPI_MCA_ess_base_jobid").value_or(""));
  std::string key = reader.text(transport_key_variable).value_or("");
  require(!name.empty() || !key.empty(), "this is rank ", out.rank, " of ", out.ranks, " of Open MPI (",
          out.rank_variables, "), but neither PMIX_NAMESPACE nor OMPI_MCA_ess_base_jobid is set to identify the job");
  std::string job = cat("Open MPI ", name, " ", key);
  if (out.one_host) {
    out.store = named_store(job);
    return;
  }
  auto host = reader.text("MASTER_ADDR");
  out.uses_pmix = !host && reader.has("PMIX_NAMESPACE") && reader.has("PMIX_RANK") && offers_pmix(reader);
  if (out.uses_pmix) return;
  require(host.has_value(), "Open MPI runs the ", out.ranks,
          " ranks on several hosts, but the host of rank 0 is unknown; set it with mpirun -x MASTER_ADDR=HOST");
  out.store = open_store(reader, *host, job);
}

// Ids from here on belong to steps that srun did not start: the batch script, an interactive shell.
constexpr std::int64_t first_special_step = 0xfffffff0;
bool started_by_slurm(const Reader& reader) {
  auto step = reader.number("SLURM_STEP_ID", 0, 0xffffffff);
  return step && *step < first_special_step;
}
void read_slurm(const Reader& reader, JobLaunch& out) {
  auto steps = reader.number("SLURM_STEP_NUM_TASKS", 1, max_ranks), tasks = reader.number("SLURM_NTASKS", 1, max_ranks);
  require(!steps || !tasks || *steps == *tasks, "SLURM_STEP_NUM_TASKS is ", steps.value_or(0), ", but SLURM_NTASKS is ",
          tasks.value_or(0));
  read_ranks(reader, out, "SLURM_PROCID", steps ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
  read_local(reader, out, "SLURM_LOCALID", "");
  if (out.ranks == 1) return;
  SlurmHosts hosts = parse_slurm_hosts(reader.required("SLURM_STEP_NODELIST", "SLURM_STEP_ID"));
  auto node = reader.number("SLURM_NODEID", 0, max_ranks);
  require(!node || *node < hosts.count, "SLURM_NODEID is ", node.value_or(0), ", but SLURM_STEP_NODELIST names ",
          hosts.count, " hosts");
  auto tasks_per_node = reader.text("SLURM_STEP_TASKS_PER_NODE");
  if (hosts.count == 1) set_single_host(out);
  else if (tasks_per_node && node) out.local_ranks = slurm_tasks_of(*tasks_per_node, static_cast<int>(*node));
  require(out.local_ranks == 0 || out.local_rank < out.local_ranks, "SLURM_LOCALID is ", out.local_rank, ", but only ",
          out.local_ranks, " ranks are on this node");
  std::string id = reader.text("SLURM_JOB_ID").value_or(reader.text("SLURM_JOBID").value_or(""));
  require(!id.empty(), "SLURM_STEP_ID is ", *reader.text("SLURM_STEP_ID"),
          ", but SLURM_JOB_ID is not set; both are required");
  std::string job = cat("Slurm ", id, " ", *reader.text("SLURM_STEP_ID"));
  out.store =
      out.one_host ? named_store(job) : open_store(reader, reader.text("MASTER_ADDR").value_or(hosts.first), job);
}

struct Row {
  Launcher launcher;
  const char* name;
  const char* variable;  // printed if the launcher is ignored
  bool (*started)(const Reader&);
  void (*read)(const Reader&, JobLaunch&);
};
constexpr Row rows[] = {
    {Launcher::karez_run, "karez run", "KAREZ_RANK", started_by_karez_run, read_karez_run},
    {Launcher::torchrun, "torchrun", "RANK", started_by_torchrun, read_torchrun},
    {Launcher::open_mpi, "Open MPI", "OMPI_COMM_WORLD_RANK", started_by_open_mpi, read_open_mpi},
    {Launcher::slurm, "Slurm", "SLURM_PROCID", started_by_slurm, read_slurm},
};

void read_token(const Reader& reader, JobLaunch& out) {
  if (auto text = reader.text("KAREZ_TOKEN")) {
    try {
      out.token = parse_token(*text);
    } catch (const Error& error) { fail("KAREZ_TOKEN: ", error.what()); }
    out.token_source = out.launcher == Launcher::karez_run ? "karez run" : "KAREZ_TOKEN";
  } else if (auto key = reader.text(transport_key_variable); key && out.launcher == Launcher::open_mpi) {
    require(key->size() >= 16, transport_key_variable, " has ", key->size(), " characters; a key of Open MPI has 33");
    out.token = derive_token(*key);
    out.token_source = "Open MPI's transport key";
  }
  require(out.one_host || out.token, out.ranks, " ranks on several hosts (", out.rank_variables,
          ") have no token to authenticate each other: set KAREZ_TOKEN to the same 64 hexadecimal digits on all of "
          "them (openssl rand -hex 32)");
}

}  // namespace

std::string_view name_of(Launcher launcher) {
  for (const Row& row : rows)
    if (row.launcher == launcher) return row.name;
  return "none";
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

JobLaunch launch_from(const Environment& environment) {
  const Reader reader{environment};
  JobLaunch out;
  for (const Row& row : rows) {
    if (out.launcher != Launcher::none) {
      if (reader.has(row.variable)) out.ignored.emplace_back(row.variable);
    } else if (row.started(reader)) {
      out.launcher = row.launcher;
      row.read(reader, out);
    }
  }
  if (auto devices = reader.number("KAREZ_DEVICES", 1, max_ranks)) out.devices = static_cast<int>(*devices);
  out.crowded = reader.flag("KAREZ_CROWDED");
  out.interface = reader.text("KAREZ_INTERFACE");
  if (out.ranks > 1) read_token(reader, out);
  else set_single_host(out);
  return out;
}

Address store_address(const JobLaunch& launch, int world) {
  Address out = launch.store;
  if (launch.uses_pmix) return out;
  if (out.is_name()) {
    out.host += cat("-", world);
    return out;
  }
  out.port += world % ports_per_job;
  require(out.port < 65536, "world ", world, " of this process needs port ", out.port, " of ", out.host,
          "; set KAREZ_PORT to a lower one");
  return out;
}

int free_ports(int first, int last) {
  std::random_device random;
  for (int tries = 0; tries < 100; ++tries) {
    const int port = first + static_cast<int>(random() % (last - first));
    try {
      for (int candidate = port; candidate < port + ports_per_job; ++candidate) {
        Address address{"0.0.0.0", candidate};
        listen_at(address, 1);
      }
      return port;
    } catch (const Error&) {}
  }
  fail(ErrorKind::device, "no ", ports_per_job, " consecutive ports from ", first, " to ", last,
       " are free on this host (", this_process(), ")");
}

std::string startup_line(const JobLaunch& launch, int devices, std::string_view links) {
  std::string out = cat("karez: ", launch.ranks, launch.ranks == 1 ? " rank x " : " ranks x ", devices,
                        devices == 1 ? " device" : " devices");
  if (launch.launcher != Launcher::none) out += cat(", from ", name_of(launch.launcher));
  if (launch.ranks > 1) out += cat(", links ", links);
  if (!launch.ignored.empty()) out += cat("; ignored: ", join(launch.ignored, ", "));
  return out;
}

}  // namespace karez::comm

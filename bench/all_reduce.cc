// How fast are collectives between processes of one host? bench/all_reduce.py compares this program with Open MPI and
// Gloo.
//
//   bench_all_reduce [--carrier tcp|shm] [--ranks N] [--kind KIND] [--algorithm ring|direct|flat|recursive|chosen]
//   [--parked] [--chunk BYTES]
//
// Ranks are processes, and every pair of ranks is connected. Each sample begins with a barrier in shared memory and is
// the time of the slowest rank. A line of JSON contains the median for each kind and size. Ranks poll their links, as
// Open MPI does; with --parked they sleep until a link wakes them, as a worker of the engine does.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "bench/collectives.h"
#include "karez/comm/collective/collective.h"
#include "karez/comm/collective/collective_counts.h"
#include "karez/comm/collective/collective_run.h"
#include "karez/comm/transport/connection.h"
#include "karez/comm/transport/shared_wire.h"
#include "karez/comm/transport/socket_wire.h"
#include "karez/comm/transport/test_socket_pairs.h"
#include "karez/runtime/actor/reduce.h"
#include "karez/sbp/axis_transition.h"

namespace karez::bench {
namespace {
using namespace comm;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string carrier = "shm", algorithm = "chosen", kind = "all";
  int ranks = 2;
  bool sleeping = false;
  std::int64_t chunk = 1 << 18;
};

// Memory shared by all ranks: a barrier, and the seconds of each sample by rank.
struct SharedMemory {
  std::atomic<int> arrived{0}, round{0};
  double seconds[64][512];

  void barrier(int ranks) {
    int current_round = round.load();
    if (arrived.fetch_add(1) + 1 == ranks) {
      arrived = 0;
      round = current_round + 1;
      return;
    }
    for (int polls = 0; round.load() == current_round; ++polls)
      if (polls > 2000) sched_yield();
  }
};

class Rank {
 public:
  Rank(const Options& options, int rank, std::vector<Descriptor> sockets)
      : options_(options),
        rank_(rank),
        endpoint_(rank, options.ranks, notifier_) {
    for (int peer = 0; peer < options.ranks; ++peer) {
      connections_.emplace_back();
      if (peer == rank) continue;
      connections_.back() = std::make_unique<Connection>(
          reactor_, wire(std::move(sockets[static_cast<std::size_t>(peer)]), peer), cat("rank ", peer));
      endpoint_.connect(peer, connections_.back()->open(1, 8, notifier_));
    }
    endpoint_.set_wake([this] {
      std::lock_guard lock(mutex_);
      notified_ = true;
      changed_.notify_one();
    });
    endpoint_.set_busy_poll(!options.sleeping);
  }
  ~Rank() { endpoint_.set_busy_poll(false); }

  void run(CollectiveRun& collective, const std::byte* in, std::byte* out, std::byte* staging) {
    collective.start(in, out, staging);
    while (!collective.advance()) {
      if (!options_.sleeping) {
        endpoint_.poll();
        continue;
      }
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return notified_; });
      notified_ = false;
    }
  }
  Endpoint& endpoint() { return endpoint_; }

 private:
  std::unique_ptr<Wire> wire(Descriptor socket, int peer) {
    if (options_.carrier == "tcp") return std::make_unique<SocketWire>(std::move(socket));
    if (rank_ < peer) return SharedWire::create(std::move(socket));
    return SharedWire::attach(std::move(socket), Seconds(5));
  }
  const Options& options_;
  int rank_;
  Reactor reactor_;
  std::vector<std::unique_ptr<Connection>> connections_;
  Notifier notifier_;
  Endpoint endpoint_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;
};

CollectiveSpec make_spec(const Options& options, CollectiveKind kind, int rank, std::int64_t elements) {
  const std::int64_t n = options.ranks, part = elements / n;
  auto view = [](std::int64_t count) { return View{DType::f32, {count}, {1}}; };
  CollectiveSpec spec;
  spec.kind = kind;
  spec.member = rank;
  spec.members = options.ranks;
  spec.chunk = options.chunk;
  spec.reduce = runtime::reduce_function(tensor::Reduce::sum, DType::f32);
  spec.in = view(kind == CollectiveKind::all_gather ? part : elements / (kind == CollectiveKind::all_to_all ? n : 1));
  spec.out = view(kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all ? part : elements);
  for (std::int64_t m = 0; m < n; ++m) {
    switch (kind) {
      case CollectiveKind::reduce_scatter:
        spec.sends.push_back({{m * part}, {part}});
        spec.receives.push_back({{0}, {part}});
        break;
      case CollectiveKind::all_gather:
        spec.sends.push_back({{0}, {part}});
        spec.receives.push_back({{m * part}, {part}});
        break;
      case CollectiveKind::all_to_all:
        spec.sends.push_back({{m * (part / n)}, {part / n}});
        spec.receives.push_back({{m * (part / n)}, {part / n}});
        break;
      default: break;
    }
  }
  if (options.algorithm != "chosen") {
    spec.algorithm = collective_algorithm_from(options.algorithm);
  } else if (kind == CollectiveKind::all_reduce) {  // the choice of the compiler with default costs
    const sbp::CostTable costs;
    const auto bytes = static_cast<double>(elements * 4), range = static_cast<double>(ceil_div(elements, n) * 4);
    using enum sbp::AllReduceAlgorithm;
    switch (sbp::cheapest_all_reduce(options.ranks, bytes, range, costs.link, costs.memory_bytes).algorithm) {
      case direct: spec.algorithm = CollectiveAlgorithm::direct; break;
      case ring: spec.algorithm = CollectiveAlgorithm::ring; break;
      case recursive: spec.algorithm = CollectiveAlgorithm::recursive; break;
      case flat: spec.algorithm = CollectiveAlgorithm::flat; break;
    }
  } else {
    spec.algorithm = sbp::uses_ring(options.ranks) ? CollectiveAlgorithm::ring : CollectiveAlgorithm::direct;
  }
  return spec;
}

// Checks the result of a rank. Element i of rank r's operand is (r + 1) * (i % 7).
void check_result(const CollectiveSpec& spec, const float* out, std::int64_t elements) {
  const std::int64_t n = spec.members, part = elements / n;
  auto value = [](std::int64_t rank, std::int64_t i) { return static_cast<float>((rank + 1) * (i % 7)); };
  for (std::int64_t i = 0; i < spec.out.count(); ++i) {
    float expected = 0;
    switch (spec.kind) {
      case CollectiveKind::all_gather: expected = value(i / part, i % part); break;
      case CollectiveKind::all_to_all:
        expected = value(i / (part / n), spec.member * (part / n) + i % (part / n));
        break;
      case CollectiveKind::reduce_scatter:
        expected = static_cast<float>(n * (n + 1) / 2) * static_cast<float>((spec.member * part + i) % 7);
        break;
      default: expected = static_cast<float>(n * (n + 1) / 2) * static_cast<float>(i % 7); break;
    }
    if (out[i] != expected)
      fail("all_reduce: rank ", spec.member, ", ", name_of(spec.kind), ": element ", i, " is ", out[i], ", expected ",
           expected);
  }
}

void measure(const Options& options, Rank& rank, int rank_number, SharedMemory& shared) {
  for (std::string_view name : collective_kinds) {
    if (options.kind != "all" && options.kind != name) continue;
    for (std::int64_t bytes : collective_sizes(options.ranks)) {
      const std::int64_t elements = bytes / 4;
      CollectiveSpec spec = make_spec(options, collective_kind_from(name), rank_number, elements);
      std::vector<float> in(static_cast<std::size_t>(spec.in.count())), out(static_cast<std::size_t>(spec.out.count()));
      for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<float>((rank_number + 1) * static_cast<int>(i % 7));
      const std::size_t staging = static_cast<std::size_t>(staging_bytes(spec));
      std::unique_ptr<std::byte[], void (*)(std::byte*)> memory(
          static_cast<std::byte*>(std::aligned_alloc(64, std::max<std::size_t>(staging, 64))),
          [](std::byte* p) { std::free(p); });
      std::memset(memory.get(), 0, std::max<std::size_t>(staging, 64));
      CollectiveRun run(spec, rank.endpoint());
      const int samples = sample_count(bytes), warm_up = warm_up_count(samples);
      for (int s = -warm_up; s < samples; ++s) {
        shared.barrier(options.ranks);
        auto begin = Clock::now();
        rank.run(run, reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()),
                 memory.get());
        if (s >= 0) shared.seconds[rank_number][s] = std::chrono::duration<double>(Clock::now() - begin).count();
      }
      check_result(spec, out.data(), elements);
      shared.barrier(options.ranks);
      if (rank_number == 0) {
        std::vector<double> slowest_times;
        for (int s = 0; s < samples; ++s) {
          double slowest_seconds = 0;
          for (int r = 0; r < options.ranks; ++r) slowest_seconds = std::max(slowest_seconds, shared.seconds[r][s]);
          slowest_times.push_back(slowest_seconds * 1e6);
        }
        print_row(name, bytes, std::move(slowest_times));
      }
      shared.barrier(options.ranks);
    }
  }
}

int run(const Options& options) {
  void* memory = mmap(nullptr, sizeof(SharedMemory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(ErrorKind::device, memory != MAP_FAILED, "cannot create shared memory");
  auto* shared = new (memory) SharedMemory();
  const auto n = static_cast<std::size_t>(options.ranks);
  std::vector<std::vector<Descriptor>> sockets(n);
  for (auto& row : sockets) row.resize(n);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = a + 1; b < n; ++b) {
      auto pair = options.carrier == "tcp" ? tcp_pair() : socket_pair();
      sockets[a][b] = std::move(pair[0]);
      sockets[b][a] = std::move(pair[1]);
    }
  auto run_rank = [&](int rank_number) {
    std::vector<Descriptor> own_sockets = std::move(sockets[static_cast<std::size_t>(rank_number)]);
    sockets.clear();
    Rank rank(options, rank_number, std::move(own_sockets));
    measure(options, rank, rank_number, *shared);
    shared->barrier(options.ranks);  // no rank ends while another rank still reads
  };
  std::vector<int> children;
  for (int r = 1; r < options.ranks; ++r) {
    std::fflush(nullptr);
    int pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // ranks spin, so they must not outlive this process
      try {
        run_rank(r);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", r, error.what());
        _exit(1);
      }
      _exit(0);
    }
    children.push_back(pid);
  }
  run_rank(0);
  int failures = 0;
  for (int pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    failures |= status;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace karez::bench

int main(int argc, char** argv) {
  using namespace karez;
  using base::fail, base::require;
  bench::Options options;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      const auto value = [&] {
        if (i + 1 == argc) fail(word, " needs a value");
        return std::string(argv[++i]);
      };
      if (word == "--carrier") options.carrier = value();
      else if (word == "--algorithm") options.algorithm = value();
      else if (word == "--kind") options.kind = std::string(comm::name_of(plan::collective_kind_from(value())));
      else if (word == "--ranks") options.ranks = std::stoi(value());
      else if (word == "--chunk") options.chunk = std::stoll(value());
      else if (word == "--parked") options.sleeping = true;
      else fail("unknown option ", word, "; see the beginning of bench/all_reduce.cc");
    }
    require(options.carrier == "tcp" || options.carrier == "shm", "--carrier must be tcp or shm, got ",
            options.carrier);
    require(options.ranks >= 2 && options.ranks <= 64 && options.chunk > 0,
            "--ranks must be 2 to 64, and --chunk at least 1");
    return bench::run(options);
  } catch (const base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return base::exit_code(error.kind);
  } catch (const std::logic_error&) {
    std::fprintf(stderr, "--ranks and --chunk need a number\n");
    return 64;
  }
}

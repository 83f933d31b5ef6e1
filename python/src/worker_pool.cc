// Divides elements among worker processes, starts them, and replaces those that end.
#include "python/src/worker_pool.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

#include "karez/karez.h"

namespace karez::python {
namespace {

using data::Element;

constexpr double fast_ns = 1e6;  // a function that takes less time than this gets its elements ahead
constexpr int most_restarts = 3;

// The bytes of a process in physical memory that it does not share.
std::int64_t private_memory(int process) {
  std::int64_t all = 0, resident = 0, shared = 0;
  std::ifstream(cat("/proc/", process, "/statm")) >> all >> resident >> shared;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

}  // namespace

WorkerPool::WorkerPool(data::Object setup, Options options)
    : setup_(std::move(setup)),
      options_(std::move(options)),
      owner_(getpid()) {}

int WorkerPool::Worker::load() const { return static_cast<int>(std::count(std::begin(busy), std::end(busy), true)); }

std::string WorkerPool::place(const Element& element) const {
  return cat("record ", element.index, " of epoch ", element.epoch, " in ", options_.stage);
}

std::string WorkerPool::text() {
  std::lock_guard lock(mutex_);
  std::string pids;
  for (const Worker& worker : workers_) {
    const int pid = worker.process->pid();
    pids += cat(pids.empty() ? ": " : ", ", pid, " (", private_memory(pid) >> 20, " MiB)");
  }
  return cat("in ", options_.processes, options_.processes == 1 ? " process" : " processes", pids);
}

Element WorkerPool::map(const Element& element, const std::uint64_t (&random_key)[2]) {
  Element out;
  RequestHeader header{.flags = random_flag, .key = {random_key[0], random_key[1]}};
  call(header, element, [&](const ReplyHeader& reply, std::string_view body, std::span<const std::byte> memory) {
    out = read_reply(reply, body, memory);
  });
  return out;
}

Element WorkerPool::map(const Element& element) {
  Element out;
  call({}, element, [&](const ReplyHeader& reply, std::string_view body, std::span<const std::byte> memory) {
    out = read_reply(reply, body, memory);
  });
  return out;
}

bool WorkerPool::keeps(const Element& element) {
  bool keeps = false;
  call({.flags = filter_flag}, element,
       [&](const ReplyHeader&, std::string_view body, std::span<const std::byte>) { keeps = body.at(0) != 0; });
  return keeps;
}

void WorkerPool::check_reply(const ReplyHeader& header, std::string_view body, const Element& element,
                             const WorkerProcess& process) const {
  if (header.status != 'e' && header.status != 'l') return;
  with_gil([&] {
    nb::module_::import_("karez.data.workers")
        .attr("raise_error")(nb::bytes(body.data(), body.size()),
                             cat(place(element), ", worker process ", process.pid()), header.status == 'l');
  });
}

void WorkerPool::call(RequestHeader header, const Element& element, const WorkerProcess::ReadReply& read) {
  require(getpid() == owner_,
          "this process was forked from a process with worker processes, which it cannot use; make the data set in the "
          "forked process, or use the start method 'spawn'");
  for (int ends = 0;;) {
    const Lane lane = acquire();
    bool replied = false, ended = false;
    try {
      ended = !lane.process->exchange(
          lane.channel, header, element,
          [&](const ReplyHeader& reply, std::string_view body, std::span<const std::byte> memory) {
            replied = true;
            {
              std::lock_guard lock(mutex_);
              const double ns = static_cast<double>(reply.nanoseconds);
              data::remote_time().ns += ns;
              data::remote_time().cpu_ns += ns * 1e-6 * reply.cpu;
              mean_ns_ = mean_ns_ >= 1e9 ? ns : mean_ns_ + (ns - mean_ns_) / 16;
            }
            check_reply(reply, body, element, *lane.process);
            read(reply, body, memory);
          });
    } catch (...) {
      if (replied) release(lane);
      else remove(lane.process.get());  // its reply may still come
      throw;
    }
    if (!ended) return release(lane);
    remove(lane.process.get());
    const std::string how = lane.process->end_text();
    const WorkerProcess::LastWork work = lane.process->last_work(lane.channel);
    if (work == WorkerProcess::LastWork::other_channel) continue;  // the error belongs to that element
    ends += work == WorkerProcess::LastWork::this_channel;
    if (options_.restart && ends <= most_restarts) continue;
    base::fail(ErrorKind::data, place(element), ": worker process ", lane.process->pid(), " ", how,
               work == WorkerProcess::LastWork::none ? " before it computed this record" : "",
               options_.restart ? cat("; it is process number ", ends, " that has ended in this record")
                                : std::string("; on_worker_exit=\"restart\" computes the record again in another "
                                              "process. The system kills processes if memory runs out"));
  }
}

WorkerPool::Lane WorkerPool::acquire() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Worker* best = nullptr;
    const int most = mean_ns_ < fast_ns ? WorkerProcess::channels : 1;
    for (Worker& worker : workers_)
      if (worker.load() < (best == nullptr ? most : best->load())) best = &worker;
    if ((best == nullptr || best->load() > 0) && static_cast<int>(workers_.size()) + starting_ < options_.processes) {
      ++starting_;
      lock.unlock();
      std::shared_ptr<WorkerProcess> process;
      try {
        process = start();
      } catch (...) {
        lock.lock();
        --starting_;
        changed_.notify_all();
        throw;
      }
      lock.lock();
      --starting_;
      workers_.push_back({process});
      best = &workers_.back();
    }
    if (best != nullptr) {
      const int channel =
          static_cast<int>(std::find(std::begin(best->busy), std::end(best->busy), false) - std::begin(best->busy));
      best->busy[channel] = true;
      return {best->process, channel};
    }
    if (changed_.wait_for(lock, std::chrono::seconds(1)) == std::cv_status::no_timeout) continue;
    lock.unlock();
    base::check_interrupt();
    lock.lock();
  }
}

std::shared_ptr<WorkerProcess> WorkerPool::start() {
  std::lock_guard lock(command_mutex_);
  if (!command_) {
    with_gil([&] {
      const nb::object made = nb::borrow(handle_of(setup_))();
      const auto setup = nb::cast<nb::bytes>(made[2]);
      setup_file_.assign(setup.c_str(), setup.size());
      using Texts = std::vector<std::string>;
      command_ = WorkerCommand{nb::cast<Texts>(made[0]), nb::cast<Texts>(made[1]), {}};
    });
  }
  return std::make_shared<WorkerProcess>(*command_, setup_file_);
}

void WorkerPool::release(const Lane& lane) {
  std::lock_guard lock(mutex_);
  for (Worker& worker : workers_)
    if (worker.process == lane.process) worker.busy[lane.channel] = false;
  changed_.notify_one();
}

void WorkerPool::remove(const WorkerProcess* process) {
  std::lock_guard lock(mutex_);
  workers_.remove_if([&](const Worker& worker) { return worker.process.get() == process; });
  changed_.notify_all();
}

}  // namespace karez::python

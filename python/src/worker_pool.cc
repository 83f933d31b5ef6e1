// Divides elements among worker processes, starts them, and replaces those that end.
#include "python/src/worker_pool.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

#include "karez/karez.h"

namespace karez::python {
namespace {

using data::Element;
using data::GroupItem;

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

Element WorkerPool::map(const Element& element) {
  GroupItem item{element};
  compute_alone(item, 0);
  return std::move(item.out);
}

Element WorkerPool::map(const Element& element, const data::RandomKey& key) {
  GroupItem item{element, key};
  compute_alone(item, random_flag);
  return std::move(item.out);
}

bool WorkerPool::keeps(const Element& element) {
  GroupItem item{element};
  compute_alone(item, filter_flag);
  return item.keep;
}

void WorkerPool::compute(std::span<GroupItem> items, std::uint8_t flags) {
  const auto alone = [&](GroupItem& item, const Outcome* last = nullptr) {
    try {
      compute_alone(item, flags, last);
    } catch (...) { item.error = std::current_exception(); }
  };
  Outcome outcome;
  if (items.size() > 1) {
    try {
      outcome = exchange(items, flags);
    } catch (const base::Error&) {  // such as an element that is too large: of one of them
    }
  }
  if (outcome.replied) {
    for (std::size_t i : outcome.alone) alone(items[i]);
    return;
  }
  // Those before the one that was being computed are computed again, as their results are lost.
  for (std::size_t i = 0; i < items.size(); ++i)
    alone(items[i], outcome.process && i == outcome.item ? &outcome : nullptr);
}

void WorkerPool::compute_alone(GroupItem& item, std::uint8_t flags, const Outcome* last) {
  int ends = 0;
  const auto note_end = [&](const Outcome& outcome) {
    if (outcome.work == WorkerProcess::LastWork::other_channel) return;  // the error belongs to that element
    ends += outcome.work == WorkerProcess::LastWork::this_channel;
    if (!options_.restart || ends > most_restarts) fail_end(item.in, outcome, ends);
  };
  if (last != nullptr) note_end(*last);
  for (;;) {
    const Outcome outcome = exchange({&item, 1}, flags);
    if (outcome.replied) break;
    note_end(outcome);
  }
  if (item.error) std::rethrow_exception(std::exchange(item.error, nullptr));
}

void WorkerPool::fail_end(const Element& element, const Outcome& last, int ends) const {
  base::fail(ErrorKind::data, place(element), ": worker process ", last.process->pid(), " ", last.process->end_text(),
             last.work == WorkerProcess::LastWork::none ? " before it computed this record" : "",
             options_.restart ? cat("; it is process number ", ends, " that has ended in this record")
                              : std::string("; on_worker_exit=\"restart\" computes the record again in another "
                                            "process. The system kills processes if memory runs out"));
}

std::vector<std::size_t> WorkerPool::read(std::span<GroupItem> items, std::uint8_t flags, std::string_view body,
                                          std::span<const std::byte> memory, const WorkerProcess& process) const {
  std::vector<std::size_t> alone;
  for (std::size_t i = 0; i < items.size(); ++i) {
    GroupItem& item = items[i];
    ReplyEntry entry;
    require(ErrorKind::data, body.size() >= sizeof entry, "a worker process sent a message that is too short");
    std::memcpy(&entry, body.data(), sizeof entry);
    body.remove_prefix(sizeof entry);
    require(ErrorKind::data, body.size() >= entry.size, "a worker process sent a message that is too short");
    const std::string_view result = body.substr(0, entry.size);
    body.remove_prefix(entry.size);
    try {
      if (entry.status == 'e' || entry.status == 'l')
        with_gil([&] {
          nb::module_::import_("karez.data.workers")
              .attr("raise_error")(nb::bytes(result.data(), result.size()),
                                   cat(place(item.in), ", worker process ", process.pid()), entry.status == 'l');
        });
      else if (entry.status == 'r') alone.push_back(i);
      else if ((flags & filter_flag) != 0) item.keep = result.at(0) != 0;
      else item.out = read_reply(entry.status, result, memory);
    } catch (...) { item.error = std::current_exception(); }
  }
  return alone;
}

WorkerPool::Outcome WorkerPool::exchange(std::span<GroupItem> items, std::uint8_t flags) {
  require(getpid() == owner_,
          "this process was forked from a process with worker processes, which it cannot use; make the data set in the "
          "forked process, or use the start method 'spawn'");
  const Lane lane = acquire();
  bool replied = false, ended = false;
  Outcome outcome;
  try {
    ended = !lane.process->exchange(
        lane.channel, items, flags,
        [&](const ReplyHeader& reply, std::string_view body, std::span<const std::byte> memory) {
          replied = true;
          {
            std::lock_guard lock(mutex_);
            const double ns = static_cast<double>(reply.nanoseconds);
            data::remote_time().ns += ns;
            data::remote_time().cpu_ns += ns * 1e-6 * reply.cpu;
            data::remote_time().process = lane.process->pid();
            const double one = ns / static_cast<double>(items.size());
            mean_ns_ = mean_ns_ >= 1e9 ? one : mean_ns_ + (one - mean_ns_) / 16;
          }
          outcome.alone = read(items, flags, body, memory, *lane.process);
        });
  } catch (...) {
    if (replied) release(lane);
    else remove(lane.process.get());  // its reply may still come
    throw;
  }
  outcome.replied = !ended;
  if (!ended) return release(lane), outcome;
  remove(lane.process.get());
  lane.process->end_text();  // waits for its end
  outcome.work = lane.process->last_work(lane.channel);
  if (outcome.work == WorkerProcess::LastWork::this_channel) outcome.item = lane.process->last_item();
  outcome.process = lane.process;
  return outcome;
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

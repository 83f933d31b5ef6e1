// The worker processes of one stage, which call its Python function.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/api/data_iterator.h"
#include "python/src/worker_process.h"

namespace karez::python {

// Processes start when elements need them, and end with the pool.
class WorkerPool {
 public:
  struct Options {
    int processes = 1;     // at most
    bool restart = false;  // if a process ends: compute its element again, in another process
    std::string stage;     // for people: "map(decode)"
  };
  // `setup()` returns a tuple of the arguments and the environment of a process, and the content of its setup file.
  WorkerPool(data::Object setup, Options options);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Call the function for an element, from any thread, without the interpreter's lock.
  data::Element map(const data::Element& element);
  data::Element map(const data::Element& element, const data::RandomKey& key);
  bool keeps(const data::Element& element);
  // The same for several elements, which one process computes. `flags`: those of a request.
  void compute(std::span<data::GroupItem> items, std::uint8_t flags);

  // One process gets one request after the other, so that it computes them in order.
  int lanes() const { return options_.processes == 1 ? 1 : WorkerProcess::channels * options_.processes; }
  std::string text();  // "in 2 processes: 4711, 4712"

 private:
  struct Worker {
    std::shared_ptr<WorkerProcess> process;
    bool busy[WorkerProcess::channels] = {};
    int load() const;
  };
  struct Lane {
    std::shared_ptr<WorkerProcess> process;
    int channel = 0;
  };
  // What has happened to a request. If its process has ended: what it was doing, in which of the elements.
  struct Outcome {
    bool replied = false;
    std::size_t item = 0;
    WorkerProcess::LastWork work = WorkerProcess::LastWork::none;
    std::shared_ptr<WorkerProcess> process = nullptr;
    std::vector<std::size_t> alone = {};  // if it has replied: the elements that have to be requested alone
  };
  Outcome exchange(std::span<data::GroupItem> items, std::uint8_t flags);
  // Returns the elements that have to be requested alone.
  std::vector<std::size_t> read(std::span<data::GroupItem> items, std::uint8_t flags, std::string_view body,
                                std::span<const std::byte> memory, const WorkerProcess& process) const;
  // `last`: of an earlier request whose process has ended in this element.
  void compute_alone(data::GroupItem& item, std::uint8_t flags, const Outcome* last = nullptr);
  Lane acquire();
  std::shared_ptr<WorkerProcess> start();
  void release(const Lane& lane);
  void remove(const WorkerProcess* process);
  [[noreturn]] void fail_end(const data::Element& element, const Outcome& last, int ends) const;
  std::string place(const data::Element& element) const;

  const data::Object setup_;
  const Options options_;
  const pid_t owner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Worker> workers_;
  int starting_ = 0;
  double mean_ns_ = 1e9;  // of the function's recent calls
  std::mutex command_mutex_;
  std::optional<WorkerCommand> command_;
  std::string setup_file_;
};

}  // namespace karez::python

// The worker processes of one stage, which call its Python function.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

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
  data::Element map(const data::Element& element, const std::uint64_t (&random_key)[2]);
  bool keeps(const data::Element& element);

  // One process gets one element after the other, so that it computes them in order.
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
  void call(RequestHeader header, const data::Element& element, const WorkerProcess::ReadReply& read);
  Lane acquire();
  std::shared_ptr<WorkerProcess> start();
  void release(const Lane& lane);
  void remove(const WorkerProcess* process);
  void check_reply(const ReplyHeader& header, std::string_view body, const data::Element& element,
                   const WorkerProcess& process) const;
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

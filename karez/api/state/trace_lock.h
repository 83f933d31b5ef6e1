// TraceLock: the lock under which one thread at a time runs a function's body.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace karez {

// A function and the thread that is tracing it. Guarded by the queue's mutex.
struct TraceOwner {
  std::string function;
  std::thread::id thread;
};

// The threads that trace functions of one world, or wait for a trace.
struct TraceQueue {
  std::mutex mutex;  // also guards every TraceOwner of the world; held only briefly
  std::condition_variable trace_done;
  std::map<std::thread::id, const TraceOwner*> waiting_for;  // the function for which a thread waits, by thread
};

// Lets this thread run a function's body; other threads wait. A function that calls itself is an error, and so is a
// wait for a thread that waits for this one.
class TraceLock {
 public:
  TraceLock(TraceQueue& queue, TraceOwner& traced);
  ~TraceLock();
  TraceLock(const TraceLock&) = delete;
  TraceLock& operator=(const TraceLock&) = delete;

 private:
  TraceQueue& queue_;
  TraceOwner& traced_;
};

}  // namespace karez

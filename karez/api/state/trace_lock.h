// TraceLock: a lock that a thread holds while it runs the body of a function.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace karez {

// A function and the thread that is tracing it, if any. Guarded by the queue's mutex.
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

// Lets this thread run a function's body, while other threads that need the same function wait. Throws if a function
// calls itself, or if this thread would wait for a thread that directly or indirectly waits for it.
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

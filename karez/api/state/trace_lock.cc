// Implements TraceLock: waits for the trace of another thread, and detects waits that would never end.
#include "karez/api/state/trace_lock.h"

#include "karez/api/namespace.h"
#include "karez/base/error.h"

namespace karez {

TraceLock::TraceLock(TraceQueue& queue, TraceOwner& traced) : queue_(queue), traced_(traced) {
  const std::thread::id this_thread = std::this_thread::get_id();
  std::unique_lock lock(queue.mutex);
  while (traced.thread != std::thread::id()) {
    // Follows the chain of waits: from the tracing thread to the function for which it waits, to the thread that traces
    // that function, and so on. If the chain leads back to this thread, the wait would never end.
    std::string path;
    for (std::thread::id thread = traced.thread; thread != std::thread::id();) {
      require(thread != this_thread, "function '", traced.function, "' calls itself", path,
              " while it is traced; compiled functions cannot be recursive");
      auto next = queue.waiting_for.find(thread);
      if (next == queue.waiting_for.end()) break;
      path += cat(path.empty() ? " by way of '" : " and '", next->second->function, "'");
      thread = next->second->thread;
    }
    queue.waiting_for[this_thread] = &traced;
    queue.trace_done.wait(lock);
    queue.waiting_for.erase(this_thread);
  }
  traced.thread = this_thread;
}

TraceLock::~TraceLock() {
  std::lock_guard lock(queue_.mutex);
  traced_.thread = {};
  queue_.trace_done.notify_all();
}

}  // namespace karez

// Wakes data threads, and lets threads poll before they sleep.
#include <algorithm>
#include <system_error>

#include "karez/runtime/stages/data_threads.h"
#include "karez/runtime/stages/served_stream.h"

namespace karez::runtime {

void DataThreads::wake_threads() {
  int needed = -wakes_;
  bool has_short = false;
  for (const auto& stream : streams_) {
    if (stream->has_reserve()) continue;
    for (plan::StageId id : stream->machine->graph().stages.ids()) {
      if (!stream->machine->ready(id)) continue;
      if (stream->is_short(id)) has_short = true;
      else ++needed;
    }
  }
  needed += has_short;  // one thread executes all short acts
  for (int i = 0; i < needed; ++i) {
    if (idle_ > 0) {
      --idle_, ++wakes_, ++unnotified_;
    } else if (running_ < std::min(limit_, lanes_) && !stop_) {
      try {
        threads_.emplace_back([this, number = started_threads_ + 1] { run(number); });
        ++started_threads_;
      } catch (const std::system_error&) {
        if (running_ == 0) throw;  // otherwise the existing threads execute the act
        return;
      }
      ++running_;
    }
  }
}

void DataThreads::notify() {
  for (int count = unnotified_.exchange(0); count > 0; --count) work_.notify_one();
}

template <class Done> bool DataThreads::spin(SpinPolicy& policy, Lock& lock, Done&& done) {
  if (!has_cores_ || idle_clock_->has_launch() || !policy.next()) return false;
  // The other thread may sleep, too. It then has to be woken, possibly on an idle core, before it makes an element.
  const auto limit = static_cast<std::int64_t>(5 * wake_ns_ / scale_.ns_per_tick());
  lock.unlock();
  const bool succeeded = spin_until(limit, [&] { return done() || idle_clock_->has_launch(); });
  lock_polling(lock);
  policy.add(succeeded);
  return succeeded;
}

bool DataThreads::spin(ServedStream& stream, Lock& lock) {
  if (!stream.all_short()) return false;
  const std::uint32_t before = stream.changes.load(std::memory_order_relaxed);
  return spin(stream.spin, lock, [&] { return stream.changes.load(std::memory_order_acquire) != before; });
}

void DataThreads::spin(Lock& lock) {
  if (spinning_ || wakes_ > 0 || streams_.empty()) return;
  if (!std::all_of(streams_.begin(), streams_.end(), [](const auto& stream) { return stream->all_short(); })) return;
  spinning_ = true;
  spin(spin_, lock, [&] { return wakes_ > 0 || stop_; });
  spinning_ = false;
}

}  // namespace karez::runtime

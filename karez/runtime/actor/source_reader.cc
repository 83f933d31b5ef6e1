// Reads sources, on a worker or on the thread of the source reader.
#include "karez/runtime/actor/source_reader.h"

#include <chrono>

#include "karez/runtime/actor/host_copy.h"
#include "karez/runtime/session_thread.h"

namespace karez::runtime {

namespace {

// Lets readers use the bytes at `source_address` without a copy if they have the same offset in a cache line as the
// slot, since kernels may rely on that. Returns false if the bytes must be copied to the slot.
bool borrow(const ActorState& actor, const BoundOperand& bound, const std::byte* source_address) {
  if (bound.slot_addresses == nullptr) return false;
  constexpr std::uintptr_t line = 64;
  const bool fits =
      source_address != nullptr &&
      (reinterpret_cast<std::uintptr_t>(source_address) ^ reinterpret_cast<std::uintptr_t>(bound.address)) % line == 0;
  bound.slot_addresses[actor.ports.output_slot(bound.port)] =
      fits ? const_cast<std::byte*>(source_address) : bound.address;  // no actor writes to an input's register
  return fits;
}

bool same_strides(const View& a, const View& b) {
  for (std::size_t d = 0; d < a.shape.size(); ++d)
    if (a.shape[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

}  // namespace

double read_input(WorkerPlan& worker_plan, ActorState& actor) {
  const LaunchRecord& record = *worker_plan.loaded->record(actor.launch);
  const auto binding = static_cast<std::size_t>(actor.binding);
  if (!record.arrays.empty() && record.arrays[binding] != nullptr) {
    const DeviceValue& value = *record.arrays[binding];
    for (const BoundOperand& bound : actor.bound) {
      const std::byte* source_address = value.memory[bound.shard].data();
      const View& source_view = value.layout->shards[bound.shard].view;
      if (!borrow(actor, bound, same_strides(source_view, *bound.view) ? source_address : nullptr))
        copy_tensor(bound.address, *bound.view, source_address, source_view);
    }
    return 0;
  }
  const Feed& feed = record.feeds[binding];
  const std::int64_t act = actor.act_of_launch(), slices = static_cast<std::int64_t>(actor.bound[0].begin.size());
  const std::int64_t position = feed.position + act / slices;
  const auto slice = static_cast<std::size_t>(act % slices);
  const auto begin_time = std::chrono::steady_clock::now();
  for (const BoundOperand& bound : actor.bound)
    if (!borrow(actor, bound, feed.source->find(position, bound.begin[slice], *bound.view)))
      feed.source->read(position, bound.begin[slice], {bound.address, bound.view});
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_time).count();
}

SourceReader::~SourceReader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  more_.notify_one();
  thread_.join();
}

void SourceReader::read(WorkerPlan& worker_plan, ActorState& actor, Mailbox& box) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back({&worker_plan, &actor, &box});
  }
  more_.notify_one();
}

void SourceReader::run() {
  note_session_thread();
  for (std::unique_lock lock(mutex_);;) {
    more_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    const Job job = jobs_.front();
    jobs_.erase(jobs_.begin());
    lock.unlock();
    ActorState& actor = *job.actor;
    try {
      const double seconds = read_input(*job.worker_plan, actor);
      nanoseconds_.add(static_cast<std::int64_t>(seconds * 1e9));
      actor.reads_slowly = seconds > job.worker_plan->loaded->slow_read;
    } catch (...) { actor.async_error = std::current_exception(); }
    job.box->post(&actor.completion);
    lock.lock();
  }
}

}  // namespace karez::runtime

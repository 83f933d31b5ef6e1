// The reader's thread.
#include "karez/runtime/reader.h"

#include <chrono>

#include "karez/runtime/exit.h"
#include "karez/runtime/host_copy.h"

namespace karez::runtime {

namespace {

// Bytes that lie where the source has them are read there, if kernels may count on them lying as the slot does.
bool lends(const ActorState& actor, const BoundOperand& bound, const std::byte* there) {
  if (bound.lent == nullptr) return false;
  constexpr std::uintptr_t line = 64;
  const bool fits =
      there != nullptr &&
      (reinterpret_cast<std::uintptr_t>(there) ^ reinterpret_cast<std::uintptr_t>(bound.address)) % line == 0;
  bound.lent[actor.ports.output_slot(bound.port)] =
      fits ? const_cast<std::byte*>(there) : bound.address;  // nobody writes what an input gives
  return fits;
}

bool same_strides(const View& a, const View& b) {
  for (std::size_t d = 0; d < a.shape.size(); ++d)
    if (a.shape[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

}  // namespace

double read_input(Part& part, ActorState& actor) {
  const LaunchRecord& record = *part.loaded->record(actor.launch);
  const auto binding = static_cast<std::size_t>(actor.binding);
  if (!record.arrays.empty() && record.arrays[binding] != nullptr) {
    const Held& held = *record.arrays[binding];
    for (const BoundOperand& bound : actor.bound) {
      const std::byte* there = held.memory[bound.part].data();
      const View& lies = held.spread->parts[bound.part].view;
      if (!lends(actor, bound, same_strides(lies, *bound.view) ? there : nullptr))
        copy_tensor(bound.address, *bound.view, there, lies);
    }
    return 0;
  }
  const Feed& feed = record.feeds[binding];
  const std::int64_t act = actor.act_of_launch(), lots = static_cast<std::int64_t>(actor.bound[0].begin.size());
  const std::int64_t position = feed.position + act / lots;
  const auto lot = static_cast<std::size_t>(act % lots);
  const auto began = std::chrono::steady_clock::now();
  for (const BoundOperand& bound : actor.bound)
    if (!lends(actor, bound, feed.source->find(position, bound.begin[lot], *bound.view)))
      feed.source->read(position, bound.begin[lot], {bound.address, bound.view});
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

Reader::~Reader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  more_.notify_one();
  thread_.join();
}

void Reader::read(Part& part, ActorState& actor, Mailbox& box) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back({&part, &actor, &box});
  }
  more_.notify_one();
}

void Reader::run() {
  note_session_thread();
  for (std::unique_lock lock(mutex_);;) {
    more_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    const Job job = jobs_.front();
    jobs_.erase(jobs_.begin());
    lock.unlock();
    ActorState& actor = *job.actor;
    try {
      const double seconds = read_input(*job.part, actor);
      nanoseconds_.add(static_cast<std::int64_t>(seconds * 1e9));
      actor.reads_slowly = seconds > job.part->loaded->slow_read;
    } catch (...) { actor.later_error = std::current_exception(); }
    job.box->post(&actor.note);
    lock.lock();
  }
}

}  // namespace karez::runtime

// What a session tells while it runs: who waits for whom, how far it has come.
#include <chrono>

#include "base/log.h"
#include "comm/peers.h"
#include "runtime/agreement.h"
#include "runtime/loaded.h"
#include "runtime/session.h"
#include "runtime/worker.h"

namespace karez::runtime {

// A question to all workers. With the lock of asking.
std::shared_ptr<Inquiry> Session::ask_workers() {
  auto inquiry = std::make_shared<Inquiry>();
  inquiry->answers.resize(workers_.size());
  inquiry->states.resize(workers_.size());
  inquiry->mails.resize(workers_.size());
  inquiry->missing = workers_.size();
  std::erase_if(inquiries_, [](const auto& old) {
    std::lock_guard lock(old->mutex);
    return old->missing == 0;
  });
  inquiries_.push_back(inquiry);
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    inquiry->mails[w].what = Mail::What::inquiry;
    inquiry->mails[w].payload = inquiry.get();
    workers_[w]->box().post(&inquiry->mails[w]);
  }
  return inquiry;
}

std::string Session::wait_graph() {
  std::lock_guard asking(asking_);
  if (workers_.empty()) return "no worker: nothing is loaded\n";
  const auto inquiry = ask_workers();
  std::unique_lock lock(inquiry->mutex);
  inquiry->answered.wait_for(lock, std::chrono::milliseconds(500), [&] { return inquiry->missing == 0; });
  std::lock_guard acting_lock(mutex_);  // what a worker is inside of cannot be freed meanwhile
  std::string text;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    text += cat("worker ", w, ":\n", inquiry->answers[w].empty() ? cat("is inside ", workers_[w]->acting(), "\n") : inquiry->answers[w]);
  }
  return text;
}

RankState Session::state(bool waits, double most) {
  RankState out;
  out.moved = ops_.load(std::memory_order_relaxed);
  if (options_.peers != nullptr) out.moved += static_cast<std::uint64_t>(options_.peers->moved());
  {
    std::lock_guard lock(mutex_);
    Counters counters;
    for (const auto& [number, loaded] : loaded_) count(*loaded, counters);
    for (const auto& loaded : leaving_) count(*loaded, counters);
    out.moved += next_ticket_ + static_cast<std::uint64_t>(counters.acts + counters.messages);
    for (const auto& record : launches_)
      if (record->ended && !record->over)
        out.waits.push_back({RankWait::others, cat("launch ", record->ticket, " has ended here, not yet on all ranks")});
  }
  if (awaiting_.load() > 0) out.waits.push_back({RankWait::others, "all ranks are to begin what this one has begun"});
  if (const auto whom = options_.peers == nullptr ? std::nullopt : options_.peers->awaited()) out.waits.push_back({*whom, "its connection"});
  if (waits) add_states(out, most);
  return out;
}

// Collectives come first: they say more than that a launch has not ended. One question at a time is under way, however long a worker takes to answer.
void Session::add_states(RankState& out, double most) {
  std::lock_guard asking(asking_);
  if (workers_.empty()) return;
  auto answered = [&] {
    std::lock_guard lock(asked_->mutex);
    return asked_->missing == 0;
  };
  if (asked_ == nullptr || answered()) asked_ = ask_workers();
  std::unique_lock lock(asked_->mutex);
  asked_->answered.wait_for(lock, std::chrono::duration<double>(most), [&] { return asked_->missing == 0; });
  std::vector<RankWait> waits;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    RankState state = asked_->states[w];
    if (asked_->answers[w].empty()) {
      std::lock_guard acting_lock(mutex_);  // what a worker is inside of cannot be freed meanwhile
      state.inside = workers_[w]->acting_in();
      state.may_move = state.inside.empty();
    }
    if (out.inside.empty()) out.inside = state.inside;
    out.may_move |= state.may_move;
    waits.insert(waits.end(), state.waits.begin(), state.waits.end());
  }
  out.waits.insert(out.waits.begin(), waits.begin(), waits.end());
}

void Session::found(const WatchFinding& finding) {
  if (finding.what == WatchFinding::What::warning) return note(LogLevel::warning, finding.text);
  const ErrorKind kind = finding.what == WatchFinding::What::gone ? ErrorKind::peer : ErrorKind::hang;
  agreement_->fail(Error(kind, finding.text), finding.rank < 0 ? std::nullopt : std::optional(finding.rank));
}

}  // namespace karez::runtime

// Counts the time without heartbeats and without progress, and derives diagnoses.
#include "karez/runtime/hang_detector.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "karez/base/text.h"

namespace karez::runtime {
namespace {

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

}  // namespace

double HangTimeouts::tick() const { return std::min(1.0, peer_timeout / 8); }

HangDetector::HangDetector(int ranks, int own_rank, HangTimeouts limits, std::function<std::string(int)> name)
    : limits_(limits),
      own_rank_(own_rank),
      name_(std::move(name)),
      observations_(static_cast<std::size_t>(ranks)) {
  for (int rank = 0; rank < ranks; ++rank)
    observations_[static_cast<std::size_t>(rank)].watched = own_rank == 0 || rank == 0 || rank == own_rank;
}

void HangDetector::on_heartbeat(int rank, RankState state) {
  Observation& seen = observations_[static_cast<std::size_t>(rank)];
  seen.received = true;
  if (state.progress != seen.state.progress) seen.idle_seconds = 0;
  seen.state = std::move(state);
}

void HangDetector::set_halted(int rank, bool now) { observations_[static_cast<std::size_t>(rank)].halted = now; }

void HangDetector::on_disconnect(int rank) { observations_[static_cast<std::size_t>(rank)].watched = false; }

std::optional<HangDiagnosis> HangDetector::tick(double now, const std::function<bool(int)>& answers) {
  const double passed = last_ ? now - *last_ : 0;
  last_ = now;
  const bool late = passed > 2 * limits_.tick();
  if (late)
    for (Observation& seen : observations_) seen.silent_seconds = seen.idle_seconds = seen.halted_seconds = 0;
  else count(passed);
  for (Observation& seen : observations_) seen.received = false;
  if (late) return std::nullopt;
  if (auto found = find_halted()) return found;
  if (auto found = find_silent(answers)) return found;
  if (own_rank_ != 0) return std::nullopt;  // only rank 0 has the states of all ranks
  if (auto found = find_stuck_call()) return found;
  return find_deadlock();
}

void HangDetector::count(double seconds) {
  for (Observation& seen : observations_) {
    seen.idle_seconds += seconds;
    seen.silent_seconds = seen.received ? 0 : seen.silent_seconds + seconds;
    seen.halted_seconds = seen.halted ? seen.halted_seconds + seconds : 0;
  }
}

bool HangDetector::another_rank_waits(int except) const {
  for (int rank = 0; rank < static_cast<int>(observations_.size()); ++rank) {
    const Observation& seen = observations_[static_cast<std::size_t>(rank)];
    if (rank != except && seen.watched && !seen.halted && !is_silent(rank) && !seen.state.waits.empty()) return true;
  }
  return false;
}

std::optional<HangDiagnosis> HangDetector::find_halted() const {
  for (int rank = 0; rank < static_cast<int>(observations_.size()); ++rank) {
    const Observation& seen = observations_[static_cast<std::size_t>(rank)];
    if (seen.halted_seconds < limits_.halt_timeout || !another_rank_waits(rank)) continue;
    const std::string was =
        seen.state.current_call.empty() ? "" : cat("; at its last heartbeat it was running ", seen.state.current_call);
    return HangDiagnosis{HangDiagnosis::Kind::halted, rank,
                         cat(name_(rank), " has stopped: a signal stopped its process ",
                             seconds_text(seen.halted_seconds), " ago", was, waits_text(rank))};
  }
  return std::nullopt;
}

// If heartbeats of several ranks are overdue, diagnoses the rank whose last heartbeat is oldest.
std::optional<HangDiagnosis> HangDetector::find_silent(const std::function<bool(int)>& answers) const {
  int worst = -1;
  for (int rank = 0; rank < static_cast<int>(observations_.size()); ++rank) {
    const Observation& seen = observations_[static_cast<std::size_t>(rank)];
    if (rank == own_rank_ || !seen.watched || !is_silent(rank)) continue;
    if (worst < 0 || seen.silent_seconds > observations_[static_cast<std::size_t>(worst)].silent_seconds) worst = rank;
  }
  if (worst < 0) return std::nullopt;
  const Observation& seen = observations_[static_cast<std::size_t>(worst)];
  const std::string no_beat = cat("no heartbeat for ", seconds_text(seen.silent_seconds));
  if (!answers(worst)) {  // usually its connection ends first and reports why
    if (seen.silent_seconds < limits_.peer_timeout + std::min(1.5, limits_.peer_timeout)) return std::nullopt;
    return HangDiagnosis{HangDiagnosis::Kind::unreachable, worst,
                         cat(name_(worst), " cannot be reached: ", no_beat, ", and its host does not answer")};
  }
  if (!another_rank_waits(worst)) return std::nullopt;
  const std::string was =
      seen.state.current_call.empty() ? "" : cat("; at its last heartbeat it was running ", seen.state.current_call);
  return HangDiagnosis{
      HangDiagnosis::Kind::unresponsive, worst,
      cat(name_(worst), " has stopped: ", no_beat, ", though its host answers", was, waits_text(worst))};
}

std::optional<HangDiagnosis> HangDetector::find_stuck_call() {
  for (int rank = 0; rank < static_cast<int>(observations_.size()); ++rank) {
    Observation& seen = observations_[static_cast<std::size_t>(rank)];
    if (seen.state.current_call.empty() || seen.idle_seconds <= std::min(limits_.peer_timeout, limits_.call_timeout) ||
        !another_rank_waits(rank))
      continue;
    const std::string text =
        cat(name_(rank), " has been inside ", seen.state.current_call, " for ", seconds_text(seen.idle_seconds));
    if (seen.idle_seconds > limits_.call_timeout)
      return HangDiagnosis{HangDiagnosis::Kind::stuck_call, rank, cat(text, waits_text(rank))};
    if (std::exchange(seen.warned, true)) continue;
    return HangDiagnosis{HangDiagnosis::Kind::slow_call, rank,
                         cat(text, ", and others wait; after ", seconds_text(limits_.call_timeout),
                             " (WorldOptions::call_timeout) it counts as a hang")};
  }
  return std::nullopt;
}

std::optional<HangDiagnosis> HangDetector::find_deadlock() const {
  for (const Observation& seen : observations_) {
    const bool waits =
        seen.watched && !seen.state.waits.empty() && seen.state.current_call.empty() && !seen.state.can_progress;
    if (!waits || seen.silent_seconds > limits_.peer_timeout / 2 || seen.idle_seconds <= 2 * limits_.peer_timeout)
      return std::nullopt;
  }
  return HangDiagnosis{HangDiagnosis::Kind::deadlock, -1,
                       cat("all ranks wait for each other, and none has made progress for ",
                           seconds_text(2 * limits_.peer_timeout), waits_text(-1))};
}

std::string HangDetector::wait_text(const RankWait& wait) const {
  return cat(wait.rank == RankWait::others ? "the others" : cat("rank ", wait.rank), ": ", wait.what);
}

// A line for each waiting rank, with the first of its waits.
std::string HangDetector::waits_text(int except) const {
  std::string out;
  for (int rank = 0; rank < static_cast<int>(observations_.size()); ++rank) {
    const Observation& seen = observations_[static_cast<std::size_t>(rank)];
    if (rank == except || seen.state.waits.empty()) continue;
    out += cat("\n  rank ", rank, " waits for ", wait_text(seen.state.waits.front()));
  }
  return out;
}

}  // namespace karez::runtime

// Counts the time without heartbeats and without progress, and derives diagnoses from it.
#include "karez/control/hang_detector.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "karez/base/text.h"

namespace karez::control {
namespace {

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

}  // namespace

double HangTimeouts::tick() const { return std::min(1.0, peer_timeout / 8); }

HangDetector::HangDetector(int ranks, int own_rank, HangTimeouts timeouts, std::function<std::string(int)> name)
    : timeouts_(timeouts),
      own_rank_(own_rank),
      name_(std::move(name)),
      observations_(static_cast<std::size_t>(ranks)) {
  for (int rank = 0; rank < ranks; ++rank)
    observations_[static_cast<std::size_t>(rank)].watched = own_rank == 0 || rank == 0 || rank == own_rank;
}

void HangDetector::on_heartbeat(int rank, RankState state) {
  Observation& observation = observations_[static_cast<std::size_t>(rank)];
  observation.has_heartbeat = true;
  if (state.progress != observation.state.progress) observation.idle_seconds = 0;
  observation.state = std::move(state);
}

void HangDetector::set_halted(int rank, bool halted) { observations_[static_cast<std::size_t>(rank)].halted = halted; }

void HangDetector::on_disconnect(int rank) { observations_[static_cast<std::size_t>(rank)].watched = false; }

std::optional<HangDiagnosis> HangDetector::tick(double now, const std::function<bool(int)>& host_answers) {
  const double elapsed = last_tick_ ? now - *last_tick_ : 0;
  last_tick_ = now;
  const bool late = elapsed > 2 * timeouts_.tick();
  if (late)
    for (Observation& observation : observations_)
      observation.seconds_without_heartbeat = observation.idle_seconds = observation.halted_seconds = 0;
  else add_time(elapsed);
  for (Observation& observation : observations_) observation.has_heartbeat = false;
  if (late) return std::nullopt;
  if (auto diagnosis = find_halted()) return diagnosis;
  if (auto diagnosis = find_overdue(host_answers)) return diagnosis;
  if (own_rank_ != 0) return std::nullopt;  // only rank 0 has the states of all ranks
  if (auto diagnosis = find_stuck_call()) return diagnosis;
  return find_deadlock();
}

void HangDetector::add_time(double seconds) {
  for (Observation& observation : observations_) {
    observation.idle_seconds += seconds;
    observation.seconds_without_heartbeat =
        observation.has_heartbeat ? 0 : observation.seconds_without_heartbeat + seconds;
    observation.halted_seconds = observation.halted ? observation.halted_seconds + seconds : 0;
  }
}

bool HangDetector::another_rank_waits(int except) const {
  for (int rank = 0; rank < static_cast<int>(observations_.size()); ++rank) {
    const Observation& observation = observations_[static_cast<std::size_t>(rank)];
    if (rank != except && observation.watched && !observation.halted && !is_overdue(rank) &&
        observation.state.waits_for_rank())
      return true;
  }
  return false;
}

std::optional<HangDiagnosis> HangDetector::find_halted() const {
  for (int rank = 0; rank < static_cast<int>(observations_.size()); ++rank) {
    const Observation& observation = observations_[static_cast<std::size_t>(rank)];
    if (observation.halted_seconds < timeouts_.halt_timeout || !another_rank_waits(rank)) continue;
    const std::string last_call = observation.state.current_call.empty()
                                      ? ""
                                      : cat("; at its last heartbeat it was running ", observation.state.current_call);
    return HangDiagnosis{HangDiagnosis::Kind::halted, rank,
                         cat(name_(rank), " has stopped: a signal stopped its process ",
                             seconds_text(observation.halted_seconds), " ago", last_call, waits_text(rank))};
  }
  return std::nullopt;
}

// If heartbeats of several ranks are overdue, diagnoses the rank whose last heartbeat is oldest.
std::optional<HangDiagnosis> HangDetector::find_overdue(const std::function<bool(int)>& host_answers) const {
  int overdue_rank = -1;
  for (int rank = 0; rank < static_cast<int>(observations_.size()); ++rank) {
    const Observation& observation = observations_[static_cast<std::size_t>(rank)];
    if (rank == own_rank_ || !observation.watched || !is_overdue(rank)) continue;
    if (overdue_rank < 0 || observation.seconds_without_heartbeat >
                                observations_[static_cast<std::size_t>(overdue_rank)].seconds_without_heartbeat)
      overdue_rank = rank;
  }
  if (overdue_rank < 0) return std::nullopt;
  const Observation& observation = observations_[static_cast<std::size_t>(overdue_rank)];
  const std::string no_heartbeat = cat("no heartbeat for ", seconds_text(observation.seconds_without_heartbeat));
  if (!host_answers(overdue_rank)) {  // usually the connection ends earlier and reports why
    if (observation.seconds_without_heartbeat < timeouts_.peer_timeout + std::min(1.5, timeouts_.peer_timeout))
      return std::nullopt;
    return HangDiagnosis{
        HangDiagnosis::Kind::unreachable, overdue_rank,
        cat(name_(overdue_rank), " cannot be reached: ", no_heartbeat, ", and its host does not answer")};
  }
  if (!another_rank_waits(overdue_rank)) return std::nullopt;
  const std::string last_call = observation.state.current_call.empty()
                                    ? ""
                                    : cat("; at its last heartbeat it was running ", observation.state.current_call);
  return HangDiagnosis{HangDiagnosis::Kind::unresponsive, overdue_rank,
                       cat(name_(overdue_rank), " has stopped: ", no_heartbeat, ", though its host answers", last_call,
                           waits_text(overdue_rank))};
}

std::optional<HangDiagnosis> HangDetector::find_stuck_call() {
  for (int rank = 0; rank < static_cast<int>(observations_.size()); ++rank) {
    const Observation& observation = observations_[static_cast<std::size_t>(rank)];
    const RankState& state = observation.state;
    std::optional<HangDiagnosis> diagnosis;
    if (!state.current_call.empty())
      diagnosis = long_call(
          rank, observation.idle_seconds,
          cat(name_(rank), " has been inside ", state.current_call, " for ", seconds_text(observation.idle_seconds)));
    if (const RankWait* wait = state.data_wait(); wait != nullptr && !diagnosis)
      diagnosis = long_call(rank, state.data_seconds, cat(name_(rank), " waits for ", wait->text()));
    if (diagnosis) return diagnosis;
  }
  return std::nullopt;
}

std::optional<HangDiagnosis> HangDetector::long_call(int rank, double seconds, const std::string& text) {
  if (seconds <= std::min(timeouts_.peer_timeout, timeouts_.call_timeout) || !another_rank_waits(rank))
    return std::nullopt;
  if (seconds > timeouts_.call_timeout)
    return HangDiagnosis{HangDiagnosis::Kind::stuck_call, rank, cat(text, waits_text(rank))};
  if (std::exchange(observations_[static_cast<std::size_t>(rank)].warned, true)) return std::nullopt;
  return HangDiagnosis{HangDiagnosis::Kind::slow_call, rank,
                       cat(text, ", and others wait; after ", seconds_text(timeouts_.call_timeout),
                           " (WorldOptions::call_timeout) it counts as a hang")};
}

std::optional<HangDiagnosis> HangDetector::find_deadlock() const {
  for (const Observation& observation : observations_) {
    const bool waits = observation.watched && observation.state.waits_for_rank() &&
                       observation.state.data_wait() == nullptr && observation.state.current_call.empty() &&
                       !observation.state.can_progress;
    if (!waits || observation.seconds_without_heartbeat > timeouts_.peer_timeout / 2 ||
        observation.idle_seconds <= 2 * timeouts_.peer_timeout)
      return std::nullopt;
  }
  return HangDiagnosis{HangDiagnosis::Kind::deadlock, -1,
                       cat("all ranks wait for each other, and none has made progress for ",
                           seconds_text(2 * timeouts_.peer_timeout), waits_text(-1))};
}

// Returns a line for each waiting rank, with its wait for a data set or the first of its other waits.
std::string HangDetector::waits_text(int except) const {
  std::string out;
  for (int rank = 0; rank < static_cast<int>(observations_.size()); ++rank) {
    const Observation& observation = observations_[static_cast<std::size_t>(rank)];
    if (rank == except || observation.state.waits.empty()) continue;
    out += cat("\n  rank ", rank, " waits for ", observation.state.first_wait()->text());
  }
  return out;
}

}  // namespace karez::control

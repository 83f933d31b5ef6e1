// Counting silence and standstill, and judging both.
#include "karez/runtime/watch.h"

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

double WatchLimits::tick() const { return std::min(1.0, peer_timeout / 8); }

Watch::Watch(int ranks, int me, WatchLimits limits, std::function<std::string(int)> name)
    : limits_(limits),
      me_(me),
      name_(std::move(name)),
      seen_(static_cast<std::size_t>(ranks)) {
  for (int rank = 0; rank < ranks; ++rank)
    seen_[static_cast<std::size_t>(rank)].watched = me == 0 || rank == 0 || rank == me;
}

void Watch::beat(int rank, RankState state) {
  Seen& seen = seen_[static_cast<std::size_t>(rank)];
  seen.heard = true;
  if (state.moved != seen.state.moved) seen.still = 0;
  seen.state = std::move(state);
}

void Watch::halted(int rank, bool now) { seen_[static_cast<std::size_t>(rank)].halted = now; }

void Watch::left(int rank) { seen_[static_cast<std::size_t>(rank)].watched = false; }

std::optional<WatchFinding> Watch::tick(double now, const std::function<bool(int)>& answers) {
  const double passed = last_ ? now - *last_ : 0;
  last_ = now;
  const bool late = passed > 2 * limits_.tick();
  if (late)
    for (Seen& seen : seen_) seen.silent = seen.still = seen.stands = 0;
  else count(passed);
  for (Seen& seen : seen_) seen.heard = false;
  if (late) return std::nullopt;
  if (auto found = standing()) return found;
  if (auto found = silent(answers)) return found;
  if (me_ != 0) return std::nullopt;  // the states of all are rank 0's
  if (auto found = inside()) return found;
  return circle();
}

void Watch::count(double seconds) {
  for (Seen& seen : seen_) {
    seen.still += seconds;
    seen.silent = seen.heard ? 0 : seen.silent + seconds;
    seen.stands = seen.halted ? seen.stands + seconds : 0;
  }
}

bool Watch::somebody_waits(int but) const {
  for (int rank = 0; rank < static_cast<int>(seen_.size()); ++rank) {
    const Seen& seen = seen_[static_cast<std::size_t>(rank)];
    if (rank != but && seen.watched && !seen.halted && !is_silent(rank) && !seen.state.waits.empty()) return true;
  }
  return false;
}

std::optional<WatchFinding> Watch::standing() const {
  for (int rank = 0; rank < static_cast<int>(seen_.size()); ++rank) {
    const Seen& seen = seen_[static_cast<std::size_t>(rank)];
    if (seen.stands < limits_.halt || !somebody_waits(rank)) continue;
    const std::string was = seen.state.inside.empty() ? "" : cat("; when last heard it was inside ", seen.state.inside);
    return WatchFinding{WatchFinding::What::halted, rank,
                        cat(name_(rank), " has stopped: a signal stopped its process ", seconds_text(seen.stands),
                            " ago", was, waits(rank))};
  }
  return std::nullopt;
}

// Of several that are silent the one that has been so for longest.
std::optional<WatchFinding> Watch::silent(const std::function<bool(int)>& answers) const {
  int worst = -1;
  for (int rank = 0; rank < static_cast<int>(seen_.size()); ++rank) {
    const Seen& seen = seen_[static_cast<std::size_t>(rank)];
    if (rank == me_ || !seen.watched || !is_silent(rank)) continue;
    if (worst < 0 || seen.silent > seen_[static_cast<std::size_t>(worst)].silent) worst = rank;
  }
  if (worst < 0) return std::nullopt;
  const Seen& seen = seen_[static_cast<std::size_t>(worst)];
  const std::string no_beat = cat("no heartbeat for ", seconds_text(seen.silent));
  if (!answers(worst)) {  // its connection ends by itself, which says why; unless it does not
    if (seen.silent < limits_.peer_timeout + std::min(1.5, limits_.peer_timeout)) return std::nullopt;
    return WatchFinding{WatchFinding::What::gone, worst,
                        cat(name_(worst), " cannot be reached: ", no_beat, ", and its host does not answer")};
  }
  if (!somebody_waits(worst)) return std::nullopt;
  const std::string was = seen.state.inside.empty() ? "" : cat("; when last heard it was inside ", seen.state.inside);
  return WatchFinding{WatchFinding::What::stopped, worst,
                      cat(name_(worst), " has stopped: ", no_beat, ", though its host answers", was, waits(worst))};
}

std::optional<WatchFinding> Watch::inside() {
  for (int rank = 0; rank < static_cast<int>(seen_.size()); ++rank) {
    Seen& seen = seen_[static_cast<std::size_t>(rank)];
    if (seen.state.inside.empty() || seen.still <= std::min(limits_.peer_timeout, limits_.call_timeout) ||
        !somebody_waits(rank))
      continue;
    const std::string text =
        cat(name_(rank), " has been inside ", seen.state.inside, " for ", seconds_text(seen.still));
    if (seen.still > limits_.call_timeout)
      return WatchFinding{WatchFinding::What::inside, rank, cat(text, waits(rank))};
    if (std::exchange(seen.warned, true)) continue;
    return WatchFinding{WatchFinding::What::warning, rank,
                        cat(text, ", and others wait; after ", seconds_text(limits_.call_timeout),
                            " (WorldOptions::call_timeout) it counts as a hang")};
  }
  return std::nullopt;
}

std::optional<WatchFinding> Watch::circle() const {
  for (const Seen& seen : seen_) {
    const bool waits = seen.watched && !seen.state.waits.empty() && seen.state.inside.empty() && !seen.state.may_move;
    if (!waits || seen.silent > limits_.peer_timeout / 2 || seen.still <= 2 * limits_.peer_timeout) return std::nullopt;
  }
  return WatchFinding{WatchFinding::What::circle, -1,
                      cat("all ranks wait for each other, and nothing has moved for ",
                          seconds_text(2 * limits_.peer_timeout), waits(-1))};
}

std::string Watch::wait_text(const RankWait& wait) const {
  return cat(wait.whom == RankWait::others ? "the others" : cat("rank ", wait.whom), ": ", wait.what);
}

// A line for each rank that waits; of its waits the first.
std::string Watch::waits(int but) const {
  std::string out;
  for (int rank = 0; rank < static_cast<int>(seen_.size()); ++rank) {
    const Seen& seen = seen_[static_cast<std::size_t>(rank)];
    if (rank == but || seen.state.waits.empty()) continue;
    out += cat("\n  rank ", rank, " waits for ", wait_text(seen.state.waits.front()));
  }
  return out;
}

}  // namespace karez::runtime

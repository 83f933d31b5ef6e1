// For tests: simulates a synchronous dataflow program token by token, by counting slots and pieces without a graph of
// waits.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "karez/solve/namespace.h"
#include "karez/solve/slots.h"

namespace karez::solve {

// Seconds must be integers. Actors begin as early as possible. If a stream without order permits several actors, the
// one with the smallest number begins first, or the one with the smallest `rank` if ranks are given.
class TokenGame {
 public:
  TokenGame(const SlotProblem& problem, std::vector<int> slots, std::vector<int> rank = {})
      : problem_(problem),
        slots_(std::move(slots)),
        rank_(std::move(rank)),
        acts_(problem.actors.size(), 0),
        runs_(acts_.size(), 0) {
    for (std::size_t a = rank_.size(); a < acts_.size(); ++a) rank_.push_back(static_cast<int>(a));
    for (const auto& reg : problem.registers) {
      taken_.push_back(reg.filled);
      for (std::size_t c = 0; c < reg.consumers.size(); ++c) {
        first_.resize(taken_.size(), static_cast<int>(arrived_.size()));
        arrived_.push_back(reg.filled);
        returned_.push_back(0);
      }
    }
    place_.resize(problem.streams.size(), 0);
    busy_.resize(problem.streams.size(), 0);
  }

  // Seconds per launch of the slowest actor in the periodic state; infinite in a deadlock.
  double interval() {
    std::map<std::vector<long>, std::pair<long, std::vector<long>>> seen;
    for (;;) {
      begin_all();
      if (events_.empty()) return std::numeric_limits<double>::infinity();
      auto [at, fresh] = seen.try_emplace(state(), now_, acts_);
      if (!fresh) {
        double slowest = 0;
        for (std::size_t a = 0; a < acts_.size(); ++a) {
          long acts = acts_[a] - at->second.second[a];
          if (acts == 0) return std::numeric_limits<double>::infinity();
          slowest = std::max(slowest, static_cast<double>(now_ - at->second.first) * problem_.actors[a].acts /
                                          static_cast<double>(acts));
        }
        return slowest;
      }
      advance();
    }
  }

  // Seconds until every actor has acted for exactly `launches` launches; infinite if a deadlock occurs first.
  double makespan(int launches) {
    launches_ = launches;
    for (begin_all(); !events_.empty(); begin_all()) advance();
    for (std::size_t a = 0; a < acts_.size(); ++a)
      if (acts_[a] < static_cast<long>(launches) * problem_.actors[a].acts)
        return std::numeric_limits<double>::infinity();
    return static_cast<double>(now_);
  }

 private:
  enum Kind : int { ends, arrives, returns };
  struct Event {
    Kind kind;
    int index;  // the actor, or a place in arrived_ and returned_
    bool operator<(const Event& other) const { return std::pair(kind, index) < std::pair(other.kind, other.index); }
  };

  // The stream's next act; acts before the first launch are skipped.
  SlotProblem::Act next(std::size_t s) {
    const auto& order = problem_.streams[s].order;
    for (;; ++place_[s]) {
      auto act = order[place_[s] % order.size()];
      act.act += static_cast<long>(place_[s] / order.size()) * problem_.actors[act.actor].acts;
      if (act.act >= 0) return act;
    }
  }

  bool may_begin(int a) {
    if (runs_[a] || (launches_ > 0 && acts_[a] >= static_cast<long>(launches_) * problem_.actors[a].acts)) return false;
    for (std::size_t s = 0; s < problem_.streams.size(); ++s) {
      const auto& stream = problem_.streams[s];
      auto is_mine = [&](const auto& act) { return act.actor == a; };
      bool ordered = std::any_of(stream.order.begin(), stream.order.end(), is_mine);
      if (!ordered && std::find(stream.actors.begin(), stream.actors.end(), a) == stream.actors.end()) continue;
      if (busy_[s] || (ordered && next(s).actor != a)) return false;
    }
    for (std::size_t r = 0; r < problem_.registers.size(); ++r) {
      const auto& reg = problem_.registers[r];
      for (std::size_t c = 0; c < reg.consumers.size(); ++c) {
        const auto& consumer = reg.consumers[c];
        if (consumer.actor == a && arrived_[first_[r] + c] <= acts_[a] / consumer.period) return false;
        if (reg.producer == a && acts_[a] % reg.period == 0 && taken_[r] - returned_[first_[r] + c] >= slots_[r])
          return false;
      }
    }
    return true;
  }

  void begin_all() {
    for (bool moved = true; moved;) {
      moved = false;
      int best = -1;
      for (int a = 0; a < static_cast<int>(acts_.size()); ++a)
        if (may_begin(a) && (best < 0 || rank_[a] < rank_[best])) best = a;
      if (best < 0) break;
      begin(best);
      moved = true;
    }
  }

  void set_busy(int a, char busy) {
    for (std::size_t s = 0; s < problem_.streams.size(); ++s) {
      const auto& stream = problem_.streams[s];
      bool ordered =
          std::any_of(stream.order.begin(), stream.order.end(), [&](const auto& act) { return act.actor == a; });
      if (!ordered && std::find(stream.actors.begin(), stream.actors.end(), a) == stream.actors.end()) continue;
      busy_[s] = busy;
      if (ordered && !busy) ++place_[s];
    }
  }

  void begin(int a) {
    runs_[a] = 1;
    set_busy(a, 1);
    for (std::size_t r = 0; r < problem_.registers.size(); ++r)
      if (problem_.registers[r].producer == a && acts_[a] % problem_.registers[r].period == 0) ++taken_[r];
    events_.emplace(now_ + static_cast<long>(problem_.actors[a].seconds), Event{ends, a});
  }

  void end(int a) {
    runs_[a] = 0;
    set_busy(a, 0);
    long done = ++acts_[a];
    for (std::size_t r = 0; r < problem_.registers.size(); ++r) {
      const auto& reg = problem_.registers[r];
      for (std::size_t c = 0; c < reg.consumers.size(); ++c) {
        const auto& consumer = reg.consumers[c];
        int at = first_[r] + static_cast<int>(c);
        if (reg.producer == a && done % reg.period == 0)
          events_.emplace(now_ + static_cast<long>(consumer.arrives), Event{arrives, at});
        if (consumer.actor == a && done % consumer.period == 0)
          events_.emplace(now_ + static_cast<long>(consumer.returns), Event{returns, at});
      }
    }
  }

  void advance() {
    now_ = events_.begin()->first;
    while (!events_.empty() && events_.begin()->first == now_) {
      Event event = events_.begin()->second;
      events_.erase(events_.begin());
      if (event.kind == ends) end(event.index);
      else ++(event.kind == arrives ? arrived_ : returned_)[event.index];
    }
  }

  // The complete state that determines the rest of the simulation.
  std::vector<long> state() {
    std::vector<long> out;
    for (std::size_t a = 0; a < acts_.size(); ++a) out.push_back(acts_[a] % problem_.actors[a].acts);
    for (std::size_t r = 0; r < problem_.registers.size(); ++r)
      for (std::size_t c = 0; c < problem_.registers[r].consumers.size(); ++c) {
        const auto& consumer = problem_.registers[r].consumers[c];
        out.push_back(arrived_[first_[r] + c] - acts_[consumer.actor] / consumer.period);
        out.push_back(taken_[r] - returned_[first_[r] + c]);
      }
    for (std::size_t s = 0; s < place_.size(); ++s) {
      long length = static_cast<long>(problem_.streams[s].order.size()), place = static_cast<long>(place_[s]);
      out.push_back(length == 0 ? 0 : std::min(place, 16 * length + place % length));
    }
    std::vector<std::pair<long, Event>> pending(events_.begin(), events_.end());
    std::sort(pending.begin(), pending.end());
    for (const auto& [time, event] : pending) out.insert(out.end(), {time - now_, event.kind, event.index});
    return out;
  }

  const SlotProblem& problem_;
  std::vector<int> slots_, rank_, first_;
  std::vector<long> acts_;
  std::vector<char> runs_, busy_;
  std::vector<long> taken_, arrived_, returned_;  // pieces
  std::vector<std::size_t> place_;
  std::multimap<long, Event> events_;
  long now_ = 0;
  int launches_ = 0;
};

}  // namespace karez::solve

// Pairs the events of calls and launches into spans.
#include "karez/report/profile_spans.h"

#include <algorithm>
#include <utility>

#include "karez/report/trace_spans.h"

namespace karez::report {
namespace {

struct Act {
  CallSpan span;
  bool concurrent = false;
  std::int64_t call_begin = 0, cpu = -1;
  std::vector<CallSpan> calls;
};

const Actor* actor_of(const Recording& recording, const Event& event) {
  const auto plan = recording.plans.find(event.plan);
  return plan != recording.plans.end() && plan->second->actors.has(event.actor) ? &plan->second->actor(event.actor)
                                                                                : nullptr;
}

std::vector<Act> acts_of(const Recording& recording, int worker) {
  std::map<std::pair<std::int32_t, ActorId>, Act> running;
  std::vector<Act> out;
  for (const Event& event : recording.workers[static_cast<std::size_t>(worker)].events) {
    const Actor* actor = actor_of(recording, event);
    if (actor == nullptr) continue;
    const std::pair key(event.plan, event.actor);
    if (event.kind == EventKind::began) {
      Act act;
      act.span = {event.plan, event.actor, actor->calls.size() == 1 ? 0 : -1, event.ticket, worker, 0, event.time};
      act.concurrent = actor->collective.has_value();
      act.call_begin = event.time;
      running.insert_or_assign(key, std::move(act));
      continue;
    }
    const auto at = running.find(key);
    if (at == running.end()) continue;
    Act& act = at->second;
    if (event.kind == EventKind::used_cpu) {
      act.cpu = event.piece;
    } else if (event.kind == EventKind::called) {
      CallSpan call = act.span;
      call.call = static_cast<int>(event.piece);
      call.begin = act.call_begin, call.end = act.call_begin = event.time;
      call.cpu = std::exchange(act.cpu, -1);
      act.calls.push_back(call);
    } else if (event.kind == EventKind::failed) {
      act.span.failed = true;
    } else if (event.kind == EventKind::ended) {
      act.span.end = event.time;
      out.push_back(std::move(act));
      running.erase(at);
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Act& a, const Act& b) { return a.span.begin < b.span.begin; });
  return out;
}

}  // namespace

std::vector<CallSpan> calls_of(const Recording& recording) {
  std::vector<CallSpan> out;
  for (int worker = 0; worker < static_cast<int>(recording.workers.size()); ++worker) {
    std::vector<Act> acts = acts_of(recording, worker);
    std::vector<LaneInterval> intervals;
    intervals.reserve(acts.size());
    for (const Act& act : acts) intervals.push_back({act.span.begin, act.span.end, act.concurrent});
    const std::vector<int> lanes = lanes_of(intervals);
    for (std::size_t i = 0; i < acts.size(); ++i) {
      Act& act = acts[i];
      if (act.calls.empty() || act.span.failed) {
        act.span.lane = lanes[i];
        if (!act.calls.empty()) act.span.begin = act.call_begin;  // the call that failed
        act.calls.push_back(act.span);
      }
      out.insert(out.end(), act.calls.begin(), act.calls.end());
    }
  }
  return out;
}

std::vector<LaunchSpan> launches_of(const Recording& recording) {
  std::map<std::uint32_t, const RecordedLaunch*> recorded;
  for (const RecordedLaunch& launch : recording.launches)
    recorded.emplace(static_cast<std::uint32_t>(launch.ticket), &launch);
  std::map<std::uint32_t, LaunchSpan> running;
  std::vector<LaunchSpan> out;
  if (recording.workers.empty()) return out;
  for (const Event& event : recording.workers[0].events) {
    if (event.kind == EventKind::launch_began) {
      const auto made = recorded.find(event.ticket);
      running[event.ticket] = {
          event.ticket, event.plan, made != recorded.end(), made != recorded.end() ? made->second->made : event.time,
          event.time,   0};
    } else if (event.kind == EventKind::launch_ended) {
      const auto at = running.find(event.ticket);
      LaunchSpan launch =
          at != running.end() ? at->second : LaunchSpan{event.ticket, event.plan, false, 0, 0, 0};  // began earlier
      if (at != running.end()) running.erase(at);
      launch.ended = event.time;
      out.push_back(launch);
    }
  }
  return out;
}

}  // namespace karez::report

// Divides the time of workers among calls, launches, data and the program.
#include <algorithm>
#include <set>
#include <tuple>

#include "karez/base/text.h"
#include "karez/plan/call_bytes.h"
#include "karez/report/origin.h"
#include "karez/report/profile.h"

namespace karez::report {
namespace {

struct Interval {
  std::int64_t begin = 0, end = 0;
  std::size_t row = 0;
};

// Disjoint intervals in ascending order. Where intervals overlap, the one that began first counts.
class Cover {
 public:
  explicit Cover(std::vector<Interval> intervals) {
    std::stable_sort(intervals.begin(), intervals.end(),
                     [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    std::int64_t covered = INT64_MIN;
    for (Interval interval : intervals) {
      interval.begin = std::max(interval.begin, covered);
      if (interval.begin >= interval.end) continue;
      covered = interval.end;
      intervals_.push_back(interval);
    }
  }
  const Interval* at(std::int64_t time) const {  // the interval that contains the time
    auto after = std::upper_bound(intervals_.begin(), intervals_.end(), time,
                                  [](std::int64_t t, const Interval& i) { return t < i.begin; });
    if (after == intervals_.begin()) return nullptr;
    --after;
    return time < after->end ? &*after : nullptr;
  }
  // Adds the ends of intervals between two times.
  void add_cuts(std::int64_t begin, std::int64_t end, std::vector<std::int64_t>& cuts) const {
    auto first = std::upper_bound(intervals_.begin(), intervals_.end(), begin,
                                  [](std::int64_t t, const Interval& i) { return t < i.end; });
    for (; first != intervals_.end() && first->begin < end; ++first)
      for (const std::int64_t time : {first->begin, first->end})
        if (time > begin && time < end) cuts.push_back(time);
  }
  const std::vector<Interval>& intervals() const { return intervals_; }

 private:
  std::vector<Interval> intervals_;
};

// The text of a pointwise kernel shows what it computes.
std::string kernel_text(const Call& call) {
  const std::string expression = call.attrs.text("expr", "");
  return expression.empty() ? call.kernel : cat(call.kernel, " ", expression);
}

double bytes_of(const Actor& actor) {
  if (actor.collective) {
    const Operand& operand = actor.collective->out.view.count() > 0 ? actor.collective->out : actor.collective->in;
    return static_cast<double>(operand.view.bytes());
  }
  double bytes = 0;
  for (const Operand& operand : actor.bound) bytes += static_cast<double>(operand.view.bytes());
  return bytes;
}

// The row of a call, without times, and the bytes of one call.
std::pair<ProfileRow, double> row_of(const Plan& plan, const CallSpan& span) {
  const Actor& actor = plan.actor(span.actor);
  const bool has_call = span.call >= 0 && static_cast<std::size_t>(span.call) < actor.calls.size();
  const Call* call = has_call ? &actor.calls[static_cast<std::size_t>(span.call)] : nullptr;
  const std::string& where = call != nullptr ? call->where : actor.collective ? actor.collective->where : actor.where;
  const Origin origin = origin_of(where);
  ProfileRow row;
  row.op = origin.op, row.line = origin.line, row.module = origin.module;
  if (where.ends_with("grad)")) row.module += row.module.empty() ? "(grad)" : " (grad)";
  if (call != nullptr) {
    row.kernel = kernel_text(*call);
    return {row, static_cast<double>(plan::bytes_of(*call))};
  }
  row.kernel = std::string(actor.collective ? name_of(actor.collective->kind) : name_of(actor.body));
  if (actor.body == BodyKind::input || actor.body == BodyKind::fetch) row.op = cat(row.kernel, " ", actor.binding);
  else if (actor.body == BodyKind::compute) row.op = actor.name;
  else if (actor.collective) row.op = cat(row.kernel, " of ", origin.op);
  return {row, bytes_of(actor)};
}

// Collects rows by their texts.
class Rows {
 public:
  explicit Rows(const Recording& recording) : recording_(recording) {}
  // Returns the number of the call's row.
  std::size_t add(const CallSpan& span) {
    auto [at, is_new] = by_call_.emplace(std::tuple(span.plan, span.actor, span.call), 0);
    if (is_new) {
      auto [row, bytes] = row_of(*recording_.plans.at(span.plan), span);
      auto [place, is_new_row] = by_text_.emplace(std::tuple(row.op, row.line, row.module, row.kernel), rows.size());
      if (is_new_row) rows.push_back(row);
      at->second = place->second;
      bytes_[std::tuple(span.plan, span.actor, span.call)] = bytes;
    }
    ProfileRow& row = rows[at->second];
    ++row.calls;
    row.bytes += bytes_.at(at->first);
    if (span.cpu >= 0) row.cpu += span.cpu, row.cpu_of += span.end - span.begin;
    return at->second;
  }
  std::vector<ProfileRow> rows;

 private:
  using Key = std::tuple<std::int32_t, ActorId, int>;
  const Recording& recording_;
  std::map<Key, std::size_t> by_call_;
  std::map<Key, double> bytes_;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::size_t> by_text_;
};

constexpr std::size_t other_row = SIZE_MAX;

struct Timeline {
  Cover launches, running, stalls;  // launches from the moment when they are made, and from their begin

  // Adds the time between two acts of a worker.
  void divide(std::int64_t begin, std::int64_t end, const Cover& concurrent, const std::vector<std::int64_t>& mail,
              std::size_t next, ProfileTimes& out) const {
    std::vector<std::int64_t> cuts = {begin, end};
    for (const Cover* cover : {&launches, &running, &stalls, &concurrent}) cover->add_cuts(begin, end, cuts);
    // The worker took its last mail here: before, it had no act that could run.
    const auto after = std::upper_bound(mail.begin(), mail.end(), end);
    const std::int64_t last_mail = after == mail.begin() ? begin : *(after - 1);
    if (last_mail > begin && last_mail < end) cuts.push_back(last_mail);
    std::sort(cuts.begin(), cuts.end());
    for (std::size_t i = 1; i < cuts.size(); ++i) {
      const std::int64_t from = cuts[i - 1], time = cuts[i] - from;
      if (time == 0) continue;
      if (const Interval* act = concurrent.at(from)) {
        (act->row == other_row ? out.other : out.rows[act->row].time) += time;
        if (act->row != other_row) out.rows[act->row].hidden -= time;
      } else if (launches.at(from) == nullptr) {
        (stalls.at(from) != nullptr ? out.stall : out.program) += time;
      } else if (running.at(from) != nullptr && from < last_mail) {
        out.waiting += time;
        if (next != other_row) out.rows[next].waited += time;
      } else {
        out.overhead += time;
      }
    }
  }
};

}  // namespace

ProfileTimes times_of(const ProfileData& data) {
  ProfileTimes out;
  const Recording& recording = data.recording;
  out.lost = data.lost_stages;
  for (const EventLog& log : recording.workers) out.lost += log.overwritten;
  const std::vector<LaunchSpan> launches = launches_of(recording);
  std::vector<Interval> made, running, stalls;
  std::set<std::uint32_t> tickets;
  std::int64_t first_began = INT64_MAX;
  out.begin = INT64_MAX;
  for (const LaunchSpan& launch : launches) {
    made.push_back({launch.made, launch.ended, 0});
    running.push_back({launch.began, launch.ended, 0});
    if (!launch.recorded) continue;
    tickets.insert(launch.ticket);
    out.begin = std::min(out.begin, launch.made), out.end = std::max(out.end, launch.ended);
    first_began = std::min(first_began, launch.began);
  }
  out.launches = static_cast<std::int64_t>(tickets.size());
  out.unfinished = static_cast<std::int64_t>(recording.launches.size()) - out.launches;
  if (tickets.empty()) {
    out.begin = out.end = 0;
    return out;
  }
  // Launches that were made before the profile may still run when its first launch is made.
  for (const LaunchSpan& launch : launches)
    if (!launch.recorded && launch.ended <= first_began) out.begin = std::max(out.begin, launch.ended);
  for (const ProfiledStage& stage : data.stages)
    if (stage.stall) stalls.push_back({stage.begin, stage.end, 0});
  const Timeline timeline{Cover(std::move(made)), Cover(std::move(running)), Cover(std::move(stalls))};

  Rows rows(recording);
  const auto workers = recording.workers.size();
  std::vector<std::vector<Interval>> busy(workers), concurrent(workers);
  for (CallSpan span : calls_of(recording)) {
    const std::size_t row = tickets.count(span.ticket) > 0 ? rows.add(span) : other_row;
    const auto worker = static_cast<std::size_t>(span.worker);
    (span.lane == 0 ? busy : concurrent)[worker].push_back({span.begin, span.end, row});
  }
  out.rows = std::move(rows.rows);
  for (std::size_t worker = 0; worker < workers; ++worker) {
    const std::vector<Event>& events = recording.workers[worker].events;
    if (events.empty()) continue;
    ++out.workers;
    std::vector<std::int64_t> mail;
    for (const Event& event : events)
      if (event.kind == EventKind::taken || event.kind == EventKind::launch_began) mail.push_back(event.time);
    if (worker > 0) {  // it waits until worker 0 ends the launch
      mail.push_back(out.end);
      std::sort(mail.begin(), mail.end());
    }
    for (const Interval& act : concurrent[worker])  // `divide` subtracts the time in which nothing else ran
      if (act.row != other_row) out.rows[act.row].hidden += act.end - act.begin;
    const Cover acts(std::move(busy[worker])), others(std::move(concurrent[worker]));
    std::int64_t at = out.begin;
    for (Interval act : acts.intervals()) {
      act.begin = std::max(act.begin, out.begin), act.end = std::min(act.end, out.end);
      if (act.begin >= act.end) continue;
      if (act.begin > at) timeline.divide(at, act.begin, others, mail, act.row, out);
      (act.row == other_row ? out.other : out.rows[act.row].time) += act.end - act.begin;
      at = act.end;
    }
    if (out.end > at) timeline.divide(at, out.end, others, mail, other_row, out);
  }
  std::stable_sort(out.rows.begin(), out.rows.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.time > b.time; });
  return out;
}

}  // namespace karez::report

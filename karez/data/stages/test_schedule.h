// Executes the stages of a data set in a random order.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/stages/stage_machine.h"
#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {

using plan::StageId;
using plan::StageMessage;

// Drives a machine with one thread: each step delivers a message, begins an act or ends a running act, at random.
// Messages from one stage to another keep their order.
class Schedule {
 public:
  Schedule(const Dataset& dataset, std::uint64_t seed)
      : machine(stage_tree(dataset.node(), static_cast<int>(1 + seed % 3))),
        draw_(seed),
        has_cache_(dataset.text().find("cache") != std::string::npos) {}
  // The same with numbers of lanes and slots, and shares of cores, that change at random.
  Schedule(const Dataset& dataset, std::uint64_t seed, CoreBudget& budget) : Schedule(dataset, seed) {
    machine.set_core_budget(&budget);
    changes_numbers_ = true;
  }

  // The next element for the reader; nothing at the end of the run.
  std::optional<Element> next() {
    while (machine.reading() && !machine.readable()) require(step(), "deadlock: ", text());
    if (!machine.reading()) return std::nullopt;
    std::optional<Element> element = machine.read();
    collect();
    return element;
  }
  void start(const RunStart& run) {
    machine.start(run);
    collect();
  }
  void stop() {
    machine.stop();
    collect();
  }
  // Executes random steps.
  void work(std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i)
      if (!step()) return;
  }
  // Delivers and executes everything that is left; then no stage may hold an element or a slot.
  void drain() {
    collect();
    while (step()) continue;
    EXPECT_EQ(machine.elements_held(), 0);
    if (!has_cache_) { EXPECT_EQ(machine.bytes_held(), 0); }
    EXPECT_EQ(machine.running(), 0);
    for (StageId id : machine.graph().stages.ids()) {
      EXPECT_EQ(machine.ports(id).free_slots(), machine.ports(id).slots()) << machine.graph().stages[id].name;
      EXPECT_FALSE(machine.ports(id).active());
    }
  }
  std::string text() const {
    std::string out;
    for (StageId id : machine.graph().stages.ids())
      out += cat("\n  ", machine.graph().stages[id].name, ": ", machine.ports(id).text());
    return out;
  }

  StageMachine machine;
  // The maxima so far: bytes in slots and of running acts, and running acts.
  std::int64_t most_bytes = 0;
  int most_acts = 0;
  std::size_t most_joined = 0;  // acts that were executed together

 private:
  void change_numbers() {
    const std::vector<TunedUnit>& units = machine.tree().tuned;
    if (units.empty() || !draw_.chance(0.1)) return;
    const auto at = static_cast<std::size_t>(draw_.below(static_cast<std::int64_t>(units.size())));
    const TunedUnit& unit = units[at];
    const auto lanes = draw_.between(1, std::min(unit.most_lanes, 5)), slots = draw_.between(1, 5);
    const double shares[] = {0, 0.3, 1};
    machine.set_numbers(at, static_cast<int>(lanes), static_cast<int>(slots), shares[draw_.below(3)]);
  }
  bool step() {
    if (changes_numbers_) change_numbers();
    for (StageId id : machine.graph().stages.ids())
      if (machine.most_group(id) > 1 && draw_.chance(0.1))
        machine.set_group(id, static_cast<int>(draw_.between(1, machine.most_group(id))));
    std::vector<std::function<void()>> choices;
    for (auto& [to, channel] : channels_)
      if (!channel.empty())
        choices.push_back([&, c = &channel] {
          const StageMessage message = c->front();
          c->pop_front();
          machine.deliver(message);
        });
    for (StageId id : machine.graph().stages.ids())
      if (machine.ready(id))
        choices.push_back([this, id] {
          std::vector<StageExecution> group;
          group.push_back(machine.begin(id));
          while (static_cast<int>(group.size()) < machine.most_group(id) && machine.can_join(group[0]) &&
                 draw_.chance(0.7))
            group.push_back(machine.begin(id, true));
          machine.execute(group);
          most_joined = std::max(most_joined, group.size());
          for (StageExecution& execution : group) running_.push_back(std::move(execution));
        });
    for (std::size_t i = 0; i < running_.size(); ++i)
      choices.push_back([this, i] {
        StageExecution execution = std::move(running_[i]);
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
        machine.complete(execution);
      });
    if (choices.empty()) return false;
    choices[static_cast<std::size_t>(draw_.below(static_cast<std::int64_t>(choices.size())))]();
    most_bytes = std::max(most_bytes, machine.bytes_held());
    most_acts = std::max(most_acts, machine.running());
    collect();
    return true;
  }
  void collect() {
    for (const StageMessage& message : machine.sent())
      channels_[{message.to, message.kind == StageMessage::Kind::filled ? message.port : -1}].push_back(message);
    machine.sent().clear();
  }

  Draw draw_;
  bool has_cache_;  // which keeps elements after the end of the stream
  bool changes_numbers_ = false;
  std::map<std::pair<StageId, int>, std::deque<StageMessage>> channels_;
  std::vector<StageExecution> running_;
};

}  // namespace karez::data

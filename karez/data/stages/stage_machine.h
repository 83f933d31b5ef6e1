// Executes the actors of a data set without a thread: the caller chooses the next act and delivers the messages.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "karez/base/by_id.h"
#include "karez/data/namespace.h"
#include "karez/data/stages/stage_tree.h"
#include "karez/plan/stages.h"

namespace karez::data {

// The cores that acts of stages with automatic lanes may use, in thousandths of a core. Several machines may share it;
// the caller guards it.
struct CoreBudget {
  int cores = 0, used = 0;
  bool allows(int share) const { return used == 0 || used + share <= cores; }
};

// An act between `begin` and `complete`.
struct StageExecution {
  plan::StageId stage;
  plan::StageAct act;
  RunStart run;  // of a start
  Element input, output;
  std::exception_ptr error;  // of the input; after `execute`, of the act
  Emission emission = Emission::nothing;
  Segment::NextPorts next_inputs;
  std::int64_t reserved = 0;  // bytes of the element that the act is assumed to emit
  std::int64_t held = 0;      // after `execute`: bytes of arrays that the stage holds inside, if bytes are limited
  int cores = 0;              // of the core budget, in thousandths
  std::vector<InputStarts::Entry> starts;
};

// Only `execute` may be called while other calls run, for different executions.
class StageMachine {
 public:
  explicit StageMachine(StageTree tree);

  // Whether a stage may act: it has its input and a free slot, and the limits of the data set allow it.
  bool ready(plan::StageId stage) const { return ports_[stage].ready() && (!limited_ || is_within_limits(stage)); }
  StageExecution begin(plan::StageId stage, bool joins = false);
  // Whether a further element can be computed together with that of an act that has just begun: its act joins the
  // other one (StagePorts::can_join), and the limit of bytes allows it.
  bool can_join(const StageExecution& execution) const;
  // Does the work of the act, or of several acts that have joined the first. Never throws: an error of a stage ends its
  // run and travels to the reader.
  void execute(StageExecution& execution);
  void execute(std::span<StageExecution> group);
  void complete(StageExecution& execution);

  // The reader's end. `read` removes the next element; nothing if the run has ended, and an error of a stage is thrown.
  void start(const RunStart& run);
  void stop();
  bool readable() const { return !reader_.empty(); }
  std::size_t readable_count() const { return reader_.count(); }
  bool reading() const { return reader_.open(); }  // a run has started and not ended
  std::optional<Element> read();

  // The messages that calls have sent and that have not been delivered yet, oldest first. The driver removes them.
  std::vector<plan::StageMessage>& sent() { return sent_; }
  void deliver(const plan::StageMessage& message);
  void deliver_all();

  // Sets the numbers of lanes and slots of a unit of StageTree::tuned, which only delays acts, as the limits of the
  // data set do. `core_share`: what an act of it needs of the core budget.
  void set_numbers(std::size_t unit, int lanes, int slots, double core_share);
  // The number of elements that each lane of a stage computes together, which changes the slots in use.
  void set_group(plan::StageId stage, int size);
  int group(plan::StageId stage) const { return actors_[stage]->group; }
  int most_group(plan::StageId stage) const { return tree_.work[stage].most_group; }
  void set_core_budget(CoreBudget* budget) { core_budget_ = budget; }
  // What a stage lacks for another act, and whether its consumer lacks only an element of this stage.
  plan::StageObstacle obstacle(plan::StageId stage) const;
  bool awaited(plan::StageId stage, bool reader_waits) const;
  std::int64_t element_bytes(plan::StageId stage) const { return actors_[stage]->element_bytes; }

  // Lets running acts end soon; no further act may begin.
  void cancel();
  const plan::StageGraph& graph() const { return tree_.graph; }
  const plan::StagePorts& ports(plan::StageId stage) const { return ports_[stage]; }
  std::int64_t elements_held() const;  // elements in slots
  // The bytes of arrays in slots and inside of stages, and those that running acts are assumed to emit. Counted only if
  // they are limited.
  std::int64_t bytes_held() const { return bytes_ + held_ + reserved_; }
  int running() const { return running_; }  // acts, without those that have joined others
  const StageTree& tree() const { return tree_; }
  // What a stage has done since the machine was made.
  struct Counts {
    std::int64_t acts = 0;      // except starts and stops
    std::int64_t elements = 0;  // emitted
  };
  const Counts& counts(plan::StageId stage) const { return actors_[stage]->counts; }

  // What a slot holds.
  struct Slot {
    std::optional<Element> element;
    std::exception_ptr error;
    std::int64_t bytes = 0;  // of the element's arrays; 0 if they are not limited
  };
  // Elements and errors that no act and no reader will get. The destructors of objects in elements may do anything, so
  // the driver takes and destroys them when it holds no lock.
  std::vector<Slot>& dropped() { return dropped_; }

 private:
  struct Actor {
    std::vector<Slot> slots;
    RunStart run;                    // of the start that was requested last
    std::exception_ptr start_error;  // the error of a start, which the next act reports
    std::atomic<bool> cancelled{false};
    std::int64_t element_bytes = 0;  // of the largest element that was emitted recently
    std::int64_t held = 0;           // bytes inside of the stage, after its last act
    Counts counts;
    int group = 1;  // set_group
  };

  // A unit of StageTree::tuned.
  struct Unit {
    int lanes = 0, running = 0;  // of all stages of the unit; lanes 0: their ports have the limit
    int core_share = 0;          // thousandths
  };
  Unit* unit_of(plan::StageId stage) { return unit_numbers_[stage] < 0 ? nullptr : &units_[unit_index(stage)]; }
  const Unit* unit_of(plan::StageId stage) const {
    return unit_numbers_[stage] < 0 ? nullptr : &units_[unit_index(stage)];
  }
  std::size_t unit_index(plan::StageId stage) const { return static_cast<std::size_t>(unit_numbers_[stage]); }
  bool has_lane(plan::StageId stage) const;
  bool is_within_limits(plan::StageId stage) const;
  std::int64_t bytes_after_begin(plan::StageId stage) const;
  plan::StageId needed() const;
  std::int64_t assumed_bytes(plan::StageId stage) const;
  std::optional<Element> take_element(Slot& slot);
  const Slot& slot(plan::StageId stage, int number) const {
    return actors_[stage]->slots[static_cast<std::size_t>(number)];
  }
  Slot& slot(plan::StageId stage, int number) { return actors_[stage]->slots[static_cast<std::size_t>(number)]; }
  void drop(Slot& slot);
  void execute_start(StageExecution& execution);
  void execute_element(StageExecution& execution);
  void check_size(plan::StageId stage, std::int64_t bytes, const char* what) const;

  StageTree tree_;
  ById<plan::StageId, plan::StagePorts> ports_;
  ById<plan::StageId, std::unique_ptr<Actor>> actors_;
  plan::StageInput reader_;
  ById<plan::StageId, plan::StageId> consumers_;
  ById<plan::StageId, int> unit_numbers_;  // -1: none
  std::vector<Unit> units_;
  CoreBudget* core_budget_ = nullptr;
  const bool limited_, counts_bytes_;
  int running_ = 0;
  std::int64_t bytes_ = 0, held_ = 0, reserved_ = 0;  // in slots, inside of stages, and for running acts
  std::vector<plan::StageMessage> sent_;
  std::vector<Slot> dropped_;
};

}  // namespace karez::data

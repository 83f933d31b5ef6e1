// Executes the actors of a data set without a thread: the caller chooses the next act and delivers the messages.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "karez/base/by_id.h"
#include "karez/data/namespace.h"
#include "karez/data/stages/stage_tree.h"
#include "karez/plan/stages.h"

namespace karez::data {

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
  std::vector<InputStarts::Entry> starts;
};

// Only `execute` may be called while other calls run, for different executions.
class StageMachine {
 public:
  explicit StageMachine(StageTree tree);

  // Whether a stage may act: it has its input and a free slot, and the limits of the data set allow it.
  bool ready(plan::StageId stage) const { return ports_[stage].ready() && (!limited_ || is_within_limits(stage)); }
  StageExecution begin(plan::StageId stage);
  // Does the work of the act. Never throws: an error of a stage ends its run and travels to the reader.
  void execute(StageExecution& execution);
  void complete(StageExecution& execution);

  // The reader's end. `read` removes the next element; nothing if the run has ended, and an error of a stage is thrown.
  void start(const RunStart& run);
  void stop();
  bool readable() const { return !reader_.empty(); }
  bool reading() const { return reader_.open(); }  // a run has started and not ended
  std::optional<Element> read();

  // The messages that calls have sent and that have not been delivered yet, oldest first. The driver removes them.
  std::vector<plan::StageMessage>& sent() { return sent_; }
  void deliver(const plan::StageMessage& message);
  void deliver_all();

  // Lets running acts end soon; no further act may begin.
  void cancel();
  const plan::StageGraph& graph() const { return tree_.graph; }
  const plan::StagePorts& ports(plan::StageId stage) const { return ports_[stage]; }
  std::int64_t elements_held() const;  // elements in slots
  // The bytes of arrays in slots and inside of stages, and those that running acts are assumed to emit. Counted only if
  // they are limited.
  std::int64_t bytes_held() const { return bytes_ + held_ + reserved_; }
  int running() const { return running_; }  // acts
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
  };

  bool is_within_limits(plan::StageId stage) const;
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
  const bool limited_;
  int running_ = 0;
  std::int64_t bytes_ = 0, held_ = 0, reserved_ = 0;  // in slots, inside of stages, and for running acts
  std::vector<plan::StageMessage> sent_;
  std::vector<Slot> dropped_;
};

}  // namespace karez::data

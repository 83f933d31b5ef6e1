// Constructs the state of stages, and reports messages that break the protocol.
#include "karez/plan/stages.h"

#include <algorithm>

#include "karez/base/error.h"

namespace karez::plan {

void verify(const StageGraph& graph) {
  require(!graph.stages.empty(), "stages: a pipeline must have at least one stage");
  ById<StageId, int> consumers(graph.stages.size(), 0);
  for (StageId id : graph.stages.ids()) {
    const Stage& stage = graph.stages[id];
    require(stage.lanes >= 1, "stages: ", stage.name, ": the number of lanes must be at least 1, got ", stage.lanes);
    require(stage.slots >= stage.lanes, "stages: ", stage.name,
            ": the number of slots must be at least the number of lanes, ", stage.lanes, ", got ", stage.slots);
    require(stage.lanes == 1 || stage.inputs.size() <= 1, "stages: ", stage.name,
            ": a stage with several lanes must have at most one input, got ", stage.inputs.size());
    for (StageId input : stage.inputs) {
      require(input.valid() && input < id, "stages: ", stage.name, ": an input must be an earlier stage, got stage ",
              input);
      require(++consumers[input] == 1, "stages: ", graph.stages[input].name, " must have one consumer");
    }
  }
  for (StageId id : graph.stages.ids()) {
    const bool last = static_cast<std::size_t>(id.index) + 1 == graph.stages.size();
    require(consumers[id] == (last ? 0 : 1), "stages: ", graph.stages[id].name,
            last ? " is the last stage, so no stage may read it" : " must have one consumer");
  }
}

std::string print(const StageMessage& m) {
  const std::string to = m.to == stream_reader ? std::string("the reader") : cat("stage ", m.to);
  switch (m.kind) {
    case StageMessage::Kind::filled:
      return cat("filled slot ", m.slot, m.last ? " last piece " : " piece ", m.piece, " of run ", m.run, " to ", to);
    case StageMessage::Kind::returned: return cat("returned slot ", m.slot, " to ", to);
    case StageMessage::Kind::start: return cat("start run ", m.run, " to ", to);
    case StageMessage::Kind::stop: return cat("stop before run ", m.run, " to ", to);
  }
  return {};
}

void StageInput::check(const StageMessage& message) const {
  const char* reason = nullptr;
  if (!open_) reason = "no run is open";
  else if (message.piece != piece_) reason = "this is not the piece that the input expects next";
  else if (last_received_) reason = "the last piece of the run was received before";
  else if (count_ == pieces_.size()) reason = "all slots of this input are filled";
  if (reason != nullptr) fail("input ", port_, " received '", print(message), "', but ", reason);
}

StagePorts::StagePorts(const StageGraph& graph, StageId id) : stage_(id) {
  const Stage& stage = graph.stages[id];
  lanes_ = lane_limit_ = stage.lanes;
  ordered_ = stage.ordered || lanes_ == 1;
  for (std::size_t i = 0; i < stage.inputs.size(); ++i)
    inputs_.emplace_back(stage.inputs[i], static_cast<int>(i), graph.stages[stage.inputs[i]].slots);
  for (StageId other : graph.stages.ids()) {
    const auto& inputs = graph.stages[other].inputs;
    const auto at = std::find(inputs.begin(), inputs.end(), id);
    if (at != inputs.end()) consumer_ = other, port_ = static_cast<int>(at - inputs.begin());
  }
  const auto slots = static_cast<std::size_t>(stage.slots);
  state_.assign(slots, SlotState::free);
  pending_.resize(slots);
  for (int slot = stage.slots - 1; slot >= 0; --slot) free_.push_back(slot);  // slot 0 is taken first
}

void StagePorts::set_limits(int lanes, int slots) {
  require(lanes >= 1 && lanes <= lanes_, "stage ", stage_, ": the limit of lanes must be between 1 and ", lanes_,
          ", got ", lanes);
  require(slots >= 1 && slots <= this->slots(), "stage ", stage_, ": the limit of slots must be between 1 and ",
          this->slots(), ", got ", slots);
  lane_limit_ = lanes;
  unused_slots_ = this->slots() - slots;
}

void StagePorts::request(const StageMessage& message) {
  if (message.run <= run_) fail_take(message, "this run has begun already");
  run_ = message.run;
  active_ = false;
  control_ = message.kind == StageMessage::Kind::start ? Control::start : Control::stop;
}

void StagePorts::discard_pending() {
  for (PendingResult& result : pending_) {
    if (result.done) release(result.slot);
    result.done = false;
  }
  if (last_slot_ >= 0) release(last_slot_);
  last_slot_ = -1;
}

StageAct StagePorts::begin(bool joins) {
  if (joins ? !can_join() : !ready()) fail("stage ", stage_, " begins an act although it is not ready: ", text());
  ++running_;
  joined_ += joins;
  StageAct act;
  act.joins = joins;
  act.run = run_;
  if (control_ != Control::none) {
    act.kind = control_ == Control::start ? StageAct::Kind::start : StageAct::Kind::stop;
    control_ = Control::none;
    discard_pending();
    draining_ = false;
    piece_ = sequence_ = first_pending_ = 0;
    return act;
  }
  act.sequence = sequence_++;
  act.slot = free_.back();
  free_.pop_back();
  state_[static_cast<std::size_t>(act.slot)] = SlotState::taken;
  if (next_input_ >= 0) {
    act.input = last_read_ = readable_input();
    act.piece = inputs_[static_cast<std::size_t>(act.input)].pop();
  }
  return act;
}

void StagePorts::set_next_input(const StageResult& result) {
  next_input_ = result.next_input;
  choices_ = 1;
  if (next_input_ < 0) return;
  require(result.choices >= 1 && next_input_ <= input_count() - result.choices, "stage ", stage_, " reads input ",
          next_input_ + result.choices - 1, ", but has ", input_count(), " inputs");
  choices_ = result.choices;
  require(open_input() >= 0, "stage ", stage_, " reads input ", next_input_, ", whose run has ended");
}

StageActivity StagePorts::activity() const {
  if (running_ > 0) return StageActivity::acting;
  if (control_ != Control::none) return StageActivity::ready;
  if (!active_) return StageActivity::inactive;
  if (!has_slot()) return StageActivity::no_slot;
  return next_input_ >= 0 && readable_input() < 0 ? StageActivity::no_input : StageActivity::ready;
}

StageObstacle StagePorts::obstacle() const {
  if (!active_ || draining_ || control_ != Control::none) return StageObstacle::other;
  if (lanes_ == 1 && running_ > 0) return StageObstacle::other;  // the input that it reads next is not known
  const bool lane = busy_lanes() < lane_limit_, slot = has_slot(), input = next_input_ < 0 || readable_input() >= 0;
  if (lane + slot + input < 2) return StageObstacle::other;
  if (!lane) return StageObstacle::lane;
  if (!slot) return StageObstacle::slot;
  return input ? StageObstacle::none : StageObstacle::input;
}

std::string StagePorts::text() const {
  std::string out = cat(running_ > 0 ? cat("runs ", running_, " acts")
                        : ready()    ? "ready"
                                     : "waits",
                        " run ", run_, active_ ? "" : " ended", " pieces ", piece_);
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    out += cat("; input ", i, " holds ", inputs_[i].count(), inputs_[i].open() ? "" : " ended");
  if (active_ && next_input_ >= 0) out += cat("; reads input ", next_input_);
  return out + cat("; ", free_.size(), " of ", state_.size(), " slots free");
}

void StagePorts::fail_take(const StageMessage& message, const char* reason) const {
  fail("stage ", stage_, " received '", print(message), "', but ", reason);
}

}  // namespace karez::plan

// Executes the acts of data stages and moves elements between their slots.
#include "karez/data/stages/stage_machine.h"

#include <algorithm>
#include <utility>

#include "karez/data/stages/stage_scope.h"

namespace karez::data {

using plan::StageAct;
using plan::StageId;
using plan::StageMessage;
using plan::StageResult;

namespace {

StageId last_stage(const plan::StageGraph& graph) { return StageId(graph.stages.size() - 1); }

}  // namespace

StageMachine::StageMachine(StageTree tree)
    : tree_(std::move(tree)),
      reader_(last_stage(tree_.graph), 0, tree_.graph.stages.back().slots),
      units_(tree_.tuned.size()),
      limited_(tree_.bytes > 0 || tree_.cpu > 0 || !tree_.tuned.empty()),
      counts_bytes_(tree_.bytes > 0 || !tree_.tuned.empty()) {
  for (StageId id : tree_.graph.stages.ids()) {
    ports_.emplace_back(tree_.graph, id);
    actors_.push_back(std::make_unique<Actor>());
    actors_[id]->slots.resize(static_cast<std::size_t>(tree_.graph.stages[id].slots));
    consumers_.push_back(plan::stream_reader);
    unit_numbers_.push_back(-1);
    for (StageId input : tree_.graph.stages[id].inputs) consumers_[input] = id;
  }
  for (std::size_t i = 0; i < tree_.tuned.size(); ++i)
    for (StageId stage : tree_.tuned[i].stages) unit_numbers_[stage] = static_cast<int>(i);
  for (StageId id : tree_.graph.stages.ids())
    if (most_group(id) > 1) set_group(id, 1);
}

void StageMachine::set_group(StageId stage, int size) {
  actors_[stage]->group = size;
  const StageId input = tree_.graph.stages[stage].inputs[0];
  for (StageId changed : {stage, input}) {
    if (unit_of(changed) != nullptr) continue;  // the tuner sets them
    int slots = tree_.work[changed].single_slots;
    const plan::Stage& own = tree_.graph.stages[changed];
    if (most_group(changed) > 1) slots = std::max(slots, 2 * own.lanes * actors_[changed]->group);
    const StageId consumer = consumers_[changed];
    if (consumer != plan::stream_reader && most_group(consumer) > 1)
      slots = std::max(slots, tree_.graph.stages[consumer].lanes * actors_[consumer]->group + 1);
    ports_[changed].set_limits(own.lanes, slots);
  }
}

bool StageMachine::can_join(const StageExecution& execution) const {
  if (execution.act.kind != StageAct::Kind::element || execution.act.piece.last || execution.error) return false;
  return ports_[execution.stage].can_join() && (tree_.bytes == 0 || bytes_after_begin(execution.stage) <= tree_.bytes);
}

void StageMachine::set_numbers(std::size_t unit, int lanes, int slots, double core_share) {
  const TunedUnit& tuned = tree_.tuned.at(unit);
  units_[unit].core_share = tuned.most_lanes > 1 ? static_cast<int>(1000 * core_share) : 0;
  if (tuned.stages.size() > 1) units_[unit].lanes = lanes;
  for (StageId stage : tuned.stages) {
    const plan::Stage& most = tree_.graph.stages[stage];
    ports_[stage].set_limits(tuned.most_lanes > 1 && tuned.stages.size() == 1 ? lanes : most.lanes,
                             std::min(slots, most.slots));
  }
}

bool StageMachine::has_lane(StageId stage) const {
  const Unit* unit = unit_of(stage);
  return unit == nullptr || unit->lanes == 0 || unit->running < unit->lanes;
}

plan::StageObstacle StageMachine::obstacle(StageId stage) const {
  const plan::StageObstacle obstacle = ports_[stage].obstacle();
  return obstacle == plan::StageObstacle::none && !has_lane(stage) ? plan::StageObstacle::lane : obstacle;
}

bool StageMachine::awaited(StageId stage, bool reader_waits) const {
  const StageId consumer = consumers_[stage];
  if (consumer == plan::stream_reader) return reader_waits && reader_.empty();
  const plan::StagePorts& ports = ports_[consumer];
  if (ports.obstacle() != plan::StageObstacle::input || !has_lane(consumer)) return false;
  return ports.reads_next(stage);
}

// The limits only delay acts: a stream with limits behaves as without them under a schedule that begins the delayed
// acts later. The same is true for numbers of lanes and slots below those of the graph, and for a core budget, which is
// not exhausted when no act runs. Under every schedule without limits, the reader gets its next element as long as some
// ready act begins. So it is sufficient that an act may begin whenever the stream would stop otherwise: if no act runs
// (in which case the limit of acts is not reached), the reader has nothing to read, and all messages are delivered.
// Then `needed` is a stage that is ready: begin at the last stage. It waits for no slot, because the reader holds none
// and no act has taken one. If its input is empty, then the same is true for the stage that fills this input: the input
// is open, so the stage has a run or is about to start it, all of its slots are free, and it waits for no earlier act.
// Each step goes to an earlier stage, and a stage without inputs waits for nothing.
bool StageMachine::is_within_limits(StageId stage) const {
  if (tree_.cpu > 0 && running_ >= tree_.cpu) return false;
  const plan::StagePorts& ports = ports_[stage];
  if (const Unit* unit = unit_of(stage); unit != nullptr && !ports.controlled()) {
    if (!has_lane(stage)) return false;
    if (core_budget_ != nullptr && unit->core_share > 0 && !core_budget_->allows(unit->core_share)) return false;
  }
  if (tree_.bytes == 0 || ports.controlled()) return true;
  return bytes_after_begin(stage) <= tree_.bytes || (running_ == 0 && !readable() && stage == needed());
}

// Assumes that the act emits an element.
std::int64_t StageMachine::bytes_after_begin(StageId stage) const {
  const plan::StagePorts& ports = ports_[stage];
  const std::int64_t bytes = bytes_held() + assumed_bytes(stage);
  if (ports.next_input() < 0) return bytes;
  const plan::StageInput& input = ports.input(ports.readable_input());  // the act takes an element out of its slot
  return bytes - slot(input.producer(), input.front().slot).bytes;
}

// The stage whose act the reader needs next; none while a message is on its way.
StageId StageMachine::needed() const {
  for (StageId stage = last_stage(tree_.graph);;) {
    const plan::StagePorts& ports = ports_[stage];
    if (ports.free_slots() < ports.slots()) return {};
    if (ports.ready()) return stage;
    const int input = ports.active() ? ports.open_input() : -1;
    if (input < 0) return {};
    stage = ports.input(input).producer();
  }
}

// At least one byte, so that no act begins when the limit is reached, whatever it emits.
std::int64_t StageMachine::assumed_bytes(StageId stage) const {
  return std::max<std::int64_t>(actors_[stage]->element_bytes, 1);
}

std::optional<Element> StageMachine::take_element(Slot& slot) {
  bytes_ -= std::exchange(slot.bytes, 0);
  return std::exchange(slot.element, std::nullopt);
}

StageExecution StageMachine::begin(StageId stage, bool joins) {
  StageExecution execution;
  running_ += !joins;
  execution.stage = stage;
  execution.act = ports_[stage].begin(joins);
  if (Unit* unit = unit_of(stage); unit != nullptr && !joins && execution.act.kind == StageAct::Kind::element) {
    ++unit->running;
    if (core_budget_ != nullptr) core_budget_->used += execution.cores = unit->core_share;
  }
  Actor& actor = *actors_[stage];
  if (execution.act.kind == StageAct::Kind::start) execution.run = actor.run;
  if (execution.act.kind != StageAct::Kind::element) {
    actor.cancelled = false;
    actor.start_error = nullptr;
    return execution;
  }
  execution.error = std::exchange(actor.start_error, nullptr);
  if (tree_.bytes > 0) reserved_ += execution.reserved = assumed_bytes(stage);
  if (execution.act.input < 0) return execution;
  Slot& read = slot(ports_[stage].input(execution.act.input).producer(), execution.act.piece.slot);
  if (read.error) execution.error = std::exchange(read.error, nullptr);
  if (std::optional<Element> element = take_element(read)) execution.input = std::move(*element);
  return execution;
}

void StageMachine::execute(StageExecution& execution) {
  const StageScope scope;
  const StageWork& work = tree_.work[execution.stage];
  try {
    switch (execution.act.kind) {
      case StageAct::Kind::start: execute_start(execution); break;
      case StageAct::Kind::stop: tree_.work[execution.stage].segment.stop(); break;
      case StageAct::Kind::element: execute_element(execution); break;
    }
    if (tree_.bytes > 0 && tree_.oversize == Oversize::error && execution.act.kind == StageAct::Kind::element) {
      check_size(execution.stage, array_bytes(execution.output), "makes an element of ");
      if (!work.function) check_size(execution.stage, work.segment.held_bytes(), "holds elements of ");
    }
  } catch (...) {
    execution.error = std::current_exception();
    execution.emission = Emission::last;
    execution.starts.clear();
    execution.next_inputs = {};
  }
  if (work.function) return;
  if (execution.act.kind == StageAct::Kind::element && execution.emission == Emission::last)
    tree_.work[execution.stage].segment.stop();  // what bodies before the one that ended the run still hold
  if (counts_bytes_) execution.held = work.segment.held_bytes();
}

void StageMachine::execute(std::span<StageExecution> group) {
  if (group.size() == 1) return execute(group[0]);
  const StageScope scope;
  const StageWork& work = tree_.work[group[0].stage];
  std::vector<FunctionCall> calls;
  for (StageExecution& execution : group) calls.push_back({&execution.input, &execution.output});
  work.group_function(calls);
  for (std::size_t i = 0; i < group.size(); ++i) {
    StageExecution& execution = group[i];
    execution.emission = calls[i].emission;
    try {
      if (calls[i].error) std::rethrow_exception(calls[i].error);
      if (tree_.bytes > 0 && tree_.oversize == Oversize::error)
        check_size(execution.stage, array_bytes(execution.output), "makes an element of ");
    } catch (...) {
      execution.error = std::current_exception();
      execution.emission = Emission::last;
    }
  }
}

void StageMachine::check_size(StageId stage, std::int64_t bytes, const char* what) const {
  require(ErrorKind::data, bytes <= tree_.bytes, "stage ", tree_.current_stage(stage), " ", what, bytes,
          " bytes, but with_options allows ", tree_.bytes, " bytes");
}

void StageMachine::execute_start(StageExecution& execution) {
  StageWork& work = tree_.work[execution.stage];
  if (work.function) {
    execution.starts.push_back({0, execution.run});
    return;
  }
  work.segment.start(execution.run);
  execution.starts = work.segment.port_starts();
  execution.next_inputs = work.segment.next_ports();
}

void StageMachine::execute_element(StageExecution& execution) {
  if (execution.error) {
    execution.emission = Emission::last;
    return;
  }
  StageWork& work = tree_.work[execution.stage];
  const bool has_element = execution.act.input >= 0 && !execution.act.piece.last;
  if (work.function) {
    execution.emission = has_element ? work.function(execution.input, execution.output) : Emission::last;
    return;
  }
  execution.emission = work.segment.act(has_element ? &execution.input : nullptr, execution.output,
                                        actors_[execution.stage]->cancelled, execution.act.input);
  execution.starts = work.segment.port_starts();
  if (execution.emission != Emission::last) execution.next_inputs = work.segment.next_ports();
}

void StageMachine::complete(StageExecution& execution) {
  plan::StagePorts& ports = ports_[execution.stage];
  Actor& actor = *actors_[execution.stage];
  running_ -= !execution.act.joins;
  reserved_ -= execution.reserved;
  held_ += execution.held - std::exchange(actor.held, execution.held);
  if (Unit* unit = unit_of(execution.stage);
      unit != nullptr && !execution.act.joins && execution.act.kind == StageAct::Kind::element)
    --unit->running;
  if (core_budget_ != nullptr) core_budget_->used -= execution.cores;
  actor.counts.acts += execution.act.kind == StageAct::Kind::element;
  if (execution.act.kind == StageAct::Kind::start && execution.error) actor.start_error = execution.error;
  if (execution.act.kind == StageAct::Kind::element && execution.emission != Emission::nothing) {
    Slot& written = slot(execution.stage, execution.act.slot);
    written.error = execution.error;
    if (execution.emission == Emission::element) {
      if (counts_bytes_) {
        bytes_ += written.bytes = array_bytes(execution.output);
        actor.element_bytes = std::max(written.bytes, actor.element_bytes - actor.element_bytes / 8);
      }
      written.element = std::move(execution.output);
    }
  }
  std::vector<int> starts;
  for (InputStarts::Entry& entry : execution.starts) {
    starts.push_back(entry.input);
    Actor& producer = *actors_[ports.input(entry.input).producer()];
    producer.run = std::move(entry.run);
  }
  const StageResult result{execution.emission, execution.next_inputs.first, starts, execution.next_inputs.count};
  ports.complete(execution.act, result, [&](const StageMessage& message) {
    actor.counts.elements += message.kind == StageMessage::Kind::filled && !message.last;
    sent_.push_back(message);
  });
  if (execution.act.kind == StageAct::Kind::element && ports.active()) return;
  for (int i = 0; i < ports.slots(); ++i)  // results of a run that ended early
    if (ports.is_free(i)) drop(slot(execution.stage, i));
}

void StageMachine::drop(Slot& slot) {
  bytes_ -= slot.bytes;
  if (slot.element || slot.error) dropped_.push_back(std::exchange(slot, {}));
}

void StageMachine::start(const RunStart& run) {
  actors_.back()->run = run;
  reader_.start([&](const StageMessage& message) { sent_.push_back(message); });
}

void StageMachine::stop() {
  reader_.stop([&](const StageMessage& message) { sent_.push_back(message); });
}

std::optional<Element> StageMachine::read() {
  const plan::StagePiece piece = reader_.pop();
  Slot& read = slot(reader_.producer(), piece.slot);
  std::exception_ptr error = std::exchange(read.error, nullptr);
  std::optional<Element> element = take_element(read);
  reader_.give_back(piece.slot, [&](const StageMessage& message) { sent_.push_back(message); });
  if (error) std::rethrow_exception(error);
  return element;
}

void StageMachine::deliver(const StageMessage& message) {
  auto send = [&](const StageMessage& sent) { sent_.push_back(sent); };
  if (message.to == plan::stream_reader) return reader_.take(message, send);
  if (message.kind == StageMessage::Kind::returned) drop(slot(message.to, message.slot));
  if (message.kind == StageMessage::Kind::start || message.kind == StageMessage::Kind::stop)
    actors_[message.to]->cancelled = true;  // ends the running act early
  ports_[message.to].take(message, send);
}

void StageMachine::deliver_all() {
  for (std::size_t i = 0; i < sent_.size(); ++i) deliver(StageMessage(sent_[i]));
  sent_.clear();
}

void StageMachine::cancel() {
  for (const auto& actor : actors_) actor->cancelled = true;
}

std::int64_t StageMachine::elements_held() const {
  std::int64_t count = 0;
  for (const auto& actor : actors_)
    for (const Slot& slot : actor->slots) count += slot.element.has_value();
  return count;
}

}  // namespace karez::data

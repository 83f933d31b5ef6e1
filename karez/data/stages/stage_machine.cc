// Executes the acts of data stages and moves elements between their slots.
#include "karez/data/stages/stage_machine.h"

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
      reader_(last_stage(tree_.graph), 0, tree_.graph.stages.back().slots) {
  for (StageId id : tree_.graph.stages.ids()) {
    ports_.emplace_back(tree_.graph, id);
    actors_.push_back(std::make_unique<Actor>());
    actors_[id]->slots.resize(static_cast<std::size_t>(tree_.graph.stages[id].slots));
  }
}

StageExecution StageMachine::begin(StageId stage) {
  StageExecution execution;
  execution.stage = stage;
  execution.act = ports_[stage].begin();
  Actor& actor = *actors_[stage];
  if (execution.act.kind == StageAct::Kind::start) execution.run = actor.run;
  if (execution.act.kind != StageAct::Kind::element) {
    actor.cancelled = false;
    actor.start_error = nullptr;
    return execution;
  }
  execution.error = std::exchange(actor.start_error, nullptr);
  if (execution.act.input < 0) return execution;
  Slot& read = slot(ports_[stage].input(execution.act.input).producer(), execution.act.piece.slot);
  if (read.error) execution.error = std::exchange(read.error, nullptr);
  if (read.element) execution.input = *std::exchange(read.element, std::nullopt);
  return execution;
}

void StageMachine::execute(StageExecution& execution) {
  const StageScope scope;
  try {
    switch (execution.act.kind) {
      case StageAct::Kind::start: return execute_start(execution);
      case StageAct::Kind::stop: return tree_.work[execution.stage].segment.stop();
      case StageAct::Kind::element: return execute_element(execution);
    }
  } catch (...) {
    execution.error = std::current_exception();
    execution.emission = Emission::last;
    execution.starts.clear();
    execution.next_input = -1;
  }
}

void StageMachine::execute_start(StageExecution& execution) {
  StageWork& work = tree_.work[execution.stage];
  if (work.function) {
    execution.starts.push_back({0, execution.run});
    return;
  }
  work.segment.start(execution.run);
  execution.starts = work.segment.port_starts();
  execution.next_input = work.segment.next_port();
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
  execution.emission =
      work.segment.act(has_element ? &execution.input : nullptr, execution.output, actors_[execution.stage]->cancelled);
  execution.starts = work.segment.port_starts();
  if (execution.emission != Emission::last) execution.next_input = work.segment.next_port();
}

void StageMachine::complete(StageExecution& execution) {
  plan::StagePorts& ports = ports_[execution.stage];
  Actor& actor = *actors_[execution.stage];
  if (execution.act.kind == StageAct::Kind::start && execution.error) actor.start_error = execution.error;
  if (execution.act.kind == StageAct::Kind::element && execution.emission != Emission::nothing) {
    Slot& written = slot(execution.stage, execution.act.slot);
    written.error = execution.error;
    if (execution.emission == Emission::element) written.element = std::move(execution.output);
  }
  std::vector<int> starts;
  for (InputStarts::Entry& entry : execution.starts) {
    starts.push_back(entry.input);
    Actor& producer = *actors_[ports.input(entry.input).producer()];
    producer.run = std::move(entry.run);
  }
  ports.complete(execution.act, {execution.emission, execution.next_input, starts},
                 [&](const StageMessage& message) { sent_.push_back(message); });
  if (execution.act.kind == StageAct::Kind::element && ports.active()) return;
  for (int i = 0; i < ports.slots(); ++i)  // results of a run that ended early
    if (ports.is_free(i)) drop(slot(execution.stage, i));
}

void StageMachine::drop(Slot& slot) {
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
  std::optional<Element> element = std::exchange(read.element, std::nullopt);
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

// Executes the bodies of a segment: each act begins at the body whose next act needs no element of another body.
#include "karez/data/stages/segment.h"

namespace karez::data {

int Segment::add(std::unique_ptr<StageBody> body, std::vector<int> inputs) {
  const int number = static_cast<int>(nodes_.size());
  for (int input : inputs)
    if (input >= 0) node(input).parent = number;
  nodes_.push_back({std::move(body), std::move(inputs), -1});
  return number;
}

void Segment::start(const RunStart& run) {
  port_starts_.clear();
  start(static_cast<int>(nodes_.size()) - 1, run);
}

void Segment::start(int i, const RunStart& run) {
  InputStarts starts;
  current_->store(i, std::memory_order_relaxed);
  node(i).body->start(run, starts);
  apply(i, starts);
}

void Segment::apply(int i, InputStarts& starts) {
  for (InputStarts::Entry& entry : starts.entries()) {
    const int input = node(i).inputs.at(static_cast<std::size_t>(entry.input));
    if (input >= 0) start(input, entry.run);
    else port_starts_.push_back({~input, std::move(entry.run)});
  }
}

void Segment::stop() {
  port_starts_.clear();
  for (Node& node : nodes_) node.body->stop();
}

// The inputs that a body chooses from are consecutive ports, because each of them is executed by its own actor.
Segment::NextPorts Segment::next_ports() const {
  for (int i = static_cast<int>(nodes_.size()) - 1; i >= 0;) {
    const StageBody& body = *node(i).body;
    const int input = body.next_input();
    if (input < 0) return {};
    i = node(i).inputs[static_cast<std::size_t>(input)];
    if (i < 0) return {~i, body.choices()};
  }
  return {};
}

std::int64_t Segment::held_bytes() const {
  std::int64_t bytes = 0;
  for (const Node& node : nodes_) bytes += node.body->held_bytes();
  return bytes;
}

Emission Segment::act(Element* element, Element& out, const std::atomic<bool>& cancelled, int port) {
  port_starts_.clear();
  const int root = static_cast<int>(nodes_.size()) - 1;
  bool first = true;
  while (!cancelled.load(std::memory_order_relaxed)) {
    int i = root, input = node(i).body->next_input();
    while (input >= 0 && node(i).inputs[static_cast<std::size_t>(input)] >= 0) {
      i = node(i).inputs[static_cast<std::size_t>(input)];
      input = node(i).body->next_input();
    }
    if (input >= 0 && !first) return Emission::nothing;  // the next element of a port is needed
    if (input >= 0 && node(i).body->choices() > 1)
      node(i).body->choose_input(input + port - ~node(i).inputs[static_cast<std::size_t>(input)]);
    current_->store(i, std::memory_order_relaxed);
    InputStarts starts(&cancelled);
    Element result;
    Emission emission = Emission::nothing;
    first = false;
    try {
      emission = node(i).body->act(input >= 0 ? element : nullptr, result, starts);
    } catch (...) {
      if (i == root || !node(node(i).parent).body->take_error(std::current_exception())) throw;
      continue;
    }
    apply(i, starts);
    for (; i != root && emission != Emission::nothing;) {
      i = node(i).parent;
      Element read = std::move(result);
      result = Element();
      starts.entries().clear();
      current_->store(i, std::memory_order_relaxed);
      emission = node(i).body->act(emission == Emission::element ? &read : nullptr, result, starts);
      apply(i, starts);
    }
    if (emission == Emission::nothing) continue;
    out = std::move(result);
    return emission;
  }
  return Emission::nothing;
}

}  // namespace karez::data

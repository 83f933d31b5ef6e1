// A segment: stages that one actor executes one after another, without messages between them.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/stages/stage_body.h"

namespace karez::data {

// A tree of bodies. Elements that come from other actors enter at ports.
class Segment {
 public:
  // The inputs of the body added next come from bodies added before (their numbers), or from ports (~port). The body
  // added last emits the elements of the segment.
  int add(std::unique_ptr<StageBody> body, std::vector<int> inputs);
  int add_port() { return ~ports_++; }
  int ports() const { return ports_; }

  void start(const RunStart& run);
  void stop();
  // The ports of which the next act reads one: `count` ports, beginning with `first`.
  struct NextPorts {
    int first = -1;  // -1: the act reads no port
    int count = 1;
  };
  NextPorts next_ports() const;
  // Reads an element from the port `port`, one of the next ports (null if the port has ended or if no port is read),
  // and executes bodies until one element is emitted, the run ends, or another element of a port is needed. Returns
  // `nothing` if `cancelled` becomes true between the acts of two bodies.
  Emission act(Element* element, Element& out, const std::atomic<bool>& cancelled, int port = -1);
  // The body that acts now or acted last. Any thread may call it.
  int current() const { return current_->load(std::memory_order_relaxed); }
  std::int64_t held_bytes() const;  // of all bodies (StageBody::held_bytes)
  // The ports whose next run the last call of `start` or `act` started.
  const std::vector<InputStarts::Entry>& port_starts() const { return port_starts_; }

 private:
  struct Node {
    std::unique_ptr<StageBody> body;
    std::vector<int> inputs;
    int parent = -1;
  };
  void start(int node, const RunStart& run);
  void apply(int node, InputStarts& starts);
  Node& node(int i) { return nodes_[static_cast<std::size_t>(i)]; }
  const Node& node(int i) const { return nodes_[static_cast<std::size_t>(i)]; }

  std::vector<Node> nodes_;
  int ports_ = 0;
  std::vector<InputStarts::Entry> port_starts_;
  std::unique_ptr<std::atomic<int>> current_ = std::make_unique<std::atomic<int>>(0);
};

}  // namespace karez::data

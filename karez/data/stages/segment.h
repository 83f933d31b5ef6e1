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
  // The port from which the next act reads an element; -1: none.
  int next_port() const;
  // Reads an element from that port (null if the port has ended or if no port is read) and executes bodies until one
  // element is emitted, the run ends, or another element of a port is needed. Returns `nothing` if `cancelled` becomes
  // true between the acts of two bodies.
  Emission act(Element* element, Element& out, const std::atomic<bool>& cancelled);
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
};

}  // namespace karez::data

// Reads the elements of a data set by index; the state of such a stage is the next index.
#include "karez/data/stages/random_access.h"

#include <algorithm>

#include "karez/data/stages/state_numbers.h"

namespace karez::data {
namespace {

class IndexBody : public StageBody {
 public:
  IndexBody(DatasetNodeRef node, bool reads) : node_(std::move(node)), size_(node_->size().value()), reads_(reads) {}
  void start(const RunStart& run, InputStarts&) override {
    epoch_ = run.epoch, next_ = 0;
    if (!run.state) return;
    next_ = checked_index(*node_, *run.state);
  }
  int next_input() const override { return -1; }
  Emission act(Element*, Element& out, InputStarts&) override {
    if (next_ >= size_) return Emission::last;
    if (reads_) out = node_->at(epoch_, next_);
    else out.epoch = epoch_, out.index = next_;
    out.state = stream_state({++next_});
    return Emission::element;
  }

 private:
  DatasetNodeRef node_;
  std::int64_t size_, epoch_ = 0, next_ = 0;
  bool reads_;
};

}  // namespace

std::int64_t DatasetNode::index_of(const StreamState& state) const {
  if (!has_state()) return inputs_[0]->index_of(state);
  check_state(state, 1, 0, name());
  return state.numbers[0];
}

std::int64_t checked_index(const DatasetNode& node, const StreamState& state) {
  const std::int64_t index = node.index_of(state), size = node.size().value();
  require(ErrorKind::data, index >= 0 && index <= size, "the state of stage ", node.name(), " is element ", index,
          ", but it has ", size, " elements");
  return index;
}

bool is_indexed_without_lanes(const DatasetNode& node) {
  if (!node.size() || node.collects() || node.changes_size()) return false;
  return std::all_of(node.inputs().begin(), node.inputs().end(),
                     [](const DatasetNodeRef& input) { return is_indexed_without_lanes(*input); });
}

std::unique_ptr<StageBody> random_access_body(DatasetNodeRef node) {
  return std::make_unique<IndexBody>(std::move(node), true);
}

std::unique_ptr<StageBody> index_body(DatasetNodeRef node) {
  return std::make_unique<IndexBody>(std::move(node), false);
}

ElementFunction read_by_index(DatasetNodeRef node) {
  return [node = std::move(node)](Element& in, Element& out) {
    out = node->at(in.epoch, in.index);
    out.state = std::move(in.state);
    return Emission::element;
  };
}

ElementGroupFunction read_group_by_index(DatasetNodeRef node) {
  ElementGroupFunction group = node->element_group_function();
  if (group == nullptr) return nullptr;
  return [node = std::move(node), group = std::move(group)](std::span<FunctionCall> calls) {
    std::vector<FunctionCall> read;
    for (FunctionCall& call : calls) {
      try {
        Element in = node->inputs()[0]->at(call.in->epoch, call.in->index);
        in.state = std::move(call.in->state);
        *call.in = std::move(in);
        read.push_back(call);
      } catch (...) { call.error = std::current_exception(); }
    }
    if (!read.empty()) group(read);
    for (std::size_t i = 0, next = 0; i < calls.size(); ++i)
      if (!calls[i].error) calls[i] = read[next++];
  };
}

}  // namespace karez::data

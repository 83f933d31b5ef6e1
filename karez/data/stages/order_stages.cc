// Stages that select, repeat and combine elements without looking into them.
#include <algorithm>

#include "karez/data/dataset.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/state_numbers.h"

namespace karez::data {
namespace {

StreamStateRef input_state(const StreamStateRef& state, std::size_t input) {
  return state ? state->inputs[input] : nullptr;
}

// A state that is an index: the index, or nothing for other states. `reads_index`: whether such a state is allowed, see
// is_indexed_without_lanes.
std::optional<std::int64_t> index_in(const StreamStateRef& state, bool reads_index, std::string_view stage) {
  if (!state || !reads_index || !is_index(*state)) return std::nullopt;
  require(ErrorKind::data, state->numbers[0] >= 0, "the state of stage ", stage, " is element ", state->numbers[0]);
  return state->numbers[0];
}

// Emits the elements begin, begin + step, ... of its input that lie before `end`.
class SliceBody : public StageBody {
 public:
  SliceBody(std::int64_t begin, std::int64_t end, std::int64_t step, bool reads_index)
      : begin_(begin),
        end_(end),
        step_(step),
        reads_index_(reads_index) {}
  void start(const RunStart& run, InputStarts& starts) override {
    read_ = 0;
    StreamStateRef state = run.state;
    if (const auto index = index_in(state, reads_index_, "take, skip or shard")) {
      const std::int64_t read = *index == 0 ? 0 : begin_ + (*index - 1) * step_ + 1;
      state = stream_state({read}, {stream_state({read})});
    }
    if (state) {
      check_state(*state, 1, 1, "take, skip or shard");
      read_ = state->numbers[0];
      require(ErrorKind::data, read_ >= 0, "the state of stage take, skip or shard is negative");
    }
    starts.add(0, {run.epoch, input_state(state, 0)});
  }
  int next_input() const override { return read_ < end_ ? 0 : -1; }
  Emission act(Element* element, Element& out, InputStarts&) override {
    if (element == nullptr) return Emission::last;
    const std::int64_t number = read_++;
    if (number < begin_ || (number - begin_) % step_ != 0) return Emission::nothing;
    out = std::move(*element);
    out.state = stream_state({read_}, {out.state});
    return Emission::element;
  }

 private:
  std::int64_t begin_, end_, step_, read_ = 0;
  bool reads_index_;
};

class SliceNode : public DatasetNode {
 public:
  SliceNode(DatasetNodeRef input, std::string name, std::string common_name, std::int64_t begin, std::int64_t end,
            std::int64_t step)
      : DatasetNode({std::move(input)}),
        name_(std::move(name)),
        common_name_(std::move(common_name)),
        begin_(begin),
        end_(end),
        step_(step) {}
  std::string name() const override { return name_; }
  std::string common_name() const override { return common_name_; }
  bool is_shard() const override { return name() != common_name(); }
  std::unique_ptr<StageBody> make_body() const override {
    return std::make_unique<SliceBody>(begin_, end_, step_, is_indexed_without_lanes(*this));
  }
  std::int64_t index_of(const StreamState& state) const override {
    if (is_index(state)) return state.numbers[0];
    check_state(state, 1, 1, name_);
    const std::int64_t read = state.numbers[0];
    return read <= begin_ ? 0 : (read - begin_ - 1) / step_ + 1;
  }
  std::optional<std::int64_t> size() const override {
    const std::optional<std::int64_t> input = inputs()[0]->size();
    if (!input) return std::nullopt;
    const std::int64_t end = std::min(*input, end_);
    if (end == endless) return endless;
    return end <= begin_ ? 0 : (end - begin_ - 1) / step_ + 1;
  }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    return inputs()[0]->at(epoch, begin_ + index * step_);
  }
  bool stacks() const override { return inputs()[0]->stacks(); }
  Element stacked(std::span<EpochIndex> places, ArrayPool& pool) const override {
    for (EpochIndex& place : places) place.index = begin_ + place.index * step_;
    return inputs()[0]->stacked(places, pool);
  }

 private:
  std::string name_, common_name_;
  std::int64_t begin_, end_, step_;
};

// The epoch of the input in its pass number `pass` within an epoch of the repetition.
std::int64_t inner_epoch(std::int64_t epoch, std::int64_t pass, std::int64_t count) {
  return wrapping_sum(count < 0 ? epoch : wrapping_product(epoch, count), pass);
}

class RepeatBody : public StageBody {
 public:
  // `rows`: of the input, if the state may be an index.
  RepeatBody(std::int64_t count, std::optional<std::int64_t> rows) : count_(count), rows_(rows) {}
  void start(const RunStart& run, InputStarts& starts) override {
    epoch_ = run.epoch, pass_ = 0, is_empty_ = true;
    StreamStateRef state = run.state;
    if (const auto index = index_in(state, rows_.has_value(), "repeat")) state = state_of(*index);
    if (state) {
      check_state(*state, 1, 1, "repeat");
      pass_ = state->numbers[0], is_empty_ = false;
      require(ErrorKind::data, pass_ >= 0 && (count_ < 0 || pass_ < count_), "the state of stage repeat is in pass ",
              pass_, ", but its count is ", count_);
    }
    if (count_ != 0) starts.add(0, {inner_epoch(epoch_, pass_, count_), input_state(state, 0)});
  }
  int next_input() const override { return pass_ == count_ ? -1 : 0; }
  Emission act(Element* element, Element& out, InputStarts& starts) override {
    if (pass_ == count_) return Emission::last;
    if (element == nullptr) {
      ++pass_;
      if (is_empty_ && count_ < 0) return Emission::last;  // it would look for an element without end
      is_empty_ = true;
      if (pass_ != count_) starts.add(0, {inner_epoch(epoch_, pass_, count_)});
      return Emission::nothing;
    }
    is_empty_ = false;  // this pass has an element
    out = std::move(*element);
    out.state = stream_state({pass_}, {out.state});
    return Emission::element;
  }

 private:
  // After the last element, the last pass is at its end.
  StreamStateRef state_of(std::int64_t index) const {
    if (index == 0 || *rows_ == 0) return nullptr;
    const std::int64_t pass = (index - 1) / *rows_;
    return stream_state({pass}, {stream_state({index - pass * *rows_})});
  }

  std::int64_t count_, epoch_ = 0, pass_ = 0;
  std::optional<std::int64_t> rows_;
  bool is_empty_ = true;
};

class RepeatNode : public DatasetNode {
 public:
  RepeatNode(DatasetNodeRef input, std::int64_t count) : DatasetNode({std::move(input)}), count_(count) {
    require(count >= -1, "repeat: count must be at least 0, or -1 for no end, got ", count);
  }
  std::string name() const override { return count_ < 0 ? "repeat" : cat("repeat(", count_, ")"); }
  std::unique_ptr<StageBody> make_body() const override {
    return std::make_unique<RepeatBody>(count_, is_indexed_without_lanes(*this) ? inputs()[0]->size() : std::nullopt);
  }
  std::int64_t index_of(const StreamState& state) const override {
    if (is_index(state)) return state.numbers[0];
    check_state(state, 1, 1, name());
    const std::int64_t in_pass = state.inputs[0] ? inputs()[0]->index_of(*state.inputs[0]) : 0;
    std::int64_t index = 0;
    const bool is_valid = in_pass >= 0 && state.numbers[0] >= 0 &&
                          !__builtin_mul_overflow(state.numbers[0], inputs()[0]->size().value(), &index) &&
                          !__builtin_add_overflow(index, in_pass, &index);
    require(ErrorKind::data, is_valid, "the state of stage ", name(), " is element ", in_pass, " of pass ",
            state.numbers[0]);
    return index;
  }
  std::optional<std::int64_t> size() const override {
    const std::optional<std::int64_t> input = inputs()[0]->size();
    if (!input || *input == 0 || count_ == 0) return input ? std::optional<std::int64_t>(0) : std::nullopt;
    std::int64_t size = 0;
    if (count_ < 0 || *input == endless || __builtin_mul_overflow(*input, count_, &size)) return endless;
    return size;
  }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    const std::int64_t rows = inputs()[0]->size().value();
    return inputs()[0]->at(inner_epoch(epoch, index / rows, count_), index % rows);
  }
  bool stacks() const override { return inputs()[0]->stacks(); }
  Element stacked(std::span<EpochIndex> places, ArrayPool& pool) const override {
    const std::int64_t rows = inputs()[0]->size().value();
    for (EpochIndex& p : places) p = {inner_epoch(p.epoch, p.index / rows, count_), p.index % rows};
    return inputs()[0]->stacked(places, pool);
  }

 private:
  std::int64_t count_;
};

class ConcatBody : public StageBody {
 public:
  // `rows`: of the inputs, if the state may be an index; otherwise empty.
  ConcatBody(int inputs, std::vector<std::int64_t> rows) : inputs_(inputs), rows_(std::move(rows)) {}
  void start(const RunStart& run, InputStarts& starts) override {
    epoch_ = run.epoch, current_ = 0;
    StreamStateRef state = run.state;
    if (const auto index = index_in(state, !rows_.empty(), "concat")) state = state_of(*index);
    if (state) {
      check_state(*state, 1, 1, "concat");
      require(ErrorKind::data, state->numbers[0] >= 0 && state->numbers[0] < inputs_,
              "the state of stage concat names input ", state->numbers[0], " of ", inputs_);
      current_ = static_cast<int>(state->numbers[0]);
    }
    starts.add(current_, {epoch_, input_state(state, 0)});
  }
  int next_input() const override { return current_ < inputs_ ? current_ : -1; }
  Emission act(Element* element, Element& out, InputStarts& starts) override {
    if (element == nullptr) {
      if (++current_ >= inputs_) return Emission::last;
      starts.add(current_, {epoch_});
      return Emission::nothing;
    }
    out = std::move(*element);
    out.state = stream_state({current_}, {out.state});
    return Emission::element;
  }

 private:
  StreamStateRef state_of(std::int64_t index) const {
    std::size_t input = 0;
    for (; input + 1 < rows_.size() && index >= rows_[input]; ++input) index -= rows_[input];
    return stream_state({static_cast<std::int64_t>(input)}, {stream_state({index})});
  }

  int inputs_, current_ = 0;
  std::vector<std::int64_t> rows_;
  std::int64_t epoch_ = 0;
};

class ConcatNode : public DatasetNode {
 public:
  explicit ConcatNode(std::vector<DatasetNodeRef> inputs) : DatasetNode(std::move(inputs)) {}
  std::string name() const override { return "concat"; }
  std::unique_ptr<StageBody> make_body() const override {
    std::vector<std::int64_t> rows;
    if (is_indexed_without_lanes(*this))
      for (const DatasetNodeRef& input : inputs()) rows.push_back(input->size().value());
    return std::make_unique<ConcatBody>(static_cast<int>(inputs().size()), std::move(rows));
  }
  std::int64_t index_of(const StreamState& state) const override {
    if (is_index(state)) return state.numbers[0];
    check_state(state, 1, 1, name());
    const std::int64_t current = state.numbers[0];
    require(ErrorKind::data, current >= 0 && current < static_cast<std::int64_t>(inputs().size()),
            "the state of stage concat names input ", current, " of ", inputs().size());
    const auto at = static_cast<std::size_t>(current);
    std::int64_t index = state.inputs[0] ? inputs()[at]->index_of(*state.inputs[0]) : 0;
    for (std::size_t i = 0; i < at; ++i) index += inputs()[i]->size().value();
    return index;
  }
  int input_of_state(const StreamState* state, int input) const override {
    return number_at(state, 0) == input ? 0 : -1;
  }
  std::optional<std::int64_t> size() const override {
    std::int64_t size = 0;
    for (const DatasetNodeRef& input : inputs()) {
      const std::optional<std::int64_t> rows = input->size();
      if (!rows) return std::nullopt;
      if (*rows == endless || __builtin_add_overflow(size, *rows, &size)) return endless;
    }
    return size;
  }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    for (const DatasetNodeRef& input : inputs()) {
      const std::int64_t rows = input->size().value();
      if (index < rows) return input->at(epoch, index);
      index -= rows;
    }
    return DatasetNode::at(epoch, index);  // an error
  }
};

// Joins elements to a tuple of the epoch and index of the first.
Element tuple_of(std::vector<Element>& parts) {
  Element out;
  std::vector<StructureRef> structures;
  std::vector<StreamStateRef> states;
  bool skipped = false;
  for (Element& part : parts) {
    for (Field& field : part.fields) out.fields.push_back(std::move(field));
    structures.push_back(std::move(part.structure));
    states.push_back(std::move(part.state));
    skipped = skipped || part.skipped;
  }
  out.structure = tuple_structure(std::move(structures));
  if (skipped) out = skipped_element();
  out.epoch = parts[0].epoch, out.index = parts[0].index;
  out.state = stream_state({}, std::move(states));
  return out;
}

class ZipBody : public StageBody {
 public:
  ZipBody(std::size_t inputs, bool reads_index) : inputs_(inputs), reads_index_(reads_index) {}
  void start(const RunStart& run, InputStarts& starts) override {
    parts_.clear();
    StreamStateRef state = run.state;
    if (index_in(state, reads_index_, "zip")) state = stream_state({}, std::vector<StreamStateRef>(inputs_, run.state));
    if (state) check_state(*state, 0, inputs_, "zip");
    for (std::size_t i = 0; i < inputs_; ++i) starts.add(static_cast<int>(i), {run.epoch, input_state(state, i)});
  }
  void stop() override { parts_.clear(); }
  int next_input() const override { return static_cast<int>(parts_.size()); }
  Emission act(Element* element, Element& out, InputStarts&) override {
    if (element == nullptr) {
      parts_.clear();
      return Emission::last;
    }
    parts_.push_back(std::move(*element));
    if (parts_.size() < inputs_) return Emission::nothing;
    out = tuple_of(parts_);
    parts_.clear();
    return Emission::element;
  }
  std::int64_t held_bytes() const override { return array_bytes(parts_); }

 private:
  std::size_t inputs_;
  bool reads_index_;
  std::vector<Element> parts_;
};

class ZipNode : public DatasetNode {
 public:
  explicit ZipNode(std::vector<DatasetNodeRef> inputs) : DatasetNode(std::move(inputs)) {}
  std::string name() const override { return "zip"; }
  std::unique_ptr<StageBody> make_body() const override {
    return std::make_unique<ZipBody>(inputs().size(), is_indexed_without_lanes(*this));
  }
  std::int64_t index_of(const StreamState& state) const override {
    if (is_index(state)) return state.numbers[0];
    check_state(state, 0, inputs().size(), name());
    return state.inputs[0] ? inputs()[0]->index_of(*state.inputs[0]) : 0;
  }
  std::optional<std::int64_t> size() const override {
    std::int64_t size = endless;
    for (const DatasetNodeRef& input : inputs()) {
      const std::optional<std::int64_t> rows = input->size();
      if (!rows) return std::nullopt;
      size = std::min(size, *rows);
    }
    return size;
  }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    std::vector<Element> parts;
    for (const DatasetNodeRef& input : inputs()) parts.push_back(input->at(epoch, index));
    return tuple_of(parts);
  }
};

std::vector<DatasetNodeRef> nodes_of(const std::vector<Dataset>& datasets, const char* function) {
  require(!datasets.empty(), function, ": at least one data set is needed");
  std::vector<DatasetNodeRef> nodes;
  for (const Dataset& dataset : datasets) nodes.push_back(dataset.node());
  return nodes;
}

}  // namespace

Dataset Dataset::take(std::int64_t count) const {
  require(count >= 0, "take: count must be at least 0, got ", count);
  const std::string name = cat("take(", count, ")");
  return Dataset(std::make_shared<SliceNode>(node_, name, name, 0, count, 1));
}

Dataset Dataset::skip(std::int64_t count) const {
  require(count >= 0, "skip: count must be at least 0, got ", count);
  const std::string name = cat("skip(", count, ")");
  return Dataset(std::make_shared<SliceNode>(node_, name, name, count, endless, 1));
}

Dataset Dataset::shard(std::int64_t shards, std::int64_t index) const {
  require(shards >= 1 && index >= 0 && index < shards, "shard: the index must be between 0 and ", shards - 1,
          " and the number of shards at least 1, got index ", index, " of ", shards);
  return Dataset(std::make_shared<SliceNode>(node_, cat("shard(", shards, ", ", index, ")"), cat("shard(", shards, ")"),
                                             index, endless, shards));
}

Dataset Dataset::repeat(std::int64_t count) const { return Dataset(std::make_shared<RepeatNode>(node_, count)); }
Dataset zip(std::vector<Dataset> inputs) { return Dataset(std::make_shared<ZipNode>(nodes_of(inputs, "zip"))); }
Dataset concat(std::vector<Dataset> inputs) {
  return Dataset(std::make_shared<ConcatNode>(nodes_of(inputs, "concat")));
}

}  // namespace karez::data

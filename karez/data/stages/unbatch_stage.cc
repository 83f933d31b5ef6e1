// A stage that divides batches into their rows.
#include <algorithm>
#include <utility>

#include "karez/base/copy_bytes.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/batch_rule.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/row_stack.h"
#include "karez/data/stages/state_numbers.h"

namespace karez::data {
namespace {

std::int64_t rows_of(const Element& batch) {
  std::int64_t rows = -1;
  for (std::size_t i = 0; i < batch.fields.size(); ++i) {
    std::int64_t own = 0;
    if (const auto* list = std::get_if<std::vector<Object>>(&batch.fields[i])) {
      own = static_cast<std::int64_t>(list->size());
    } else {
      const HostArray& array = array_of(batch, i);
      if (array.view().rank() < 1)
        fail(ErrorKind::shape, "unbatch: field ", i, " must have at least one dimension, got ", print(array.type()));
      own = array.shape()[0];
    }
    require(ErrorKind::shape, rows < 0 || own == rows, "unbatch: all fields must have the same number of rows, got ",
            rows, " and ", own);
    rows = own;
  }
  return std::max<std::int64_t>(rows, 0);
}

// The rows of a batch, from the first one to be emitted.
class OpenBatch {
 public:
  void start(const RunStart& run, InputStarts& starts) {
    close();
    skip_ = 0;
    before_ = nullptr;
    if (run.state) {
      check_state(*run.state, 1, 1, "unbatch");
      skip_ = run.state->numbers[0], before_ = run.state->inputs[0];
      require(ErrorKind::data, skip_ >= 0, "the state of stage unbatch is negative");
    }
    starts.add(0, {run.epoch, before_});
  }
  void close() {
    batch_ = {}, row_ = rows_ = 0;
    arrays_.clear();
  }
  // A batch may have no rows, if it was skipped, or if all its rows come before the position of the start.
  void open(Element& batch) {
    batch_ = std::move(batch);
    rows_ = batch_.skipped ? 0 : rows_of(batch_);
    for (const Field& field : batch_.fields)
      if (const auto* array = std::get_if<HostArray>(&field)) arrays_.emplace_back(*array);
    row_ = std::min(std::exchange(skip_, 0), rows_);
    if (row_ < rows_) return;
    before_ = batch_.state;
    close();
  }
  std::int64_t rows() const { return rows_ - row_; }
  const Element& batch() const { return batch_; }
  std::int64_t row() const { return row_; }
  Element element(std::int64_t row) const {
    Element out;
    std::size_t next_array = 0;
    for (const Field& field : batch_.fields) {
      if (std::holds_alternative<HostArray>(field)) out.fields.emplace_back(arrays_[next_array++][row]);
      else out.fields.emplace_back(std::get<std::vector<Object>>(field)[static_cast<std::size_t>(row)]);
    }
    out.structure = batch_.structure;
    out.epoch = batch_.epoch, out.index = wrapping_sum(batch_.index, row);
    return out;
  }
  // Passes over `count` rows. Returns the state of the stream after them.
  StreamStateRef pass(std::int64_t count) {
    row_ += count;
    if (row_ < rows_) return stream_state({row_}, {before_});
    before_ = batch_.state;
    close();
    return stream_state({0}, {before_});
  }

 private:
  Element batch_;
  std::vector<Rows> arrays_;  // of its fields that are arrays
  std::int64_t row_ = 0, rows_ = 0, skip_ = 0;
  StreamStateRef before_;  // of the input, before it emitted batch_
};

class UnbatchBody : public StageBody {
 public:
  void start(const RunStart& run, InputStarts& starts) override { open_.start(run, starts); }
  void stop() override { open_.close(); }
  int next_input() const override { return open_.rows() > 0 ? -1 : 0; }
  Emission act(Element* element, Element& out, InputStarts&) override {
    if (open_.rows() == 0) {
      if (element == nullptr) return Emission::last;
      open_.open(*element);
      if (open_.rows() == 0) return Emission::nothing;
    }
    out = open_.element(open_.row());
    out.state = open_.pass(1);
    return Emission::element;
  }
  std::int64_t held_bytes() const override { return array_bytes(open_.batch()); }

 private:
  OpenBatch open_;
};

// Rows of one batch, of which a part of another one is made.
struct BatchPart {
  OpenBatch batch;
  std::int64_t begin = 0, count = 0;
};

// Unbatch and batch together: rows are copied from batch to batch, several at a time.
class RebatchBody : public StageBody {
 public:
  explicit RebatchBody(const BatchRule& rule) : rule_(rule) {}
  void start(const RunStart& run, InputStarts& starts) override {
    stop();
    ended_ = false;
    open_.start(run, starts);
  }
  void stop() override {
    open_.close();
    parts_.clear();
    count_ = 0;
  }
  int next_input() const override { return ended_ || open_.rows() > 0 ? -1 : 0; }
  Emission act(Element* element, Element& out, InputStarts&) override {
    if (!ended_ && open_.rows() == 0) {
      if (element != nullptr) open_.open(*element);
      else ended_ = true;
      if (!ended_ && open_.rows() == 0) return Emission::nothing;
    }
    if (ended_ && (count_ == 0 || rule_.last == LastBatch::drop)) {
      stop();
      return Emission::last;
    }
    if (!ended_) {
      const std::int64_t count = std::min(rule_.rows - count_, open_.rows());
      parts_.push_back({open_, open_.row(), count});
      state_ = open_.pass(count);
      count_ += count;
      if (count_ < rule_.rows) return Emission::nothing;
    }
    out = is_plain() ? copied() : stacked();
    out.state = state_;
    parts_.clear();
    count_ = 0;
    return Emission::element;
  }
  std::int64_t held_bytes() const override {
    std::int64_t bytes = 0;
    for (const BatchPart& part : parts_) bytes += array_bytes(part.batch.batch());
    const bool is_in_part = !parts_.empty() && parts_.back().begin + parts_.back().count == open_.row();
    return bytes + (is_in_part ? 0 : array_bytes(open_.batch()));
  }

 private:
  static bool has_same_rows(const Field& a, const Field& b) {
    const auto *x = std::get_if<HostArray>(&a), *y = std::get_if<HostArray>(&b);
    return x != nullptr && y != nullptr && x->dtype() == y->dtype() &&
           std::equal(x->shape().begin() + 1, x->shape().end(), y->shape().begin() + 1, y->shape().end());
  }
  // Whether the rows are only copied: all of them are arrays of the same type, and none is added.
  bool is_plain() const {
    if (rule_.padded || rule_.last == LastBatch::pad) return false;
    const Element& first = parts_.front().batch.batch();
    return std::all_of(parts_.begin(), parts_.end(), [&](const BatchPart& part) {
      const Element& other = part.batch.batch();
      return (other.structure == first.structure || *other.structure == *first.structure) &&
             std::equal(first.fields.begin(), first.fields.end(), other.fields.begin(), has_same_rows);
    });
  }
  Element copied() const {
    const Element& first = parts_.front().batch.batch();
    Element out;
    out.structure = first.structure;
    out.epoch = first.epoch, out.index = wrapping_sum(first.index, parts_.front().begin);
    for (std::size_t field = 0; field < first.fields.size(); ++field) {
      TensorType type = array_of(first, field).type();
      type.shape[0] = count_;
      HostArray rows = rule_.pool->allocate(std::move(type));
      std::byte* to = rows.bytes();
      for (const BatchPart& part : parts_) {
        const HostArray& from = array_of(part.batch.batch(), field);
        const std::int64_t row_bytes = from.type().bytes() / from.shape()[0];
        const std::int64_t bytes = part.count * row_bytes;
        if (bytes > 0) base::copy_bytes(to, from.bytes() + part.begin * row_bytes, static_cast<std::size_t>(bytes));
        to += bytes;
      }
      out.fields.emplace_back(std::move(rows));
    }
    return out;
  }
  Element stacked() const {
    std::vector<Element> elements;
    elements.reserve(static_cast<std::size_t>(count_));
    for (const BatchPart& part : parts_)
      for (std::int64_t i = part.begin; i < part.begin + part.count; ++i) elements.push_back(part.batch.element(i));
    return rule_.make(elements);
  }

  const BatchRule rule_;
  OpenBatch open_;
  std::vector<BatchPart> parts_;
  std::int64_t count_ = 0;  // of the rows of all parts
  StreamStateRef state_;    // of the stream after them
  bool ended_ = false;
};

class UnbatchNode : public DatasetNode {
 public:
  explicit UnbatchNode(DatasetNodeRef input) : DatasetNode({std::move(input)}) {}
  std::string name() const override { return "unbatch"; }
  std::unique_ptr<StageBody> make_body() const override { return std::make_unique<UnbatchBody>(); }
  std::unique_ptr<StageBody> make_batch_body(const BatchRule& rule) const override {
    return std::make_unique<RebatchBody>(rule);
  }
  Restoration restoration(const StreamState* state) const override { return {"replay", number_at(state, 0) > 0}; }
};

}  // namespace

Dataset Dataset::unbatch() const { return Dataset(std::make_shared<UnbatchNode>(node_)); }

}  // namespace karez::data

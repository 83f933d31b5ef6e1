// Stages that combine elements to batches.
#include <algorithm>

#include "karez/base/text.h"
#include "karez/data/stages/batch_rule.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/held_inputs.h"
#include "karez/data/stages/random_access.h"
#include "karez/data/stages/state_numbers.h"

namespace karez::data {
namespace {

// Batches of consecutive elements. Between two batches the stage holds no element, so it has no state of its own.
class BatchBody : public StageBody {
 public:
  explicit BatchBody(BatchRule rule) : rule_(std::move(rule)) {}
  void start(const RunStart& run, InputStarts& starts) override {
    stop();
    ended_ = false;
    starts.add(0, run);
  }
  void stop() override {
    elements_.clear();
    bytes_ = 0;
  }
  int next_input() const override { return ended_ ? -1 : 0; }
  Emission act(Element* element, Element& out, InputStarts&) override {
    if (element != nullptr) {
      bytes_ += array_bytes(*element);
      elements_.push_back(std::move(*element));
      if (static_cast<std::int64_t>(elements_.size()) < rule_.rows) return Emission::nothing;
    } else {
      ended_ = true;
      if (elements_.empty() || rule_.last == LastBatch::drop) {
        stop();
        return Emission::last;
      }
    }
    out = rule_.make(elements_);
    stop();
    return Emission::element;
  }
  std::int64_t held_bytes() const override { return bytes_; }

 private:
  BatchRule rule_;
  std::vector<Element> elements_;
  std::int64_t bytes_ = 0;  // of the elements
  bool ended_ = false;
};

// Whether batches are the rows that `stacked` gives: neither padded nor with weights.
bool is_stack(const BatchRule& rule, const DatasetNode& input) {
  return !rule.padded && rule.last != LastBatch::pad && input.stacks() && input.size();
}

Element stacked_rows(const BatchRule& rule, const DatasetNode& input, std::int64_t epoch, std::int64_t begin,
                     std::int64_t end) {
  std::vector<EpochIndex> places;
  places.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t i = begin; i < end; ++i) places.push_back({epoch, i});
  return input.stacked(places, *rule.pool);
}

// Batches of elements that are read by index, all rows of a batch at once. The states are those of the elements.
class IndexedBatchBody : public StageBody {
 public:
  IndexedBatchBody(DatasetNodeRef input, BatchRule rule)
      : input_(std::move(input)),
        rule_(std::move(rule)),
        size_(input_->size().value()) {}
  void start(const RunStart& run, InputStarts&) override {
    epoch_ = run.epoch, next_ = 0;
    if (run.state) next_ = checked_index(*input_, *run.state);
  }
  int next_input() const override { return -1; }
  Emission act(Element*, Element& out, InputStarts&) override {
    const std::int64_t count = std::min(size_ - next_, rule_.rows);
    if (count == 0 || (count < rule_.rows && rule_.last == LastBatch::drop)) return Emission::last;
    out = stacked_rows(rule_, *input_, epoch_, next_, next_ + count);
    next_ += count;
    out.state = stream_state({next_});
    return Emission::element;
  }

 private:
  DatasetNodeRef input_;
  BatchRule rule_;
  std::int64_t size_, epoch_ = 0, next_ = 0;
};

class BatchNode : public DatasetNode {
 public:
  BatchNode(DatasetNodeRef input, BatchRule rule) : DatasetNode({std::move(input)}), rule_(std::move(rule)) {
    require(rule_.rows >= 1, rule_.stage, ": the number of rows must be at least 1, got ", rule_.rows);
  }
  std::string name() const override { return cat(rule_.stage, "(", rule_.rows, ", last=", name_of(rule_.last), ")"); }
  std::unique_ptr<StageBody> make_body() const override { return std::make_unique<BatchBody>(rule_); }
  std::unique_ptr<StageBody> make_indexed_body() const override {
    return is_stack(rule_, *inputs()[0]) ? std::make_unique<IndexedBatchBody>(inputs()[0], rule_) : nullptr;
  }
  std::optional<std::int64_t> size() const override {
    const std::optional<std::int64_t> rows = inputs()[0]->size();
    if (!rows || *rows == endless) return rows;
    return *rows / rule_.rows + (rule_.last != LastBatch::drop && *rows % rule_.rows != 0);
  }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    const std::int64_t end = std::min(inputs()[0]->size().value(), (index + 1) * rule_.rows);
    if (is_stack(rule_, *inputs()[0])) return stacked_rows(rule_, *inputs()[0], epoch, index * rule_.rows, end);
    std::vector<Element> elements;
    for (std::int64_t i = index * rule_.rows; i < end; ++i) elements.push_back(inputs()[0]->at(epoch, i));
    return rule_.make(elements);
  }
  bool collects() const override { return true; }
  const BatchRule* batch_rule() const override { return &rule_; }
  bool has_state() const override { return false; }

 private:
  BatchRule rule_;
};

// Batches of n consecutive elements that begin `shift` elements after each other.
class WindowBody : public StageBody {
 public:
  WindowBody(BatchRule rule, std::int64_t shift) : rule_(std::move(rule)), shift_(shift) {}
  void start(const RunStart& run, InputStarts& starts) override {
    stop();
    ended_ = false, skip_ = 0;
    held_.reset();
    if (run.state) {
      check_state(*run.state, 1, 1, rule_.stage);
      skip_ = run.state->numbers[0];
      held_.reset(0, run.state->inputs[0]);
    }
    starts.add(0, {run.epoch, held_.before_oldest()});
  }
  void stop() override {
    elements_.clear();
    bytes_ = 0;
  }
  int next_input() const override { return ended_ ? -1 : 0; }
  Emission act(Element* element, Element& out, InputStarts&) override {
    if (element == nullptr) {
      ended_ = true;
    } else {
      const std::int64_t ordinal = held_.read(element->state);
      if (skip_ > 0) {
        --skip_;
        held_.release(ordinal);
        return Emission::nothing;
      }
      bytes_ += array_bytes(*element);
      elements_.push_back(std::move(*element));
      if (static_cast<std::int64_t>(elements_.size()) < rule_.rows) return Emission::nothing;
    }
    if (elements_.empty() || (ended_ && rule_.last == LastBatch::drop)) {
      stop();
      return Emission::last;
    }
    const auto count = std::min(static_cast<std::int64_t>(elements_.size()), rule_.rows);
    out = rule_.make(std::span(elements_).first(static_cast<std::size_t>(count)));
    // Drop the elements before the next window; if it begins later than the elements read, skip the rest.
    const auto dropped = std::min(static_cast<std::int64_t>(elements_.size()), shift_);
    for (std::int64_t i = 0; i < dropped; ++i) {
      bytes_ -= array_bytes(elements_[static_cast<std::size_t>(i)]);
      held_.release(held_.oldest());
    }
    elements_.erase(elements_.begin(), elements_.begin() + dropped);
    skip_ = ended_ ? 0 : shift_ - dropped;
    out.state = stream_state({skip_}, {held_.before_oldest()});
    return Emission::element;
  }
  std::int64_t held_bytes() const override { return bytes_; }

 private:
  BatchRule rule_;
  std::int64_t shift_, skip_ = 0;
  std::vector<Element> elements_;
  std::int64_t bytes_ = 0;  // of the elements
  HeldInputs held_;
  bool ended_ = false;
};

class WindowNode : public DatasetNode {
 public:
  WindowNode(DatasetNodeRef input, BatchRule rule, std::int64_t shift)
      : DatasetNode({std::move(input)}),
        rule_(std::move(rule)),
        shift_(shift) {
    require(rule_.rows >= 1, "window: the number of elements must be at least 1, got ", rule_.rows);
    require(shift >= 1, "window: shift must be at least 1, or 0 for the number of elements, got ", shift);
  }
  std::string name() const override {
    return cat("window(", rule_.rows, ", shift=", shift_, ", last=", name_of(rule_.last), ")");
  }
  std::unique_ptr<StageBody> make_body() const override { return std::make_unique<WindowBody>(rule_, shift_); }
  Restoration restoration(const StreamState* state) const override {
    return {"replay", state == nullptr ? 0 : std::max<std::int64_t>(0, rule_.rows - shift_)};
  }

 private:
  BatchRule rule_;
  std::int64_t shift_;
};

// One buffer for each bucket; a full one is emitted. At the end the buffers that are not full are emitted, the first
// bucket first.
class BucketBody : public StageBody {
 public:
  BucketBody(std::function<std::int64_t(const Element&)> length, std::vector<std::int64_t> boundaries,
             std::vector<BatchRule> rules)
      : length_(std::move(length)),
        boundaries_(std::move(boundaries)),
        rules_(std::move(rules)),
        buckets_(rules_.size()) {}
  void start(const RunStart& run, InputStarts& starts) override {
    stop();
    held_.reset();
    wanted_.clear();
    missing_ = 0, ended_ = false;
    if (run.state) restore(*run.state);
    starts.add(0, {run.epoch, held_.before_oldest()});
  }
  void stop() override {
    for (auto& bucket : buckets_) bucket.clear();
    bytes_ = 0;
  }
  int next_input() const override { return missing_ > 0 || !ended_ ? 0 : -1; }
  Emission act(Element* element, Element& out, InputStarts&) override {
    if (missing_ > 0) {
      require(ErrorKind::data, element != nullptr,
              "bucket_by_length: the input ended before the element at which the stream was saved");
      const std::int64_t ordinal = held_.read(element->state);
      if (std::binary_search(wanted_.begin(), wanted_.end(), ordinal)) add(std::move(*element), ordinal);
      else held_.release(ordinal);
      --missing_;
      return Emission::nothing;
    }
    if (ended_) return flush(out);
    if (element == nullptr) {
      ended_ = true;
      return Emission::nothing;
    }
    const std::int64_t ordinal = held_.read(element->state);
    if (element->skipped) {
      held_.release(ordinal);
      return Emission::nothing;
    }
    const std::size_t bucket = add(std::move(*element), ordinal);
    if (static_cast<std::int64_t>(buckets_[bucket].size()) < rules_[bucket].rows) return Emission::nothing;
    emit(bucket, out);
    return Emission::element;
  }
  std::int64_t held_bytes() const override { return bytes_; }

 private:
  struct Entry {
    Element element;
    std::int64_t ordinal = 0;
  };
  std::size_t add(Element element, std::int64_t ordinal) {
    const std::int64_t length = length_(element);
    const auto bucket = static_cast<std::size_t>(std::upper_bound(boundaries_.begin(), boundaries_.end(), length) -
                                                 boundaries_.begin());
    require(ErrorKind::data, static_cast<std::int64_t>(buckets_[bucket].size()) < rules_[bucket].rows,
            "the state of stage bucket_by_length is damaged, or was saved by another pipeline");
    bytes_ += array_bytes(element);
    buckets_[bucket].push_back({std::move(element), ordinal});
    return bucket;
  }
  void emit(std::size_t bucket, Element& out) {
    std::vector<Element> elements;
    for (Entry& entry : buckets_[bucket]) {
      held_.release(entry.ordinal);
      bytes_ -= array_bytes(entry.element);
      elements.push_back(std::move(entry.element));
    }
    buckets_[bucket].clear();
    out = rules_[bucket].make(elements);
    std::vector<std::int64_t> numbers = {held_.next(), held_.oldest(), ended_};
    for (const auto& entries : buckets_)
      for (const Entry& entry : entries) numbers.push_back(entry.ordinal);
    out.state = stream_state(std::move(numbers), {held_.before_oldest()});
  }
  Emission flush(Element& out) {
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      if (buckets_[bucket].empty()) continue;
      if (rules_[bucket].last == LastBatch::drop) {
        buckets_[bucket].clear();
        continue;
      }
      emit(bucket, out);
      return Emission::element;
    }
    return Emission::last;
  }
  void restore(const StreamState& state) {
    require(ErrorKind::data,
            state.numbers.size() >= 3 && state.inputs.size() == 1 && state.numbers[1] >= 0 &&
                state.numbers[1] <= state.numbers[0],
            "the state of stage bucket_by_length is damaged, or was saved by another pipeline");
    held_.reset(state.numbers[1], state.inputs[0]);
    missing_ = state.numbers[0] - state.numbers[1];
    ended_ = state.numbers[2] != 0;
    wanted_.assign(state.numbers.begin() + 3, state.numbers.end());
    std::sort(wanted_.begin(), wanted_.end());
  }

  std::function<std::int64_t(const Element&)> length_;
  std::vector<std::int64_t> boundaries_;
  std::vector<BatchRule> rules_;
  std::vector<std::vector<Entry>> buckets_;
  std::int64_t bytes_ = 0;  // of the elements in the buckets
  HeldInputs held_;
  std::vector<std::int64_t> wanted_;  // while a stream is being resumed: the ordinals of the elements in the buckets
  std::int64_t missing_ = 0;          // ... and the number of elements to read again
  bool ended_ = false;
};

class BucketNode : public DatasetNode {
 public:
  BucketNode(DatasetNodeRef input, std::function<std::int64_t(const Element&)> length,
             std::vector<std::int64_t> boundaries, const std::vector<std::int64_t>& batch_sizes, LastBatch last)
      : DatasetNode({std::move(input)}),
        length_(std::move(length)),
        boundaries_(std::move(boundaries)) {
    require(length_ != nullptr, "bucket_by_length: the function must not be null");
    require(batch_sizes.size() == boundaries_.size() + 1,
            "bucket_by_length: there must be one more batch size than boundaries, got ", batch_sizes.size(), " and ",
            boundaries_.size());
    require(std::is_sorted(boundaries_.begin(), boundaries_.end(), std::less_equal<>()),
            "bucket_by_length: the boundaries must increase");
    for (std::int64_t rows : batch_sizes) {
      require(rows >= 1, "bucket_by_length: a batch size must be at least 1, got ", rows);
      rules_.push_back({rows, last, true, {}, "bucket_by_length"});
    }
  }
  std::string name() const override {
    std::vector<std::int64_t> sizes;
    for (const BatchRule& rule : rules_) sizes.push_back(rule.rows);
    return cat("bucket_by_length(boundaries=[", join(boundaries_, ", "), "], batch_sizes=[", join(sizes, ", "), "])");
  }
  std::unique_ptr<StageBody> make_body() const override {
    return std::make_unique<BucketBody>(length_, boundaries_, rules_);
  }
  Restoration restoration(const StreamState* state) const override {
    return {"replay", number_at(state, 0) - number_at(state, 1)};
  }

 private:
  std::function<std::int64_t(const Element&)> length_;
  std::vector<std::int64_t> boundaries_;
  std::vector<BatchRule> rules_;
};

}  // namespace

Dataset Dataset::batch(std::int64_t n, LastBatch last) const {
  return Dataset(std::make_shared<BatchNode>(node_, BatchRule{n, last, false, {}, "batch"}));
}

Dataset Dataset::padded_batch(std::int64_t n, std::vector<Shape> shapes, LastBatch last) const {
  return Dataset(std::make_shared<BatchNode>(node_, BatchRule{n, last, true, std::move(shapes), "padded_batch"}));
}

Dataset Dataset::bucket_by_length(std::function<std::int64_t(const Element&)> length,
                                  std::vector<std::int64_t> boundaries, std::vector<std::int64_t> batch_sizes,
                                  LastBatch last) const {
  return Dataset(std::make_shared<BucketNode>(node_, std::move(length), std::move(boundaries), batch_sizes, last));
}

Dataset Dataset::window(std::int64_t n, std::int64_t shift, LastBatch last) const {
  return Dataset(std::make_shared<WindowNode>(node_, BatchRule{n, last, false, {}, "window"}, shift == 0 ? n : shift));
}

}  // namespace karez::data

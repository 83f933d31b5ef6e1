// Makes the rows of batches that a rank reads, and those that are missing.
#include "karez/data/stages/batch_rows.h"

#include <algorithm>
#include <cstring>

#include "karez/data/array_source.h"
#include "karez/data/stages/batch_rule.h"
#include "karez/data/stages/skip_counts.h"
#include "karez/data/stages/stage_scope.h"
#include "karez/data/stages/stage_tree.h"

namespace karez::data {
namespace {

// The structure of an element that stands for a row that is missing.
const StructureRef& missing_row() {
  static const StructureRef structure = tuple_structure({});
  return structure;
}
bool is_missing(const Element& row) { return row.structure == missing_row(); }

// The elements of a data set by index, except those that are rows outside of the selection. Stands for the data set in
// its description.
class SelectedRowsNode : public DatasetNode {
 public:
  SelectedRowsNode(DatasetNodeRef rows, LastBatch last, std::shared_ptr<RowSelection> selection)
      : DatasetNode(rows->inputs()),
        rows_(std::move(rows)),
        // The last batch may be smaller: which of its rows are read is not known.
        complete_from_(last == LastBatch::keep ? *rows_->size() / selection->rows() * selection->rows() : endless),
        selection_(std::move(selection)) {}
  std::string name() const override { return rows_->name(); }
  std::string common_name() const override { return rows_->common_name(); }
  int lanes() const override { return rows_->lanes(); }
  bool ordered() const override { return rows_->ordered(); }
  std::unique_ptr<StageBody> make_body() const override { return nullptr; }
  std::optional<std::int64_t> size() const override { return rows_->size(); }
  bool permutes() const override { return true; }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    if (index >= complete_from_ || selection_->contains(index % selection_->rows())) return rows_->at(epoch, index);
    Element out;
    out.structure = missing_row();
    return out;
  }

 private:
  const DatasetNodeRef rows_;
  const std::int64_t complete_from_;
  const std::shared_ptr<RowSelection> selection_;
};

// Batches of elements of which some are missing.
class SelectedBatchBody : public StageBody {
 public:
  SelectedBatchBody(DatasetNodeRef rows, BatchRule rule, std::shared_ptr<RowSelection> selection)
      : rows_(std::move(rows)),
        rule_(std::move(rule)),
        selection_(std::move(selection)) {}
  void start(const RunStart& run, InputStarts& starts) override {
    stop();
    ended_ = false;
    epoch_ = run.epoch;
    next_ = run.state && !run.state->numbers.empty() ? run.state->numbers[0] : 0;  // the input checks the state
    starts.add(0, run);
  }
  void stop() override {
    elements_.clear();
    bytes_ = 0;
  }
  int next_input() const override { return ended_ ? -1 : 0; }
  std::int64_t held_bytes() const override { return bytes_; }
  Emission act(Element* element, Element& out, InputStarts&) override {
    ended_ = element == nullptr;
    if (element != nullptr) {
      bytes_ += array_bytes(*element);
      elements_.push_back(std::move(*element));
    }
    if (ended_ ? elements_.empty() || rule_.last == LastBatch::drop
               : static_cast<std::int64_t>(elements_.size()) < rule_.rows) {
      if (ended_) stop();
      return ended_ ? Emission::last : Emission::nothing;
    }
    out = make();
    next_ += static_cast<std::int64_t>(elements_.size());
    stop();
    return Emission::element;
  }

 private:
  Element make() {
    const bool pad = rule_.last == LastBatch::pad;
    std::vector<Element> rows;
    std::vector<std::int64_t> positions;
    std::vector<bool> present;
    StreamStateRef state = elements_.back().state;
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      present.push_back(!is_missing(elements_[i]));
      if (!present.back()) continue;
      check_skipped(elements_[i]);
      if (elements_[i].skipped) continue;
      rows.push_back(std::move(elements_[i]));
      positions.push_back(static_cast<std::int64_t>(i));
    }
    if (rows.empty()) find_sample();
    Element out =
        rule_.make_sparse(rows, std::move(positions), pad ? rule_.rows : static_cast<std::int64_t>(elements_.size()));
    out.state = std::move(state);
    std::vector<HostArray> arrays;
    for (const Field& field : out.fields) {
      const HostArray* array = std::get_if<HostArray>(&field);
      if (array == nullptr) {  // objects, which have no zeros: all rows are needed
        selection_->add(0, selection_->rows());
        return out;
      }
      arrays.push_back(*array);
    }
    HostArray weights;
    if (pad) weights = std::move(arrays.back()), arrays.pop_back();
    out.rows = std::make_shared<BatchRows>(BatchRows::Origin{rows_, epoch_, next_}, std::move(arrays),
                                           std::move(weights), present, selection_);
    return out;
  }
  // Makes one of the rows, of which the batch gets the types. It is made again if it is read.
  void find_sample() const {
    const SkipCountsScope uncounted(std::make_shared<SkipCounts>());
    for (std::size_t i = 0; i < elements_.size() && !rule_.sample->get(); ++i) {
      const Element row = rows_->at(epoch_, next_ + static_cast<std::int64_t>(i));
      if (!row.skipped) rule_.sample->set(row);
    }
  }
  void check_skipped(const Element& row) const {
    require(ErrorKind::data, !row.skipped || rule_.last == LastBatch::pad, rule_.stage, ": record ", row.index,
            " was skipped, but the batch has no weights of rows; use last=\"pad\"");
  }

  const DatasetNodeRef rows_;
  const BatchRule rule_;
  const std::shared_ptr<RowSelection> selection_;
  std::vector<Element> elements_;
  std::int64_t bytes_ = 0;  // of the elements
  std::int64_t epoch_ = 0, next_ = 0;
  bool ended_ = false;
};

class SelectedBatchNode : public DatasetNode {
 public:
  explicit SelectedBatchNode(DatasetNodeRef batches, std::shared_ptr<RowSelection> selection)
      : DatasetNode({std::make_shared<SelectedRowsNode>(batches->inputs()[0], batches->batch_rule()->last, selection)}),
        batches_(std::move(batches)),
        selection_(std::move(selection)) {}
  std::string name() const override { return batches_->name(); }
  std::unique_ptr<StageBody> make_body() const override {
    return std::make_unique<SelectedBatchBody>(batches_->inputs()[0], *batches_->batch_rule(), selection_);
  }
  std::optional<std::int64_t> size() const override { return batches_->size(); }
  Element at(std::int64_t epoch, std::int64_t index) const override { return batches_->at(epoch, index); }
  bool collects() const override { return true; }
  bool has_state() const override { return false; }

 private:
  const DatasetNodeRef batches_;
  const std::shared_ptr<RowSelection> selection_;
};

class RowsSource : public Source {
 public:
  RowsSource(const HostArray& array, std::shared_ptr<BatchRows> rows)
      : array_(array_source(array)),
        rows_(std::move(rows)) {}
  TensorType type() const override { return array_->type(); }
  void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    rows_->need(begin[0], begin[0] + out.shape()[0]);
    array_->read(position, begin, out);
  }
  const std::byte* find(std::int64_t position, std::span<const std::int64_t> begin, const View& view) const override {
    rows_->need(begin[0], begin[0] + view.shape[0]);
    return array_->find(position, begin, view);
  }

 private:
  const std::shared_ptr<const Source> array_;
  const std::shared_ptr<BatchRows> rows_;
};

}  // namespace

std::shared_ptr<const Source> rows_source(const HostArray& array, std::shared_ptr<BatchRows> rows) {
  return std::make_shared<RowsSource>(array, std::move(rows));
}

RowSelection::RowSelection(std::int64_t rows) : rows_(rows), read_(static_cast<std::size_t>(rows)) {}

void RowSelection::add(std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < std::min(end, rows_); ++row) {
    std::atomic<bool>& read = read_[static_cast<std::size_t>(row)];
    if (!read) read = true;
  }
}

BatchRows::BatchRows(Origin origin, std::vector<HostArray> arrays, HostArray weights, const std::vector<bool>& present,
                     std::shared_ptr<RowSelection> selection)
    : origin_(std::move(origin)),
      arrays_(std::move(arrays)),
      weights_(std::move(weights)),
      selection_(std::move(selection)),
      skip_counts_(current_skip_counts()),
      present_(present.size()) {
  for (std::size_t row = 0; row < present.size(); ++row) present_[row] = present[row];
}

BatchRows::~BatchRows() {
  if (used_) selection_->narrow();
}

void BatchRows::need(std::int64_t begin, std::int64_t end) {
  // The rows of a smaller last batch say nothing about those of other batches.
  if (arrays_.empty() || arrays_[0].shape()[0] == selection_->rows()) {
    used_ = true;
    selection_->add(begin, end);
  }
  for (std::int64_t row = begin; row < std::min(end, static_cast<std::int64_t>(present_.size())); ++row)
    if (!present_[static_cast<std::size_t>(row)].load(std::memory_order_acquire)) make(row);
}

void BatchRows::make(std::int64_t row) {
  const auto skipped = std::make_shared<SkipCounts>();
  const Element element = [&] {  // without the lock: it may wait
    const StageScope scope;
    const SkipCountsScope counts(skipped);
    return origin_.rows->at(origin_.epoch, origin_.first + row);
  }();
  require(ErrorKind::data, !element.skipped || weights_.valid(), "batch: record ", element.index,
          " was skipped, but the batch has no weights of rows; use last=\"pad\"");
  for (std::size_t i = 0; i < arrays_.size() && !element.skipped; ++i) {
    const HostArray* array = i < element.fields.size() ? std::get_if<HostArray>(&element.fields[i]) : nullptr;
    TensorType type = arrays_[i].type();
    type.shape.erase(type.shape.begin());
    if (array == nullptr || array->type() != type)
      fail(ErrorKind::shape, "batch: field ", i, " must have the same type in all rows of a batch, got ", print(type),
           " and ", array ? print(array->type()) : std::string("an object"));
  }
  std::lock_guard lock(mutex_);
  std::atomic<bool>& present = present_[static_cast<std::size_t>(row)];
  if (present) return;
  for (std::size_t i = 0; i < element.fields.size() && i < arrays_.size(); ++i) {
    const HostArray& array = array_of(element, i);
    const std::int64_t bytes = array.type().bytes();
    if (bytes > 0) std::memcpy(arrays_[i].bytes() + row * bytes, array.bytes(), static_cast<std::size_t>(bytes));
  }
  if (weights_.valid() && !element.skipped) weights_.data<float>()[static_cast<std::size_t>(row)] = 1;
  present.store(true, std::memory_order_release);
  if (skip_counts_) skip_counts_->add(*skipped);
  else skipped->report();
}

DatasetNodeRef with_selected_rows(const DatasetNodeRef& node) {
  if (node->slots() > 0 || node->options() != nullptr) {
    DatasetNodeRef input = with_selected_rows(node->inputs()[0]);
    if (input == nullptr || !is_ordered(*node)) return nullptr;
    const Dataset selected(std::move(input));
    if (node->options() != nullptr) return selected.with_options(*node->options()).node();
    return selected.prefetch(node->tuned_numbers() ? automatic : node->slots()).node();
  }
  const BatchRule* rule = node->batch_rule();
  if (rule == nullptr || rule->padded || !has_index_state(*node->inputs()[0]) || !is_ordered(*node)) return nullptr;
  return std::make_shared<SelectedBatchNode>(node, std::make_shared<RowSelection>(rule->rows));
}

}  // namespace karez::data

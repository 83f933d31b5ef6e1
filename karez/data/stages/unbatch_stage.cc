// A stage that divides batches into their rows.
#include <algorithm>

#include "karez/data/dataset.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/row_stack.h"
#include "karez/data/stages/state_numbers.h"

namespace karez::data {
namespace {

class UnbatchBody : public StageBody {
 public:
  void start(const RunStart& run, InputStarts& starts) override {
    batch_ = {}, row_ = rows_ = skip_ = 0;
    before_ = nullptr;
    if (run.state) {
      check_state(*run.state, 1, 1, "unbatch");
      skip_ = run.state->numbers[0], before_ = run.state->inputs[0];
      require(ErrorKind::data, skip_ >= 0, "the state of stage unbatch is negative");
    }
    starts.add(0, {run.epoch, before_});
  }
  void stop() override {
    batch_ = {};
    arrays_.clear();
  }
  int next_input() const override { return row_ < rows_ ? -1 : 0; }
  Emission act(Element* element, Element& out, InputStarts&) override {
    if (row_ == rows_) {
      if (element == nullptr) return Emission::last;
      if (element->skipped) {
        before_ = element->state;
        skip_ = 0;
        return Emission::nothing;
      }
      batch_ = std::move(*element);
      rows_ = rows_of(batch_);
      arrays_.clear();
      for (const Field& field : batch_.fields)
        if (const auto* array = std::get_if<HostArray>(&field)) arrays_.emplace_back(*array);
      row_ = std::min(skip_, rows_);
      skip_ = 0;
      if (row_ == rows_) {
        before_ = batch_.state;
        return Emission::nothing;
      }
    }
    std::size_t next_array = 0;
    for (const Field& field : batch_.fields) {
      if (std::holds_alternative<HostArray>(field)) out.fields.emplace_back(arrays_[next_array++][row_]);
      else out.fields.emplace_back(std::get<std::vector<Object>>(field)[static_cast<std::size_t>(row_)]);
    }
    out.structure = batch_.structure;
    out.epoch = batch_.epoch, out.index = wrapping_sum(batch_.index, row_);
    if (++row_ == rows_) {
      before_ = batch_.state;
      out.state = stream_state({0}, {before_});
      stop();
    } else {
      out.state = stream_state({row_}, {before_});
    }
    return Emission::element;
  }
  std::int64_t held_bytes() const override { return array_bytes(batch_); }

 private:
  static std::int64_t rows_of(const Element& batch) {
    std::int64_t rows = -1;
    for (std::size_t i = 0; i < batch.fields.size(); ++i) {
      std::int64_t own = 0;
      if (const auto* list = std::get_if<std::vector<Object>>(&batch.fields[i])) {
        own = static_cast<std::int64_t>(list->size());
      } else {
        const HostArray& array = array_of(batch, i);
        require(ErrorKind::shape, array.view().rank() >= 1, "unbatch: field ", i,
                " must have at least one dimension, got ", print(array.type()));
        own = array.shape()[0];
      }
      require(ErrorKind::shape, rows < 0 || own == rows, "unbatch: all fields must have the same number of rows, got ",
              rows, " and ", own);
      rows = own;
    }
    return std::max<std::int64_t>(rows, 0);
  }

  Element batch_;
  std::vector<Rows> arrays_;  // of its fields that are arrays
  std::int64_t row_ = 0, rows_ = 0, skip_ = 0;
  StreamStateRef before_;  // of the input, before it emitted batch_
};

class UnbatchNode : public DatasetNode {
 public:
  explicit UnbatchNode(DatasetNodeRef input) : DatasetNode({std::move(input)}) {}
  std::string name() const override { return "unbatch"; }
  std::unique_ptr<StageBody> make_body() const override { return std::make_unique<UnbatchBody>(); }
  Restoration restoration(const StreamState* state) const override { return {"replay", number_at(state, 0) > 0}; }
};

}  // namespace

Dataset Dataset::unbatch() const { return Dataset(std::make_shared<UnbatchNode>(node_)); }

}  // namespace karez::data

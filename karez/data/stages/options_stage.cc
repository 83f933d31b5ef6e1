// Limits and numbers of the stages before a point, which their actors observe: with_options and prefetch.
#include "karez/data/dataset.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/stage_tree.h"
#include "karez/data/tuning/tuner.h"

namespace karez::data {
namespace {

// stage_tree.cc reads the options; no actor executes this node.
class OptionsNode : public DatasetNode {
 public:
  OptionsNode(DatasetNodeRef input, const DatasetOptions& options)
      : DatasetNode({std::move(input)}),
        options_(options) {
    require(!options.bytes || *options.bytes >= 1, "with_options: bytes must be at least 1, got ",
            options.bytes.value_or(0));
    require(!options.cpu || *options.cpu >= 1, "with_options: cpu must be at least 1, got ", options.cpu.value_or(0));
  }
  std::string name() const override {
    std::string out = deterministic_text();
    if (options_.bytes) out += cat(out.empty() ? "" : ", ", "bytes=", *options_.bytes);
    if (options_.cpu) out += cat(out.empty() ? "" : ", ", "cpu=", *options_.cpu);
    if (options_.oversize)
      out += cat(out.empty() ? "" : ", ", "oversize=", *options_.oversize == Oversize::error ? "error" : "pass");
    return cat("with_options(", out, ")");
  }
  // Ranks may have different limits. An order that they must share is part of the text.
  std::string common_name() const override {
    const bool changes_order = options_.deterministic && (!*options_.deterministic || !is_ordered(*inputs()[0]));
    return changes_order ? cat("with_options(", deterministic_text(), ")") : "";
  }
  std::unique_ptr<StageBody> make_body() const override { return nullptr; }
  std::optional<std::int64_t> size() const override { return inputs()[0]->size(); }
  Element at(std::int64_t epoch, std::int64_t index) const override { return inputs()[0]->at(epoch, index); }
  const DatasetOptions* options() const override { return &options_; }
  bool has_state() const override { return false; }

 private:
  std::string deterministic_text() const {
    if (!options_.deterministic) return "";
    return cat("deterministic=", *options_.deterministic ? "True" : "False");
  }
  DatasetOptions options_;
};

// Cuts the pipeline: the stages before and after this point are executed by different actors.
class PrefetchNode : public DatasetNode {
 public:
  PrefetchNode(DatasetNodeRef input, int slots) : DatasetNode({std::move(input)}), slots_(slots) {
    if (slots == automatic) {
      numbers_ = std::make_shared<TunedNumbers>();
      slots_ = most_tuned_slots;
      return;
    }
    require(slots >= 1 && slots <= 32'767, "prefetch: slots must be between 1 and 32767, got ", slots);
  }
  std::string name() const override { return cat("prefetch(", numbers_ ? "auto" : cat(slots_), ")"); }
  std::unique_ptr<StageBody> make_body() const override { return nullptr; }
  std::optional<std::int64_t> size() const override { return inputs()[0]->size(); }
  Element at(std::int64_t epoch, std::int64_t index) const override { return inputs()[0]->at(epoch, index); }
  int slots() const override { return slots_; }
  std::shared_ptr<TunedNumbers> tuned_numbers() const override { return numbers_; }
  bool collects() const override { return true; }
  bool has_state() const override { return false; }

 private:
  int slots_;
  std::shared_ptr<TunedNumbers> numbers_;
};

}  // namespace

Dataset Dataset::prefetch(int slots) const { return Dataset(std::make_shared<PrefetchNode>(node_, slots)); }

Dataset Dataset::with_options(const DatasetOptions& options) const {
  return Dataset(std::make_shared<OptionsNode>(node_, options));
}

}  // namespace karez::data

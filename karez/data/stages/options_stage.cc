// Options of the stages before a point (Dataset::with_options).
#include "karez/data/dataset.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/stage_tree.h"

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

}  // namespace

Dataset Dataset::with_options(const DatasetOptions& options) const {
  return Dataset(std::make_shared<OptionsNode>(node_, options));
}

}  // namespace karez::data

// Reads elements of data sets by index, and prints data sets.
#include "karez/data/dataset.h"

#include <algorithm>

#include "karez/data/stages/dataset_node.h"

namespace karez::data {
namespace {

using Name = std::string (DatasetNode::*)() const;

void append(std::string& out, const DatasetNode& node, Name name, int depth = 0) {
  if (const std::string text = (node.*name)(); !text.empty())
    out += cat(std::string(static_cast<std::size_t>(2 * depth), ' '), text, "\n");
  const int inner = node.inputs().size() > 1 ? depth + 1 : depth;
  for (const DatasetNodeRef& input : node.inputs()) append(out, *input, name, inner);
}

}  // namespace

bool has_shards(const DatasetNode& root) {
  if (root.is_shard()) return true;
  return std::any_of(root.inputs().begin(), root.inputs().end(),
                     [](const DatasetNodeRef& input) { return has_shards(*input); });
}

void check_element(const Element& element, std::string_view function) {
  require(element.structure != nullptr, function,
          ": the function returned an element without a structure; use element()");
  if (leaves(*element.structure) != static_cast<std::int64_t>(element.fields.size()))
    fail(function, ": the function returned an element of ", element.fields.size(), " fields with the structure ",
         print(*element.structure));
  for (const Field& field : element.fields) {
    const HostArray* array = std::get_if<HostArray>(&field);
    require(array == nullptr || array->valid(), function, ": the function returned an array that is not initialised");
  }
}

Element DatasetNode::at(std::int64_t, std::int64_t) const {
  fail("the elements of ", name(), " cannot be read by index; iterate over the data set");
}

Element DatasetNode::stacked(std::span<EpochIndex>, ArrayPool&) const {
  fail("the elements of ", name(), " cannot be read several at once");
}

bool has_changing_size(const DatasetNode& node) {
  if (node.changes_size()) return true;
  for (const DatasetNodeRef& input : node.inputs())
    if (has_changing_size(*input)) return true;
  return false;
}

std::optional<std::int64_t> Dataset::size() const { return node_->size(); }

Element Dataset::at(std::int64_t index, std::int64_t epoch) const {
  const std::optional<std::int64_t> rows = size();
  if (!rows) return node_->DatasetNode::at(epoch, index);  // an error
  require(index >= 0 && index < *rows, "element ", index, " does not exist: the data set has ", *rows, " elements");
  require(epoch >= 0, "the epoch must be at least 0, got ", epoch);
  return node_->at(epoch, index);
}

std::string Dataset::text() const {
  std::string out;
  append(out, *node_, &DatasetNode::name);
  return out;
}

std::string Dataset::common_text() const {
  std::string out;
  append(out, *node_, &DatasetNode::common_name);
  return out;
}

}  // namespace karez::data

// A node of a data set's description: how a stage is made from it, and how its elements are read by index.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/stages/stage_body.h"

namespace karez::data {

class DatasetNode;
struct BatchRule;
using DatasetNodeRef = std::shared_ptr<const DatasetNode>;

// The size of a data set that repeats without end.
inline constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();

// The work of a stage that treats each element alone, so that several elements may be treated at the same time. Reads
// the first element, writes the second.
using ElementFunction = std::function<Emission(Element&, Element&)>;

// Throws if a function of the user returned an element whose fields do not match its structure, or an array that is not
// initialised.
void check_element(const Element& element, std::string_view function);

class DatasetNode {
 public:
  explicit DatasetNode(std::vector<DatasetNodeRef> inputs) : inputs_(std::move(inputs)) {}
  virtual ~DatasetNode() = default;
  const std::vector<DatasetNodeRef>& inputs() const { return inputs_; }

  virtual std::string name() const = 0;  // for people: "batch(64, last=drop)"
  // The name without what may differ between ranks: "shard(4)" for shard(4, 1).
  virtual std::string common_name() const { return name(); }
  virtual std::unique_ptr<StageBody> make_body() const = 0;

  // The number of elements of an epoch if every element can be read by its index.
  virtual std::optional<std::int64_t> size() const { return std::nullopt; }
  // May be called by several threads at the same time, with 0 <= index < size().
  virtual Element at(std::int64_t epoch, std::int64_t index) const;

  virtual ElementFunction element_function() const { return nullptr; }
  virtual int lanes() const { return 1; }
  virtual bool ordered() const { return true; }
  // The slots between this stage and the next; 0: both are executed by the same actor.
  virtual int slots() const { return 0; }
  // Further inputs of the body, after those of the description, and whether each of them is executed by its own actor.
  virtual std::vector<std::unique_ptr<StageBody>> make_inner_bodies() const { return {}; }
  virtual bool inner_actors() const { return false; }
  // Whether the order of the elements can only be had by reading them by index.
  virtual bool permutes() const { return false; }
  // Whether `at` combines elements that should be read one after the other by a stage, such as the rows of a batch.
  virtual bool collects() const { return false; }
  // Of a stage that combines consecutive elements of its input to batches (batch_rule.h).
  virtual const BatchRule* batch_rule() const { return nullptr; }

 private:
  std::vector<DatasetNodeRef> inputs_;
};

}  // namespace karez::data

// A node of a data set's description: how a stage is made from it, and how its elements are read by index.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/data/creation_line.h"
#include "karez/data/namespace.h"
#include "karez/data/stages/array_pool.h"
#include "karez/data/stages/stage_body.h"

namespace karez::data {

class DatasetNode;
struct BatchRule;
struct DatasetOptions;
struct TunedNumbers;
using DatasetNodeRef = std::shared_ptr<const DatasetNode>;

// The size of a data set that repeats without end.
inline constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();

// Sums and products of epochs and indices, which are only keys of random numbers where they exceed 63 bits: the lowest
// 63 bits of the exact result.
inline std::int64_t wrapped(std::uint64_t number) {
  return static_cast<std::int64_t>(number & (~std::uint64_t{0} >> 1));
}
inline std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return wrapped(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline std::int64_t wrapping_product(std::int64_t a, std::int64_t b) {
  return wrapped(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

// The work of a stage that treats each element alone, so that several elements may be treated at the same time. Reads
// the first element, writes the second.
using ElementFunction = std::function<Emission(Element&, Element&)>;

// The call of an ElementFunction for one of several elements.
struct FunctionCall {
  Element* in;
  Element* out;
  Emission emission = Emission::nothing;
  std::exception_ptr error = nullptr;
};
// Calls the function for several elements. Does not throw.
using ElementGroupFunction = std::function<void(std::span<FunctionCall>)>;

// Throws if a function of the user returned an element whose fields do not match its structure, or an array that is not
// initialised.
void check_element(const Element& element, std::string_view function);

// How a stage continues at a position, for `explain`.
struct Restoration {
  std::string how;         // "numbers", "replay", "generator state"
  std::int64_t again = 0;  // the number of elements of its input that it reads again and does not emit
};

// A number of a state; 0 if it is missing, as in a damaged state.
inline std::int64_t number_at(const StreamState* state, std::size_t i) {
  return state == nullptr || i >= state->numbers.size() ? 0 : state->numbers[i];
}

// How the inner bodies of a stage are executed: one after the other, or by an actor each, whose elements the stage
// emits in order or in the order in which they are ready.
enum class InnerBodies : std::uint8_t { sequential, ordered_actors, unordered_actors };

// An element by its index in an epoch.
struct EpochIndex {
  std::int64_t epoch = 0, index = 0;
};

class DatasetNode {
 public:
  explicit DatasetNode(std::vector<DatasetNodeRef> inputs) : inputs_(std::move(inputs)), line_(creation_line()) {}
  virtual ~DatasetNode() = default;
  const std::vector<DatasetNodeRef>& inputs() const { return inputs_; }
  const std::string& line() const { return line_; }  // of the program that created it; "" if it is not known

  virtual std::string name() const = 0;  // for people: "batch(64, last=drop)"
  // The name without what may differ between ranks: "shard(4)" for shard(4, 1).
  virtual std::string common_name() const { return name(); }
  virtual std::unique_ptr<StageBody> make_body() const = 0;

  // The number of elements of an epoch if every element can be read by its index.
  virtual std::optional<std::int64_t> size() const { return std::nullopt; }
  // May be called by several threads at the same time, with 0 <= index < size().
  virtual Element at(std::int64_t epoch, std::int64_t index) const;

  // Whether several elements can be read at once: `stacked` gives the elements at these places (at least one) as rows
  // of arrays from the pool, as `stack` would, but without a state. Like `at`, several threads may call it. It may
  // change the places.
  virtual bool stacks() const { return false; }
  virtual Element stacked(std::span<EpochIndex> places, ArrayPool& pool) const;

  virtual ElementFunction element_function() const { return nullptr; }
  virtual ElementGroupFunction element_group_function() const { return nullptr; }  // null: there is none
  virtual int lanes() const { return 1; }
  virtual bool ordered() const { return true; }
  // Not null if the lanes, the slots or the number of inner actors that act at the same time are chosen while a stream
  // runs: the choice that a stream made last. Those numbers are then the largest ones.
  virtual std::shared_ptr<TunedNumbers> tuned_numbers() const { return nullptr; }
  virtual bool uses_processes() const { return false; }  // to compute the function
  // Where the function is executed if not by this process, for people: "in 2 processes: 4711, 4712".
  virtual std::string place() const { return ""; }
  // The slots between this stage and the next; 0: both are executed by the same actor.
  virtual int slots() const { return 0; }
  // The body of a stage that reads its input by index itself; null: there is none. Its state is an index of the input.
  virtual std::unique_ptr<StageBody> make_indexed_body() const { return nullptr; }
  // The body of this stage and a stage after it that makes batches of its elements, with the inputs of this stage and
  // states of its form; null: there is none.
  virtual std::unique_ptr<StageBody> make_batch_body(const BatchRule&) const { return nullptr; }
  // Further inputs of the body, after those of the description, and whether each of them is executed by its own actor.
  virtual std::vector<std::unique_ptr<StageBody>> make_inner_bodies(InnerBodies) const { return {}; }
  virtual bool inner_actors() const { return false; }
  // The body of a stage with inner actors. If not `ordered`, it emits their elements in the order in which they are
  // ready.
  virtual std::unique_ptr<StageBody> make_body_of_actors(bool /*ordered*/) const { return make_body(); }
  // Not null if this node is no stage, but has options of all stages before this point.
  virtual const DatasetOptions* options() const { return nullptr; }
  // Whether the state of a stream has an entry of this stage, whose inputs are the states of the stage's inputs.
  virtual bool has_state() const { return true; }
  // The number of the state of this input among the inputs of the entry; -1: it is not there.
  virtual int input_of_state(const StreamState* /*state*/, int input) const { return input; }
  // The number of elements before a state of this data set, which has a size. The state was saved by a stage that reads
  // by index, or by the stages one after the other; an error if it was saved by neither.
  virtual std::int64_t index_of(const StreamState& state) const;
  // `state`: the entry of this stage; null at the beginning of an epoch.
  virtual Restoration restoration(const StreamState* /*state*/) const { return {"numbers"}; }
  // Whether the order of the elements can only be had by reading them by index.
  virtual bool permutes() const { return false; }
  // Whether size() may become known later.
  virtual bool changes_size() const { return false; }
  // Whether `at` combines elements that should be read one after the other by a stage, such as the rows of a batch.
  virtual bool collects() const { return false; }
  // Whether the stage takes a shard of its input, so that other ranks have other elements.
  virtual bool is_shard() const { return false; }
  // Of a stage that combines consecutive elements of its input to batches (batch_rule.h).
  virtual const BatchRule* batch_rule() const { return nullptr; }

 private:
  std::vector<DatasetNodeRef> inputs_;
  const std::string line_;
};

// Whether a state has the form of the states of stages that read by index: one number.
inline bool is_index(const StreamState& state) { return state.numbers.size() == 1 && state.inputs.empty(); }

// Whether the elements of a data set would be read by index if none of its stages had several lanes. The bodies of such
// stages accept an index as their state, so that a position can be restored with another number of lanes.
bool is_indexed_without_lanes(const DatasetNode& node);

// Whether the elements differ between ranks, because a stage takes a shard of them.
bool has_shards(const DatasetNode& root);

// Whether the size of a data set may become known later. The order of its elements and the states of its stages must
// not depend on whether it is known.
bool has_changing_size(const DatasetNode& node);

}  // namespace karez::data

// Stages that treat each element alone: map and filter.
#include <utility>

#include "karez/base/hash.h"
#include "karez/base/philox.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/tuning/tuner.h"

namespace karez::data {
namespace {

class FunctionBody : public StageBody {
 public:
  explicit FunctionBody(ElementFunction f) : f_(std::move(f)) {}
  void start(const RunStart& run, InputStarts& starts) override {
    starts.add(0, run);  // without a state of its own, the stage passes on the state of its input
  }
  int next_input() const override { return 0; }
  Emission act(Element* element, Element& out, InputStarts&) override {
    return element == nullptr ? Emission::last : f_(*element, out);
  }

 private:
  ElementFunction f_;
};

// The result of a user's function belongs to the same record as its argument.
Element of_record(Element result, Element& from) {
  check_element(result, "map");
  result.epoch = from.epoch, result.index = from.index;
  result.state = std::move(from.state);
  return result;
}

// Calls the function of `map` or `filter` for all elements that are not skipped.
void call_group(const GroupFunction& f, bool maps, std::uint64_t seed, std::span<FunctionCall> calls) {
  std::vector<GroupItem> items;
  for (const FunctionCall& call : calls)
    if (!call.in->skipped) items.push_back({*call.in, {seed, call.in->epoch, call.in->index}});
  std::exception_ptr error;
  try {
    if (!items.empty()) f(items);
  } catch (...) { error = std::current_exception(); }
  std::size_t next = 0;
  for (FunctionCall& call : calls) {
    if (call.in->skipped) {
      if (!maps) continue;
      *call.out = std::move(*call.in);
      call.emission = Emission::element;
      continue;
    }
    GroupItem& item = items[next++];
    call.error = error ? error : std::move(item.error);
    if (call.error || (!maps && !item.keep)) continue;
    try {
      *call.out = maps ? of_record(std::move(item.out), *call.in) : std::move(*call.in);
      call.emission = Emission::element;
    } catch (...) { call.error = std::current_exception(); }
  }
}

// What map and filter have in common; they differ in their functions.
class FunctionNode : public DatasetNode {
 public:
  FunctionNode(DatasetNodeRef input, std::string name, ElementFunction f, const MapOptions& options, bool keeps_all,
               std::uint64_t seed = 0)
      : DatasetNode({std::move(input)}),
        name_(std::move(name)),
        f_(std::move(f)),
        options_(options),
        keeps_all_(keeps_all),
        seed_(seed) {
    require(options.lanes >= 0 && options.lanes <= 2048, name_, ": lanes must be between 0 and 2048, got ",
            options.lanes);
    if (options.parallel == automatic) {
      numbers_ = std::make_shared<TunedNumbers>();
      f_ = [numbers = numbers_, f = std::move(f_)](Element& in, Element& out) {
        numbers->calls.fetch_add(1, std::memory_order_relaxed);
        return f(in, out);
      };
    } else {
      require(options.parallel >= 1 && options.parallel <= 1024, name_, ": parallel must be between 1 and 1024, got ",
              options.parallel);
    }
  }
  std::string name() const override {
    std::string arguments = options_.name;
    if (options_.parallel > 1 || numbers_)
      arguments += cat(arguments.empty() ? "" : ", ", "parallel=", numbers_ ? "auto" : cat(options_.parallel),
                       options_.deterministic ? "" : ", deterministic=False");
    return arguments.empty() ? name_ : cat(name_, "(", arguments, ")");
  }
  std::unique_ptr<StageBody> make_body() const override { return std::make_unique<FunctionBody>(f_); }
  std::optional<std::int64_t> size() const override { return keeps_all_ ? inputs()[0]->size() : std::nullopt; }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    Element in = inputs()[0]->at(epoch, index), out;
    f_(in, out);
    return out;
  }
  ElementFunction element_function() const override { return f_; }
  ElementGroupFunction element_group_function() const override {
    if (options_.group == nullptr) return nullptr;
    return [f = options_.group, maps = keeps_all_, seed = seed_](std::span<FunctionCall> calls) {
      call_group(f, maps, seed, calls);
    };
  }
  int lanes() const override {
    return options_.lanes > 0 ? options_.lanes : numbers_ ? most_tuned_lanes : options_.parallel;
  }
  std::shared_ptr<TunedNumbers> tuned_numbers() const override { return numbers_; }
  bool uses_processes() const override { return options_.place != nullptr; }
  std::string place() const override { return options_.place ? options_.place() : ""; }
  bool ordered() const override { return options_.deterministic; }
  bool has_state() const override { return false; }

 private:
  std::string name_;
  ElementFunction f_;
  MapOptions options_;
  bool keeps_all_;
  std::uint64_t seed_;
  std::shared_ptr<TunedNumbers> numbers_;
};

}  // namespace

std::uint32_t RandomKey::word(std::uint64_t number) const {
  return philox_word(seed, Hash().add("element").add(epoch).add(index).value(), number);
}
double RandomKey::uniform(std::uint64_t number) const { return unit_double(word(number)); }

Dataset Dataset::map(std::function<Element(const Element&)> f, const MapOptions& options) const {
  require(f != nullptr, "map: the function must not be null");
  return Dataset(std::make_shared<FunctionNode>(
      node_, "map",
      [f = std::move(f)](Element& in, Element& out) {
        out = in.skipped ? std::move(in) : of_record(f(in), in);
        return Emission::element;
      },
      options, true));
}

Dataset Dataset::map(std::function<Element(const Element&, const RandomKey&)> f, std::uint64_t seed,
                     const MapOptions& options) const {
  require(f != nullptr, "map: the function must not be null");
  return Dataset(std::make_shared<FunctionNode>(
      node_, "map",
      [f = std::move(f), seed](Element& in, Element& out) {
        out = in.skipped ? std::move(in) : of_record(f(in, RandomKey{seed, in.epoch, in.index}), in);
        return Emission::element;
      },
      options, true, seed));
}

Dataset Dataset::filter(std::function<bool(const Element&)> keep, const MapOptions& options) const {
  require(keep != nullptr, "filter: the function must not be null");
  return Dataset(std::make_shared<FunctionNode>(
      node_, "filter",
      [keep = std::move(keep)](Element& in, Element& out) {
        if (in.skipped || !keep(in)) return Emission::nothing;
        out = std::move(in);
        return Emission::element;
      },
      options, false));
}

}  // namespace karez::data

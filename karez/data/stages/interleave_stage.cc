// Takes elements in turn from data sets that a function makes.
#include <algorithm>
#include <deque>
#include <exception>
#include <utility>

#include "karez/base/hash.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/held_inputs.h"
#include "karez/data/stages/sequential_reader.h"
#include "karez/data/stages/stage_tree.h"
#include "karez/data/stages/state_numbers.h"
#include "karez/data/tuning/tuner.h"

namespace karez::data {
namespace {

using DatasetFunction = std::function<Dataset(const Element&)>;

// Emits the elements of the data set that the function makes from the argument of the run.
class InnerBody : public StageBody {
 public:
  explicit InnerBody(DatasetFunction f) : f_(std::move(f)) {}
  void start(const RunStart& run, InputStarts&) override {
    reader_.emplace(f_(*run.argument));
    reader_->start({run.epoch, run.state});
  }
  void stop() override { reader_.reset(); }
  int next_input() const override { return -1; }
  Emission act(Element*, Element& out, InputStarts& starts) override {
    const Emission emission = reader_->act(out, *starts.cancelled());
    if (emission == Emission::last) reader_.reset();
    return emission;
  }
  std::int64_t held_bytes() const override { return reader_ ? reader_->held_bytes() : 0; }

 private:
  DatasetFunction f_;
  std::optional<SequentialReader> reader_;
};

// Input 0 has the elements from which data sets are made; each other input has the elements of an open data set. The
// first data sets are all opened before an element is taken, so that they can be read at the same time. Up to `ahead`
// further ones are opened before a place is free for them; they are no part of the state. If the stage is not ordered,
// it reads whichever open data set has an element, and opens none ahead.
class InterleaveBody : public StageBody {
 public:
  InterleaveBody(std::size_t cycle, int block, std::size_t ahead, bool ordered)
      : ordered_(ordered),
        block_(block),
        ahead_(ahead),
        places_(cycle) {}

  void start(const RunStart& run, InputStarts& starts) override {
    epoch_ = run.epoch;
    std::fill(places_.begin(), places_.end(), Place{});
    turn_ = taken_ = opened_ = 0, missing_ = 0, outer_ended_ = false;
    outer_error_ = nullptr;
    held_.reset();
    next_.clear();
    free_inputs_.clear();
    for (std::size_t i = places_.size() + ahead_; i > 0; --i) free_inputs_.push_back(static_cast<int>(i));
    if (run.state) restore(*run.state);
    starts.add(0, {epoch_, held_.before_oldest()});
  }
  int next_input() const override {
    if (missing_ > 0) return 0;
    if (!outer_ended_ && (opened_ < places_.size() || !places_[turn_].open || next_.size() < ahead_)) return 0;
    if (!places_[turn_].open) return -1;
    return ordered_ ? places_[turn_].input : 1;
  }
  int choices() const override { return !ordered_ && next_input() > 0 ? static_cast<int>(places_.size()) : 1; }
  void choose_input(int input) override {
    turn_ = 0;
    while (places_[turn_].input != input) ++turn_;
  }
  // Data sets that are open come before the error.
  bool take_error(std::exception_ptr error) override {
    if (ahead_ == 0 || missing_ > 0 || opened_ < places_.size() || !places_[turn_].open) return false;
    outer_ended_ = true, outer_error_ = std::move(error);
    return true;
  }
  Emission act(Element* element, Element& out, InputStarts& starts) override {
    if (missing_ > 0) return read_again(element, starts);
    const int input = next_input();
    if (input < 0) return Emission::last;
    if (input == 0) {
      if (element == nullptr) {
        outer_ended_ = true;
        find_open();
        return Emission::nothing;
      }
      const std::int64_t ordinal = held_.read(element->state);
      Place opened = open(ordinal, std::move(*element), nullptr, starts);
      if (opened_ < places_.size()) places_[opened_++] = std::move(opened);
      else if (!places_[turn_].open) places_[turn_] = std::move(opened);
      else next_.push_back(std::move(opened));
      return Emission::nothing;
    }
    Place& place = places_[turn_];
    if (element == nullptr) {
      held_.release(place.ordinal);
      free_inputs_.push_back(place.input);
      place = {};
      taken_ = 0;
      if (!next_.empty()) {
        place = std::move(next_.front());
        next_.pop_front();
      } else if (outer_error_) {
        std::rethrow_exception(outer_error_);
      } else if (outer_ended_) {
        find_open();
      }
      return Emission::nothing;
    }
    out = std::move(*element);
    place.state = std::move(out.state);
    out.index = static_cast<std::int64_t>(Hash().add(place.index).add(out.index).value() >> 1);
    if (ordered_ && ++taken_ == static_cast<std::size_t>(block_)) {
      taken_ = 0;
      turn_ = (turn_ + 1) % places_.size();
      if (outer_ended_) find_open();
    }
    out.state = state();
    return Emission::element;
  }

 private:
  struct Place {
    bool open = false;
    int input = 0;                   // that has its elements
    std::int64_t ordinal = -1;       // of the element from which the data set was made
    std::int64_t index = 0;          // of its record
    StreamStateRef state = nullptr;  // of the data set
  };

  Place open(std::int64_t ordinal, Element element, StreamStateRef state, InputStarts& starts) {
    const int input = free_inputs_.back();
    free_inputs_.pop_back();
    Place place{true, input, ordinal, element.index, state};
    const std::int64_t epoch = element.epoch;  // that of the record, which counts the passes of `repeat`
    starts.add(input, {epoch, std::move(state), std::make_shared<const Element>(std::move(element))});
    return place;
  }
  // Moves the turn to the next open place, if there is one.
  void find_open() {
    for (std::size_t i = 0; i < places_.size() && !places_[turn_].open; ++i) {
      turn_ = (turn_ + 1) % places_.size();
      taken_ = 0;
    }
  }
  StreamStateRef state() const {
    std::vector<std::int64_t> numbers = {static_cast<std::int64_t>(turn_),
                                         static_cast<std::int64_t>(taken_),
                                         static_cast<std::int64_t>(opened_),
                                         outer_ended_ && next_.empty() && !outer_error_,
                                         next_.empty() ? held_.next() : next_.front().ordinal,
                                         held_.oldest()};
    std::vector<StreamStateRef> inputs = {held_.before_oldest()};
    for (const Place& place : places_) {
      numbers.push_back(place.open ? place.ordinal : -1);
      inputs.push_back(place.state);
    }
    return stream_state(std::move(numbers), std::move(inputs));
  }
  void restore(const StreamState& saved) {
    check_state(saved, 6 + places_.size(), 1 + places_.size(), "interleave");
    const auto& n = saved.numbers;
    const auto cycle = static_cast<std::int64_t>(places_.size());
    require(ErrorKind::data,
            n[0] >= 0 && n[0] < cycle && n[1] >= 0 && n[1] < block_ && n[2] >= 0 && n[2] <= cycle && n[5] >= 0 &&
                n[5] <= n[4],
            "the state of stage interleave is damaged");
    turn_ = static_cast<std::size_t>(n[0]), taken_ = static_cast<std::size_t>(n[1]);
    opened_ = static_cast<std::size_t>(n[2]), outer_ended_ = n[3] != 0;
    held_.reset(n[5], saved.inputs[0]);
    missing_ = n[4] - n[5];
    for (std::size_t i = 0; i < places_.size(); ++i) {
      require(ErrorKind::data, n[6 + i] == -1 || (n[6 + i] >= n[5] && n[6 + i] < n[4]),
              "the state of stage interleave is damaged");
      places_[i].ordinal = n[6 + i];
      places_[i].state = saved.inputs[1 + i];
    }
  }
  // While a stream is being resumed, makes the data sets that were open again.
  Emission read_again(Element* element, InputStarts& starts) {
    require(ErrorKind::data, element != nullptr,
            "interleave: the input ended before the element at which the stream was saved");
    --missing_;
    const std::int64_t ordinal = held_.read(element->state);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].open || places_[i].ordinal != ordinal) continue;
      places_[i] = open(ordinal, std::move(*element), places_[i].state, starts);
      return Emission::nothing;
    }
    held_.release(ordinal);
    return Emission::nothing;
  }

  bool ordered_;
  int block_;
  std::size_t ahead_;
  std::vector<Place> places_;
  std::deque<Place> next_;                // data sets that are open and have no place yet
  std::vector<int> free_inputs_;          // a stack
  std::int64_t epoch_ = 0, missing_ = 0;  // missing_: elements of input 0 to read again
  // turn_: the place from which elements are taken; taken_: how many of its block; opened_: the places that have been
  // opened at least once
  std::size_t turn_ = 0, taken_ = 0, opened_ = 0;
  bool outer_ended_ = false;
  std::exception_ptr outer_error_;  // that ended it
  HeldInputs held_;
};

// Whether the elements of a data set are read by index, and by the actor of the stage after it.
bool is_read_at_once(const DatasetNode& node) {
  if (!node.size() || node.collects() || node.changes_size() || node.lanes() > 1 || node.slots() > 0 || node.options())
    return false;
  return std::all_of(node.inputs().begin(), node.inputs().end(),
                     [](const DatasetNodeRef& input) { return is_read_at_once(*input); });
}

class InterleaveNode : public DatasetNode {
 public:
  InterleaveNode(DatasetNodeRef input, std::string name, DatasetFunction f, const InterleaveOptions& options)
      : DatasetNode({std::move(input)}),
        name_(std::move(name)),
        f_(std::move(f)),
        options_(options) {
    require(f_ != nullptr, name_, ": the function must not be null");
    require(options.cycle >= 1 && options.cycle <= 1024, name_, ": cycle must be between 1 and 1024, got ",
            options.cycle);
    if (options.tuned && options.cycle > 1) {
      options_.parallel = true;
      numbers_ = std::make_shared<TunedNumbers>();
    }
    require(options.block >= 1, name_, ": block must be at least 1, got ", options.block);
  }
  std::string name() const override {
    if (name_ == "flat_map") return name_;
    return cat(name_, "(cycle=", options_.cycle, ", block=", options_.block,
               options_.tuned      ? ", parallel=auto)"
               : options_.parallel ? ", parallel)"
                                   : ")");
  }
  std::unique_ptr<StageBody> make_body() const override {
    return std::make_unique<InterleaveBody>(cycle(), options_.block, 0, true);
  }
  std::unique_ptr<StageBody> make_body_of_actors(bool ordered) const override {
    return std::make_unique<InterleaveBody>(cycle(), options_.block, ordered ? ahead() : 0, ordered);
  }
  Restoration restoration(const StreamState* state) const override {
    return {"replay", number_at(state, 4) - number_at(state, 5)};
  }
  std::vector<std::unique_ptr<StageBody>> make_inner_bodies(InnerBodies kind) const override {
    std::vector<std::unique_ptr<StageBody>> bodies;
    const std::size_t count = cycle() + (kind == InnerBodies::ordered_actors ? ahead() : 0);
    for (std::size_t i = 0; i < count; ++i) bodies.push_back(std::make_unique<InnerBody>(f_));
    return bodies;
  }
  bool inner_actors() const override { return options_.parallel; }
  std::shared_ptr<TunedNumbers> tuned_numbers() const override { return numbers_; }

 private:
  std::size_t cycle() const { return static_cast<std::size_t>(options_.cycle); }
  // The number of data sets that are opened before a place is free. None if the next element of the input may come
  // late.
  std::size_t ahead() const {
    if (!options_.parallel || options_.tuned || !is_read_at_once(*inputs()[0])) return 0;
    return std::min<std::size_t>(cycle(), 16);
  }

  std::string name_;
  DatasetFunction f_;
  InterleaveOptions options_;
  std::shared_ptr<TunedNumbers> numbers_;
};

}  // namespace

namespace {

DatasetFunction without_skipped(DatasetFunction f) {
  if (f == nullptr) return f;
  return [f = std::move(f)](const Element& element) { return element.skipped ? range(0) : f(element); };
}

}  // namespace

Dataset Dataset::flat_map(DatasetFunction f) const {
  return Dataset(
      std::make_shared<InterleaveNode>(node_, "flat_map", without_skipped(std::move(f)), InterleaveOptions{1, 1}));
}

Dataset Dataset::interleave(DatasetFunction f, const InterleaveOptions& options) const {
  return Dataset(std::make_shared<InterleaveNode>(node_, "interleave", without_skipped(std::move(f)), options));
}

}  // namespace karez::data

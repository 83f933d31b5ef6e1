// Shuffles: a random permutation of all elements, or a random choice among the next ones.
#include <algorithm>
#include <array>
#include <limits>
#include <mutex>

#include "karez/base/hash.h"
#include "karez/base/philox.h"
#include "karez/data/dataset.h"
#include "karez/data/shuffle.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/held_inputs.h"
#include "karez/data/stages/state_numbers.h"

namespace karez::data {
namespace {

constexpr std::int64_t max_permutation = std::numeric_limits<std::int32_t>::max();

// A number in [0, count), a function of the seed, the epoch and the number of the choice.
std::size_t choose(std::uint64_t seed, std::uint64_t stream, std::int64_t choice, std::size_t count) {
  const auto i = static_cast<std::uint64_t>(choice);
  const std::uint64_t word =
      std::uint64_t{philox_word(seed, stream, 2 * i)} << 32 | philox_word(seed, stream, 2 * i + 1);
  return static_cast<std::size_t>((static_cast<unsigned __int128>(word) * count) >> 64);
}

std::uint64_t stream_of(std::int64_t epoch) { return Hash().add("shuffle buffer").add(epoch).value(); }

// Fills a buffer with elements and then emits a random one of them for each further element. The choices depend only on
// how many elements were emitted, so a state needs no list of the elements in the buffer: `restore` repeats the
// choices.
class ShuffleBody : public StageBody {
 public:
  explicit ShuffleBody(const ShuffleOptions& options) : options_(options) {}

  void start(const RunStart& run, InputStarts& starts) override {
    stop();
    stream_ = stream_of(options_.reshuffle ? run.epoch : 0);
    emitted_ = 0, missing_ = 0, ended_ = false;
    place_.clear();
    held_.reset();
    if (run.state) restore(*run.state);
    starts.add(0, {run.epoch, held_.before_oldest()});
  }
  void stop() override {
    buffer_.clear();
    buffer_.shrink_to_fit();
    bytes_ = 0;
  }
  int next_input() const override {
    if (missing_ > 0) return 0;
    return !ended_ && static_cast<std::int64_t>(buffer_.size()) < options_.buffer ? 0 : -1;
  }
  Emission act(Element* element, Element& out, InputStarts&) override {
    if (missing_ > 0) {
      require(ErrorKind::data, element != nullptr,
              "shuffle: the input ended before the element at which the stream was saved");
      return read_again(*element);
    }
    if (next_input() == 0) {
      if (element == nullptr) {
        ended_ = true;
        return Emission::nothing;
      }
      const std::int64_t ordinal = held_.read(element->state);
      bytes_ += array_bytes(*element);
      buffer_.push_back({std::move(*element), ordinal});
      return Emission::nothing;
    }
    if (buffer_.empty()) {
      stop();
      return Emission::last;
    }
    Entry& chosen = buffer_[choose(options_.seed, stream_, emitted_++, buffer_.size())];
    held_.release(chosen.ordinal);
    out = std::move(chosen.element);
    bytes_ -= array_bytes(out);
    if (&chosen != &buffer_.back()) chosen = std::move(buffer_.back());
    buffer_.pop_back();
    out.state = stream_state({emitted_, held_.next(), held_.oldest(), ended_}, {held_.before_oldest()});
    return Emission::element;
  }
  std::int64_t held_bytes() const override { return bytes_; }

 private:
  struct Entry {
    Element element;
    std::int64_t ordinal = 0;
  };

  // Repeats the choices on ordinals, and determines which elements of the input must be read again.
  void restore(const StreamState& state) {
    check_state(state, 4, 1, "shuffle");
    const std::int64_t emitted = state.numbers[0], read = state.numbers[1], oldest = state.numbers[2];
    ended_ = state.numbers[3] != 0;
    require(ErrorKind::data,
            emitted >= 1 && emitted <= read && oldest >= 0 && oldest <= read &&
                (ended_ ? read - emitted < options_.buffer : read - emitted == options_.buffer - 1),
            "the state of stage shuffle is damaged, or was saved with another buffer than ", options_.buffer);
    std::int64_t next = 0;
    auto fill = [&] {
      for (; static_cast<std::int64_t>(buffer_.size()) < options_.buffer && next < read; ++next)
        buffer_.push_back({{}, next});
    };
    for (; emitted_ < emitted; ++emitted_) {
      fill();
      Entry& chosen = buffer_[choose(options_.seed, stream_, emitted_, buffer_.size())];
      chosen.ordinal = buffer_.back().ordinal;
      buffer_.pop_back();
    }
    held_.reset(oldest, state.inputs[0]);
    missing_ = read - oldest;
    for (std::size_t i = 0; i < buffer_.size(); ++i) {
      require(ErrorKind::data, buffer_[i].ordinal >= oldest,
              "the state of stage shuffle was saved with another buffer than ", options_.buffer);
      place_.emplace_back(buffer_[i].ordinal, i);
    }
    std::sort(place_.begin(), place_.end());
    next_place_ = 0;
    if (missing_ == 0) place_.clear();
  }
  Emission read_again(Element& element) {
    const std::int64_t ordinal = held_.read(element.state);
    if (next_place_ < place_.size() && place_[next_place_].first == ordinal) {
      bytes_ += array_bytes(element);
      buffer_[place_[next_place_++].second].element = std::move(element);
    } else {
      held_.release(ordinal);
    }
    if (--missing_ == 0) place_.clear();
    return Emission::nothing;
  }

  ShuffleOptions options_;
  std::uint64_t stream_ = 0;
  std::int64_t emitted_ = 0;
  bool ended_ = false;
  std::vector<Entry> buffer_;
  std::int64_t bytes_ = 0;  // of the buffer
  HeldInputs held_;
  // While a stream is being resumed: the elements still to be read, and the ordinals and places of those in the buffer.
  std::int64_t missing_ = 0;
  std::vector<std::pair<std::int64_t, std::size_t>> place_;
  std::size_t next_place_ = 0;
};

class ShuffleNode : public DatasetNode {
 public:
  ShuffleNode(DatasetNodeRef input, const ShuffleOptions& options)
      : DatasetNode({std::move(input)}),
        options_(options) {
    require(options.buffer >= 0, "shuffle: buffer must be at least 1, or 0 for all elements, got ", options.buffer);
    const std::optional<std::int64_t> rows = inputs()[0]->size();
    const bool is_large_buffer = rows && options.buffer >= *rows && !has_changing_size(*inputs()[0]);
    permutes_ = rows && *rows <= max_permutation && (options.buffer == 0 || is_large_buffer);
    require(permutes_ || options.buffer > 0, "shuffle: buffer must be at least 1, because the number of elements is ",
            rows ? "too large for a permutation" : "not known");
  }
  Restoration restoration(const StreamState* state) const override {
    return {"replay", number_at(state, 1) - number_at(state, 2)};
  }
  std::string name() const override {
    return cat("shuffle(", options_.buffer > 0 ? cat("buffer=", options_.buffer, ", ") : "", "seed=", options_.seed,
               options_.reshuffle ? ")" : ", reshuffle=False)");
  }
  std::unique_ptr<StageBody> make_body() const override { return std::make_unique<ShuffleBody>(options_); }
  std::optional<std::int64_t> size() const override { return permutes_ ? inputs()[0]->size() : std::nullopt; }
  bool permutes() const override { return permutes_; }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    return inputs()[0]->at(epoch, (*order_of(options_.reshuffle ? epoch : 0))[static_cast<std::size_t>(index)]);
  }
  bool stacks() const override { return permutes_ && inputs()[0]->stacks(); }
  Element stacked(std::span<EpochIndex> places, ArrayPool& pool) const override {
    Order order;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i == 0 || places[i].epoch != places[i - 1].epoch) order = order_of(options_.reshuffle ? places[i].epoch : 0);
      places[i].index = (*order)[static_cast<std::size_t>(places[i].index)];
    }
    return inputs()[0]->stacked(places, pool);
  }

 private:
  using Order = std::shared_ptr<const std::vector<std::int32_t>>;
  Order order_of(std::int64_t epoch) const {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < recent_.size(); ++i)
      if (recent_[i].first == epoch && recent_[i].second) return recent_[i].second;
    auto order = std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(inputs()[0]->size().value()));
    data::shuffle(*order, options_.seed, epoch);
    std::swap(recent_[0], recent_[1]);
    recent_[0] = {epoch, order};
    return order;
  }

  ShuffleOptions options_;
  bool permutes_ = false;
  mutable std::mutex mutex_;
  mutable std::array<std::pair<std::int64_t, Order>, 2> recent_;  // two epochs may be read at the same time
};

}  // namespace

Dataset Dataset::shuffle(const ShuffleOptions& options) const {
  return Dataset(std::make_shared<ShuffleNode>(node_, options));
}

}  // namespace karez::data

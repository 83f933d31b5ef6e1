// Sources: numbers, rows of arrays, and generators.
#include <algorithm>
#include <atomic>

#include "karez/data/dataset.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/random_access.h"
#include "karez/data/stages/row_stack.h"
#include "karez/data/stages/state_numbers.h"

namespace karez::data {
namespace {

class RangeNode : public DatasetNode {
 public:
  RangeNode(std::int64_t begin, std::int64_t end, std::int64_t step) : DatasetNode({}), begin_(begin), step_(step) {
    require(step != 0, "range: step must not be 0");
    const __int128 distance = step > 0 ? static_cast<__int128>(end) - begin : static_cast<__int128>(begin) - end;
    const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
    const __int128 count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
    require(count < endless, "range: the number of elements exceeds 64 bits");
    size_ = static_cast<std::int64_t>(count);
    end_ = end;
  }
  std::string name() const override { return cat("range(", begin_, ", ", end_, ", ", step_, ")"); }
  std::unique_ptr<StageBody> make_body() const override { return nullptr; }
  std::optional<std::int64_t> size() const override { return size_; }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    Element out = element(HostArray::of<std::int64_t>({}, {number_at(index)}));
    out.epoch = epoch, out.index = index;
    return out;
  }
  bool stacks() const override { return true; }
  Element stacked(std::span<EpochIndex> places, ArrayPool& pool) const override {
    HostArray numbers = pool.allocate({DType::i64, {static_cast<std::int64_t>(places.size())}});
    std::int64_t* to = numbers.data<std::int64_t>().data();
    for (const EpochIndex& place : places) *to++ = number_at(place.index);
    Element out = element(std::move(numbers));
    out.epoch = places[0].epoch, out.index = places[0].index;
    return out;
  }

 private:
  // Unsigned, because the product may exceed 64 bits although the sum does not.
  std::int64_t number_at(std::int64_t index) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(begin_) +
                                     static_cast<std::uint64_t>(index) * static_cast<std::uint64_t>(step_));
  }

  std::int64_t begin_, end_ = 0, step_, size_ = 0;
};

class ArraysNode : public DatasetNode {
 public:
  ArraysNode(std::vector<HostArray> arrays, StructureRef structure)
      : DatasetNode({}),
        structure_(std::move(structure)) {
    require(!arrays.empty(), "from_arrays: at least one array is needed");
    if (!structure_) structure_ = arrays.size() == 1 ? leaf_structure() : element(arrays).structure;
    require(leaves(*structure_) == static_cast<std::int64_t>(arrays.size()), "from_arrays: the structure has ",
            leaves(*structure_), " leaves, but there are ", arrays.size(), " arrays");
    for (HostArray& array : arrays) {
      require(array.valid(), "from_arrays: an array is not initialised");
      if (array.view().rank() < 1)
        fail(ErrorKind::shape, "from_arrays: an array must have at least one dimension, got ", print(array.type()));
      require(ErrorKind::shape, arrays_.empty() || array.shape()[0] == arrays_[0].count(),
              "from_arrays: all arrays must have the same number of rows, got ",
              arrays_.empty() ? 0 : arrays_[0].count(), " and ", array.shape()[0]);
      arrays_.emplace_back(std::move(array));
    }
  }
  std::string name() const override {
    std::string types;
    for (const Rows& rows : arrays_) types += cat(types.empty() ? "" : ", ", print(rows.array().type()));
    return cat("from_arrays(", types, ")");
  }
  std::unique_ptr<StageBody> make_body() const override { return nullptr; }
  std::optional<std::int64_t> size() const override { return arrays_[0].count(); }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    Element out;
    out.fields.reserve(arrays_.size());
    for (const Rows& rows : arrays_) out.fields.emplace_back(rows[index]);
    out.structure = structure_;
    out.epoch = epoch, out.index = index;
    return out;
  }
  bool stacks() const override { return true; }
  Element stacked(std::span<EpochIndex> places, ArrayPool& pool) const override {
    Element out;
    out.fields.reserve(arrays_.size());
    for (const Rows& rows : arrays_) {
      TensorType type = rows.array().type();
      type.shape[0] = static_cast<std::int64_t>(places.size());
      HostArray batch = pool.allocate(std::move(type));
      rows.copy(places, batch.bytes());
      out.fields.emplace_back(std::move(batch));
    }
    out.structure = structure_;
    out.epoch = places[0].epoch, out.index = places[0].index;
    return out;
  }

 private:
  std::vector<Rows> arrays_;
  StructureRef structure_;
};

class IndexedNode : public DatasetNode {
 public:
  IndexedNode(std::int64_t size, std::function<Element(std::int64_t)> f, std::string name)
      : DatasetNode({}),
        size_(size),
        f_(std::move(f)),
        name_(std::move(name)) {
    require(size >= 0, name_, ": the number of elements must be at least 0, got ", size);
    require(f_ != nullptr, name_, ": the function must not be null");
  }
  std::string name() const override { return cat("from_function(", name_, ", ", size_, ")"); }
  std::unique_ptr<StageBody> make_body() const override { return nullptr; }
  std::optional<std::int64_t> size() const override { return size_; }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    Element out = f_(index);
    check_element(out, name_);
    out.epoch = epoch, out.index = index;
    return out;
  }

 private:
  std::int64_t size_;
  std::function<Element(std::int64_t)> f_;
  std::string name_;
};

// Whether the generators of a data set have a state: 1 or 0, or -1 before the first of them exists.
using KnownState = std::atomic<int>;

// Resumes a generator from its own state, taken every `interval` elements, or by repeating the run.
class GeneratorBody : public StageBody {
 public:
  GeneratorBody(std::function<Generator(std::int64_t)> make, std::string name, std::shared_ptr<KnownState> known)
      : make_(std::move(make)),
        name_(std::move(name)),
        known_(std::move(known)) {}
  void start(const RunStart& run, InputStarts&) override {
    generator_ = make_(run.epoch);
    require(generator_.next != nullptr, name_, ": a generator needs the function `next`");
    *known_ = generator_.state ? 1 : 0;
    epoch_ = run.epoch, count_ = since_ = skip_ = 0;
    text_.clear();
    if (!run.state) return;
    check_state(*run.state, 2, 0, name_);
    count_ = run.state->numbers[0], skip_ = run.state->numbers[1];
    // Without a text, the elements are read again from the first one.
    require(ErrorKind::data, skip_ >= 0 && skip_ <= count_ && (skip_ == count_ || !run.state->text.empty()),
            "the state of stage ", name_, " is damaged");
    if (!run.state->text.empty()) {
      require(ErrorKind::data, generator_.restore != nullptr, "the state of stage ", name_,
              " was saved by a generator with a state, but this generator has none");
      text_ = run.state->text;
      generator_.restore(text_);
    }
    count_ -= skip_;
  }
  void stop() override { generator_ = {}; }
  int next_input() const override { return -1; }
  Emission act(Element*, Element& out, InputStarts&) override {
    if (generator_.state && since_ == 0 && skip_ == 0) text_ = generator_.state();
    std::optional<Element> next = generator_.next();
    if (!next) {
      require(ErrorKind::data, skip_ == 0, name_,
              ": the generator ended before the element at which the stream was saved");
      generator_ = {};
      return Emission::last;
    }
    ++count_;
    if (generator_.state) since_ = (since_ + 1) % interval;
    else ++since_;
    if (skip_ > 0) {
      if (--skip_ == 0 && generator_.state) since_ = 0;  // the next act takes the state of the generator
      return Emission::nothing;
    }
    out = std::move(*next);
    if (!out.structure) out.structure = out.fields.size() == 1 ? leaf_structure() : structure_of(out.fields.size());
    check_element(out, name_);
    out.epoch = epoch_, out.index = count_ - 1;
    // With a state, `since_` elements follow the state's text; the next act takes the text again if since_ is 0.
    out.state = stream_state({count_, generator_.state && since_ == 0 ? interval : since_}, {}, text_);
    return Emission::element;
  }

 private:
  static constexpr std::int64_t interval = 16;
  static StructureRef structure_of(std::size_t fields) {
    return tuple_structure(std::vector<StructureRef>(fields, leaf_structure()));
  }
  std::function<Generator(std::int64_t)> make_;
  std::string name_, text_;
  std::shared_ptr<KnownState> known_;
  Generator generator_;
  std::int64_t epoch_ = 0, count_ = 0, since_ = 0, skip_ = 0;
};

class GeneratorNode : public DatasetNode {
 public:
  GeneratorNode(std::function<Generator(std::int64_t)> make, std::string name)
      : DatasetNode({}),
        make_(std::move(make)),
        name_(std::move(name)) {}
  std::string name() const override { return cat("from_generator(", name_, ")"); }
  std::unique_ptr<StageBody> make_body() const override {
    return std::make_unique<GeneratorBody>(make_, name_, known_);
  }
  Restoration restoration(const StreamState* state) const override {
    const int known = *known_;
    return {known < 0 ? "generator state or replay" : known == 1 ? "generator state" : "replay", number_at(state, 1)};
  }

 private:
  std::function<Generator(std::int64_t)> make_;
  std::string name_;
  std::shared_ptr<KnownState> known_ = std::make_shared<KnownState>(-1);
};

}  // namespace

Dataset range(std::int64_t end) { return range(0, end); }
Dataset range(std::int64_t begin, std::int64_t end, std::int64_t step) {
  return Dataset(std::make_shared<RangeNode>(begin, end, step));
}

Dataset from_arrays(std::vector<HostArray> arrays, StructureRef structure) {
  return Dataset(std::make_shared<ArraysNode>(std::move(arrays), std::move(structure)));
}

Dataset from_function(std::int64_t size, std::function<Element(std::int64_t)> f, std::string name) {
  return Dataset(std::make_shared<IndexedNode>(size, std::move(f), std::move(name)));
}

Dataset from_generator(std::function<Generator(std::int64_t)> make, std::string name) {
  require(make != nullptr, "from_generator: the function must not be null");
  return Dataset(std::make_shared<GeneratorNode>(std::move(make), std::move(name)));
}

}  // namespace karez::data

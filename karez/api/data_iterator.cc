// Reads the epochs of a data set, prints and restores the position, and agrees with other ranks on the elements.
#include "karez/api/data_iterator.h"

#include <algorithm>
#include <atomic>

#include "karez/api/namespace.h"
#include "karez/api/ranks/batch_agreement.h"
#include "karez/base/scanner.h"
#include "karez/base/text.h"
#include "karez/data/stages/batch_rows.h"
#include "karez/data/stages/stage_tree.h"
#include "karez/runtime/stages/dataset_reader.h"

namespace karez {
namespace {

// Whether every rank has the same elements, and knows how many: they can be read by index, there are no shards, and no
// snapshot that may exist only on some ranks.
bool has_equal_ranks(const data::Dataset& dataset) {
  const data::DatasetNode& node = *dataset.node();
  return dataset.size() && !data::has_shards(node) && !data::has_changing_size(node);
}

// The data set of which this rank makes only the rows that it reads, if that is possible.
data::Dataset own_rows(const data::Dataset& dataset, bool shared) {
  if (!shared || !has_equal_ranks(dataset)) return dataset;
  const data::DatasetNodeRef selected = data::with_selected_rows(dataset.node());
  return selected ? data::Dataset(selected) : dataset;
}

std::string types_of(const data::Element& element) {
  std::vector<std::string> types;
  for (const data::Field& field : element.fields) {
    const auto* array = std::get_if<HostArray>(&field);
    types.push_back(array ? print(array->type()) : "an object");
  }
  return types.empty() ? "no array" : join(types, ", ");
}

// What a waiting reader calls. The iterator may outlive the world.
std::function<void()> while_waiting(const std::shared_ptr<WorldState>& world) {
  return [user = world->options.while_waiting, weak = std::weak_ptr(world)] {
    if (user) user();
    if (const auto alive = weak.lock()) alive->session.check_ranks();
  };
}

// An element of the same types, whose arrays are zeros.
data::Element zeros_like(const std::optional<data::Element>& element) {
  require(ErrorKind::data, element.has_value(),
          "the stream of this rank has no element, so the types of padding are not known");
  data::Element out = *element;
  out.rows = nullptr;
  for (data::Field& field : out.fields) {
    const auto* array = std::get_if<HostArray>(&field);
    require(ErrorKind::type, array != nullptr, "an element with objects cannot be padded; use UnevenEnd::stop");
    field = HostArray(array->type());
  }
  return out;
}

}  // namespace

struct DataIterator::State {
  State(const std::shared_ptr<WorldState>& world, const data::Dataset& dataset, const IterateOptions& options)
      : threads(world->data_threads),
        shared(options.compare && !world->ranks.alone()),
        sharded(data::has_shards(*dataset.node())),
        ordered(data::is_ordered(*dataset.node())),
        uneven(options.uneven),
        reader(own_rows(dataset, shared), *threads, {.slots = options.slots, .while_waiting = while_waiting(world)}) {
    if (shared && !has_equal_ranks(dataset)) agreement.emplace(world, world->streams++);
  }
  std::shared_ptr<runtime::DataThreads> threads;
  const bool shared, sharded, ordered;
  const UnevenEnd uneven;
  runtime::DatasetReader reader;
  std::int64_t epoch = 0;
  bool started = false, ended = false;
  std::atomic<bool> closed{false};
  // Of a stream that the ranks compare.
  std::optional<BatchAgreement> agreement;
  std::int64_t number = 0;               // of the next element of this epoch
  bool padding = false;                  // this rank's stream has ended, but not the epoch
  std::optional<data::Element> element;  // the last one, for the types of padding
};

DataIterator::DataIterator(const std::shared_ptr<WorldState>& world, const data::Dataset& dataset,
                           const IterateOptions& options)
    : state_(std::make_unique<State>(world, dataset, options)) {}
DataIterator::DataIterator(DataIterator&&) noexcept = default;
DataIterator::~DataIterator() = default;

std::optional<data::Element> DataIterator::next() {
  std::optional<data::Element> element = next_partial();
  if (element && element->rows) {
    element->rows->need_all();
    element->rows = nullptr;
  }
  return element;
}

std::optional<data::Element> DataIterator::next_partial() {
  State& s = *state_;
  if (s.closed) return std::nullopt;
  if (!s.started) start(s.epoch);
  else if (s.ended) start(s.epoch + 1);
  std::optional<data::Element> element;
  if (!s.padding) do
      element = s.reader.next();
    while (element && element->skipped);
  if (!element && s.reader.closed()) {
    require(s.closed, "the world has ended, so its data sets cannot be read any more");
    return std::nullopt;  // the position stays
  }
  if (!s.agreement) {
    s.ended = !element;
    return element;
  }
  s.padding = !element;
  using Presence = BatchAgreement::Presence;
  const Presence presence = s.agreement->agree(s.epoch, s.number, element ? types_of(*element) : std::string());
  ++s.number;
  if (presence == Presence::none || (presence == Presence::some && s.uneven == UnevenEnd::stop)) {
    s.ended = true;
    return std::nullopt;
  }
  if (!element) return zeros_like(s.element);
  if (s.uneven == UnevenEnd::pad) s.element = element;
  return element;
}

void DataIterator::start(std::int64_t epoch) {
  require(epoch >= 0, "the epoch must be at least 0, got ", epoch);
  State& s = *state_;
  s.reader.start({epoch});
  s.epoch = epoch;
  s.started = true, s.ended = false, s.padding = false;
  s.number = 0;
}

std::int64_t DataIterator::epoch() const { return state_->epoch; }

std::string DataIterator::state() const {
  const State& s = *state_;
  require(s.ordered,
          "an iterator has no position if a stage passes elements on as soon as they are ready (deterministic=False)");
  if (s.ended) return cat("epoch ", s.epoch + 1, " -");
  if (s.padding) return cat("epoch ", s.epoch, " end");
  return cat("epoch ", s.epoch, " ", print(s.reader.state()));
}

std::string DataIterator::common_state() const {
  const State& s = *state_;
  if (!s.agreement) return state();
  const std::vector<std::string> states = s.agreement->all_texts(state());
  // Shards of another number of ranks have other elements.
  const bool equal = std::count(states.begin(), states.end(), states[0]) == static_cast<std::ptrdiff_t>(states.size());
  if (equal && !s.sharded) return states[0];
  return cat("ranks ", states.size(), "\n", join(states, "\n"));
}

namespace {

// This rank's position among those of several ranks: "ranks 2" and a line for each rank.
std::string_view state_of_rank(std::string_view text, const std::optional<BatchAgreement>& agreement) {
  std::vector<std::string_view> lines;
  while (true) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  const std::size_t saved = lines.size() - 1, ranks = agreement ? static_cast<std::size_t>(agreement->ranks()) : 1;
  require(lines[0] == cat("ranks ", saved), "the state of an iterator is damaged: '", lines[0], "' is followed by ",
          saved, " lines");
  require(saved == ranks, "the position was saved by ", saved,
          " ranks with a stream each, so it cannot be restored by ", ranks, ranks == 1 ? " rank" : " ranks");
  return lines[agreement ? static_cast<std::size_t>(agreement->rank()) + 1 : 1];
}

}  // namespace

void DataIterator::check_process() { runtime::DataThreads::check_process(); }

std::string DataIterator::explain() const { return state_->reader.explain(); }

void DataIterator::restore(std::string_view text) {
  State& s = *state_;
  std::int64_t epoch = 0;
  bool padding = false;
  data::StreamStateRef state;
  try {
    if (text.starts_with("ranks ")) text = state_of_rank(text, s.agreement);
    base::Scanner in(text, "the state of an iterator");
    in.expect("epoch");
    epoch = in.integer();
    const std::string_view rest = text.substr(in.position());
    padding = rest == " end";
    if (!padding) state = data::parse_stream_state(rest);
  } catch (const Error& error) { throw Error(ErrorKind::data, error.what()); }
  require(ErrorKind::data, epoch >= 0, "the state of an iterator has epoch ", epoch);
  require(ErrorKind::data, !padding || s.agreement, "this position is only of a stream that several ranks read");
  s.reader.start({epoch, std::move(state)});
  if (padding) s.element = s.reader.next();
  s.epoch = epoch;
  s.started = true, s.ended = false, s.padding = padding;
  s.number = 0;
}

void DataIterator::close(bool wait) {
  state_->closed = true;
  state_->reader.close(wait);
}

}  // namespace karez

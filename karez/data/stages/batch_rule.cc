// Makes batches of elements, some of which may be skipped.
#include "karez/data/stages/batch_rule.h"

#include <algorithm>

namespace karez::data {

const char* name_of(LastBatch last) {
  switch (last) {
    case LastBatch::keep: return "keep";
    case LastBatch::drop: return "drop";
    case LastBatch::pad: return "pad";
  }
  return "?";
}

void SampleRow::set(const Element& row) {
  std::lock_guard lock(mutex_);
  if (!row_) row_ = row;
}

std::optional<Element> SampleRow::get() const {
  std::lock_guard lock(mutex_);
  return row_;
}

Element BatchRule::make(std::span<const Element> elements) const {
  const bool pad = last == LastBatch::pad;
  const auto count = static_cast<std::int64_t>(elements.size());
  const auto skipped = std::find_if(elements.begin(), elements.end(), [](const Element& e) { return e.skipped; });
  if (skipped == elements.end()) {
    if (pad) sample->set(elements.front());
    return stack(elements, {pad ? rows : count, pad, padded, shapes}, *pool, stage);
  }
  require(ErrorKind::data, pad, stage, ": record ", skipped->index,
          " was skipped, but the batch has no weights of rows; use last=\"pad\"");
  std::vector<Element> present;
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (elements[i].skipped) continue;
    present.push_back(elements[i]);
    positions.push_back(static_cast<std::int64_t>(i));
  }
  Element out = make_sparse(present, std::move(positions), rows);
  out.epoch = elements.front().epoch, out.index = elements.front().index;
  out.state = elements.back().state;
  return out;
}

Element BatchRule::make_sparse(std::span<const Element> elements, std::vector<std::int64_t> positions,
                               std::int64_t count) const {
  std::optional<Element> row;
  if (elements.empty()) {
    row = sample->get();
    require(ErrorKind::data, row.has_value(), stage,
            ": all records of the first batch were skipped, so its types are not known");
    elements = {&*row, 1};
    positions = {-1};
  } else {
    sample->set(elements.front());
  }
  return stack(elements, {count, last == LastBatch::pad, padded, shapes, std::move(positions)}, *pool, stage);
}

}  // namespace karez::data

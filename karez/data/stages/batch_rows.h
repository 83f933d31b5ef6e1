// Batches of which a rank makes only the rows that it reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/source.h"
#include "karez/data/stages/dataset_node.h"

namespace karez::data {

class SkipCounts;

// The rows of the batches of an iterator that this rank has read so far. May be used by several threads.
class RowSelection {
 public:
  explicit RowSelection(std::int64_t rows);  // of a batch
  std::int64_t rows() const { return rows_; }
  // Whether the next batches must contain this row from the beginning: every row until `narrow` is called.
  bool contains(std::int64_t row) const { return !narrowed_ || read_[static_cast<std::size_t>(row)]; }
  void add(std::int64_t begin, std::int64_t end);  // these rows have been read
  void narrow() { narrowed_ = true; }              // from now on only rows that have been read

 private:
  const std::int64_t rows_;
  std::atomic<bool> narrowed_{false};
  std::vector<std::atomic<bool>> read_;
};

// The rows of one batch, some of which may be missing in its arrays: they are zeros. A row that is missing is made when
// it is needed. May be used by several threads.
class BatchRows {
 public:
  // Row i is element first + i of an epoch of `rows`.
  struct Origin {
    DatasetNodeRef rows;
    std::int64_t epoch = 0, first = 0;
  };
  // `present` has an entry for each row of data; rows of padding are not counted. `weights` may be invalid.
  BatchRows(Origin origin, std::vector<HostArray> arrays, HostArray weights, const std::vector<bool>& present,
            std::shared_ptr<RowSelection> selection);
  ~BatchRows();
  BatchRows(const BatchRows&) = delete;
  BatchRows& operator=(const BatchRows&) = delete;

  // Makes those of the rows from `begin` to `end` that are missing. The arrays may then be read there. Throws the error
  // of a stage.
  void need(std::int64_t begin, std::int64_t end);
  void need_all() { need(0, selection_->rows()); }
  const Origin& origin() const { return origin_; }

 private:
  void make(std::int64_t row);

  const Origin origin_;
  const std::vector<HostArray> arrays_;
  const HostArray weights_;  // of the rows; 0 for a row that is missing
  const std::shared_ptr<RowSelection> selection_;
  const std::shared_ptr<SkipCounts> skip_counts_;  // of the stream; may be null
  std::mutex mutex_;                               // held while a row is copied
  std::vector<std::atomic<bool>> present_;
  std::atomic<bool> used_{false};
};

// A source of an array of a batch, which makes the rows that are read.
std::shared_ptr<const Source> rows_source(const HostArray& array, std::shared_ptr<BatchRows> rows);

// The data set whose batches contain only the rows that earlier batches were read for; `Element::rows` makes the
// others. Null if `node` is not of batches (and stages that pass them on, such as prefetch) of rows that can be read by
// index, or if the positions in it would not be those of `node`.
DatasetNodeRef with_selected_rows(const DatasetNodeRef& node);

}  // namespace karez::data

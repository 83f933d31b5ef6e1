// Batches of labelled images. Rows are looked up by logical index when a device reads its slice, and nothing is copied
// before.
#include "karez/data/batch.h"

#include <array>
#include <cmath>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "karez/data/shuffle.h"
#include "karez/data/slice_check.h"

namespace karez::data {

struct Batches::Rows {
  LabelledImages data;
  BatchOptions options;
  std::array<float, 256> normalised;  // by grey level

  // The orders of two epochs, so that readers on both sides of an epoch's end do not overwrite each other's order. They
  // are computed in place, without allocation.
  struct Epoch {
    std::int64_t number = -1;
    std::vector<std::int32_t> order;
  };
  mutable std::array<Epoch, 2> epochs;
  mutable std::shared_mutex mutex;

  std::int64_t per_epoch() const {
    return options.train ? data.rows() / options.batch : ceil_div(data.rows(), options.batch);
  }

  // Calls visit(i, row) for the slice [begin, begin + count) of the batch; row is -1 for padding.
  template <class Visit>
  void for_rows(std::int64_t position, std::int64_t begin, std::int64_t count, Visit&& visit) const {
    require(position >= 0, "the position of a batch must be at least 0, got ", position);
    std::int64_t epoch = position / per_epoch(), first_row = position % per_epoch() * options.batch + begin;
    if (!options.train) {
      for (std::int64_t i = 0; i < count; ++i) visit(i, first_row + i < data.rows() ? first_row + i : -1);
      return;
    }
    Epoch& epoch_order = epochs[static_cast<std::size_t>(epoch % 2)];
    std::shared_lock reading(mutex);
    while (epoch_order.number != epoch) {
      reading.unlock();
      {
        std::unique_lock writing(mutex);
        if (epoch_order.number != epoch) shuffle(epoch_order.order, options.seed, epoch);
        epoch_order.number = epoch;
      }
      reading.lock();
    }
    for (std::int64_t i = 0; i < count; ++i)
      visit(i, std::int64_t{epoch_order.order[static_cast<std::size_t>(first_row + i)]});
  }
};

class Batches::Images : public Source {
 public:
  explicit Images(std::shared_ptr<const Rows> rows) : rows_(std::move(rows)) {
    const Rows& r = *rows_;
    type_ = {DType::f32, {r.options.batch, 1, r.data.shape[1], r.data.shape[2]}};
  }
  TensorType type() const override { return type_; }
  void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    check_slice(type_, begin, *out.view);
    const auto& shape = out.shape();
    const auto& strides = out.strides();
    std::int64_t width = type_.shape[3], pixels = type_.shape[2] * width;
    if (out.count() == 0) return;
    rows_->for_rows(position, begin[0], shape[0], [&](std::int64_t i, std::int64_t row) {
      float* to = out.as<float>() + i * strides[0];
      const std::uint8_t* source =
          row < 0 ? nullptr : rows_->data.images.data() + row * pixels + begin[2] * width + begin[3];
      for (std::int64_t y = 0; y < shape[2]; ++y)
        for (std::int64_t x = 0; x < shape[3]; ++x)
          to[y * strides[2] + x * strides[3]] = source ? rows_->normalised[source[y * width + x]] : 0.0f;
    });
  }

 private:
  std::shared_ptr<const Rows> rows_;
  TensorType type_;
};

class Batches::Labels : public Source {
 public:
  explicit Labels(std::shared_ptr<const Rows> rows)
      : rows_(std::move(rows)),
        type_{DType::i32, {rows_->options.batch}} {}
  TensorType type() const override { return type_; }
  void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    check_slice(type_, begin, *out.view);
    rows_->for_rows(position, begin[0], out.shape()[0], [&](std::int64_t i, std::int64_t row) {
      out.as<std::int32_t>()[i * out.strides()[0]] = row < 0 ? 0 : rows_->data.labels[static_cast<std::size_t>(row)];
    });
  }

 private:
  std::shared_ptr<const Rows> rows_;
  TensorType type_;
};

class Batches::Weights : public Source {
 public:
  explicit Weights(std::shared_ptr<const Rows> rows)
      : rows_(std::move(rows)),
        type_{DType::f32, {rows_->options.batch}} {}
  TensorType type() const override { return type_; }
  void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    check_slice(type_, begin, *out.view);
    rows_->for_rows(position, begin[0], out.shape()[0], [&](std::int64_t i, std::int64_t row) {
      out.as<float>()[i * out.strides()[0]] = row < 0 ? 0.0f : 1.0f;
    });
  }

 private:
  std::shared_ptr<const Rows> rows_;
  TensorType type_;
};

Batches::Batches(LabelledImages rows, const BatchOptions& options) : rows_(std::make_shared<Rows>()) {
  require(options.batch >= 1, "a batch must have at least 1 row, got ", options.batch);
  require(std::isfinite(options.mean), "the mean of images must be finite, got ", options.mean);
  require(std::isfinite(options.deviation) && options.deviation > 0,
          "the deviation of images must be finite and positive, got ", options.deviation);
  require(ErrorKind::data, !options.train || options.batch <= rows.rows(), "a batch must have at most ", rows.rows(),
          " rows, the size of the data set; got ", options.batch);
  require(ErrorKind::data, rows.rows() >= 1, "the data set has no rows");
  require(ErrorKind::data, rows.rows() < (std::int64_t{1} << 31), "a data set must have fewer than 2^31 rows, got ",
          rows.rows());
  rows_->data = std::move(rows);
  rows_->options = options;
  for (std::size_t grey = 0; grey < 256; ++grey)
    rows_->normalised[grey] = (static_cast<float>(grey) / 255.0f - options.mean) / options.deviation;
  if (options.train)
    for (auto& epoch : rows_->epochs) epoch.order.resize(static_cast<std::size_t>(rows_->data.rows()));
  images_ = std::make_shared<Images>(rows_);
  labels_ = std::make_shared<Labels>(rows_);
  weights_ = std::make_shared<Weights>(rows_);
}

std::int64_t Batches::per_epoch() const { return rows_->per_epoch(); }
std::int64_t Batches::rows() const { return rows_->data.rows(); }

}  // namespace karez::data

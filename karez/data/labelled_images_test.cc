// Tests of labelled images: the elements of valid files, and the error for each kind of invalid file.
#include "karez/data/labelled_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "karez/base/test_error.h"
#include "karez/data/shuffle.h"
#include "karez/data/test_idx.h"

namespace karez::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct ImageFolder : Folder {
  // Row r has label r and pixels r, r + 1, ...
  void write_rows(std::uint32_t rows, const std::string& part = "train", std::uint32_t height = 2,
                  std::uint32_t width = 3) const {
    Bytes pixels, labels(rows);
    std::iota(labels.begin(), labels.end(), std::uint8_t{0});
    for (std::uint32_t r = 0; r < rows; ++r)
      for (std::uint32_t i = 0; i < height * width; ++i) pixels.push_back(static_cast<std::uint8_t>(r + i));
    write(part + "-images-idx3-ubyte", idx(0x803, {rows, height, width}, pixels));
    write(part + "-labels-idx1-ubyte", idx(0x801, {rows}, labels));
  }
  Dataset read(const LabelledImageOptions& options = {}, std::string_view part = "train") const {
    return from_labelled_images(path.string(), part, options);
  }
  // The text of the error, with DIR in place of the folder's path.
  std::string error() const {
    std::string text = error_of([&] { read(); });
    for (auto at = text.find(path.string()); at != text.npos; at = text.find(path.string()))
      text.replace(at, path.string().size(), "DIR");
    return text;
  }
};

template <class T> std::vector<T> list(const Element& element, std::size_t field) {
  const auto data = array_of(element, field).data<T>();
  return {data.begin(), data.end()};
}

TEST(LabelledImages, AnElementIsANormalisedImageAndItsLabel) {
  ImageFolder folder;
  folder.write_rows(4);
  folder.write_rows(7, "t10k", 1, 1);
  const Dataset images = folder.read({.mean = 0.5f, .deviation = 2});
  ASSERT_EQ(images.size(), 4);
  for (std::int64_t row : {3, 0, 2}) {
    const Element element = images.at(row);
    EXPECT_EQ(print(*element.structure), "(*, *)");
    EXPECT_EQ(array_of(element, 0).type(), (TensorType{DType::f32, {1, 2, 3}}));
    EXPECT_EQ(array_of(element, 1).type(), (TensorType{DType::i32, {}}));
    EXPECT_THAT(list<std::int32_t>(element, 1), ElementsAre(row));
    const auto pixels = list<float>(element, 0);
    for (std::size_t p = 0; p < 6; ++p)
      EXPECT_FLOAT_EQ(pixels[p], ((static_cast<float>(row) + static_cast<float>(p)) / 255 - 0.5f) / 2);
  }
  const Dataset tests = folder.read({}, "t10k");
  EXPECT_EQ(tests.size(), 7);
  EXPECT_THAT(list<float>(tests.at(6), 0), ElementsAre(6 / 255.0f));
}

TEST(LabelledImages, AnImageThatIsKeptDoesNotChange) {
  ImageFolder folder;
  folder.write_rows(200, "train", 1, 1);
  const Dataset images = folder.read({.classes = 256});
  std::vector<Element> kept;
  for (std::int64_t row = 0; row < 200; row += 20) {
    kept.push_back(images.at(row));
    for (std::int64_t other = 0; other < 200; ++other) images.at(other);
  }
  for (std::size_t i = 0; i < kept.size(); ++i)
    EXPECT_THAT(list<float>(kept[i], 0), ElementsAre(static_cast<float>(20 * i) / 255.0f));
}

TEST(LabelledImages, BatchesHaveTheRowsOfTheShuffledOrder) {
  ImageFolder folder;
  folder.write_rows(10);
  const Dataset batches = folder.read().shuffle({.seed = 5}).batch(3, LastBatch::drop);
  ASSERT_EQ(batches.size(), 3);
  std::vector<std::int32_t> order(10);
  for (std::int64_t epoch : {0, 1, 4}) {
    shuffle(order, 5, epoch);
    for (std::int64_t i = 0; i < 3; ++i) {
      const Element batch = batches.at(i, epoch);
      EXPECT_THAT(list<std::int32_t>(batch, 1), ElementsAre(order[3 * i], order[3 * i + 1], order[3 * i + 2]));
      ASSERT_EQ(array_of(batch, 0).type(), (TensorType{DType::f32, {3, 1, 2, 3}}));
      const auto pixels = list<float>(batch, 0);
      for (std::int64_t k = 0; k < 18; ++k)
        EXPECT_FLOAT_EQ(pixels[k], static_cast<float>(order[3 * i + k / 6] + k % 6) / 255);
    }
  }
}

TEST(LabelledImages, PaddingHasWeightZero) {
  ImageFolder folder;
  folder.write_rows(5);
  const Dataset batches = folder.read({.mean = 0.5f}).batch(3, LastBatch::pad);
  ASSERT_EQ(batches.size(), 2);
  EXPECT_EQ(print(*batches.at(0).structure), "(*, *, *)");
  EXPECT_THAT(list<float>(batches.at(0), 2), ElementsAre(1, 1, 1));
  EXPECT_THAT(list<std::int32_t>(batches.at(1), 1), ElementsAre(3, 4, 0));
  EXPECT_THAT(list<float>(batches.at(1), 2), ElementsAre(1, 1, 0));
  EXPECT_EQ(list<float>(batches.at(1), 0)[12], 0);
}

TEST(LabelledImages, FilesMayHaveNoRowsOrNoPixels) {
  ImageFolder folder;
  folder.write_rows(0);
  EXPECT_EQ(folder.read().size(), 0);
  folder.write_rows(2, "train", 0, 3);
  EXPECT_EQ(array_of(folder.read().batch(2).at(0), 0).type(), (TensorType{DType::f32, {2, 1, 0, 3}}));
}

TEST(LabelledImages, TheDescriptionContainsTheNormalisation) {
  ImageFolder folder;
  folder.write_rows(2);
  EXPECT_EQ(folder.read({.mean = 0.5f, .deviation = 2}).text(),
            "from_labelled_images(train, mean 0.5, deviation 2.0, 2)\n");
}

TEST(LabelledImages, InvalidOptionsAreErrors) {
  ImageFolder folder;
  folder.write_rows(2);
  EXPECT_EQ(error_of([&] { folder.read({.deviation = 0}); }),
            "from_labelled_images: deviation must be finite and positive, got 0.0");
  EXPECT_THAT(error_of([&] { folder.read({.mean = std::numeric_limits<float>::infinity()}); }),
              HasSubstr("mean must be finite, got inf"));
  EXPECT_THAT(error_of([&] { folder.read({.classes = 0}); }), HasSubstr("classes must be at least 1, got 0"));
}

TEST(LabelledImages, AMissingDirectoryAndAMissingFileAreDistinguished) {
  EXPECT_EQ(error_of([] { from_labelled_images("/nowhere", "train"); }), "data directory '/nowhere' does not exist");
  ImageFolder folder;
  EXPECT_EQ(folder.error(), "data directory 'DIR' has no file train-images-idx3-ubyte, neither plain nor with .gz");
}

TEST(LabelledImages, CountsOfImagesAndLabelsMustAgree) {
  ImageFolder folder;
  folder.write("train-images-idx3-ubyte", idx(0x803, {2, 1, 1}, {1, 2}));
  folder.write("train-labels-idx1-ubyte", idx(0x801, {3}, {1, 2, 3}));
  EXPECT_EQ(folder.error(), "DIR/train-images-idx3-ubyte has 2 images, but DIR/train-labels-idx1-ubyte has 3 labels");
}

TEST(LabelledImages, ALabelOutOfRangeIsReportedWithItsRow) {
  ImageFolder folder;
  folder.write("train-images-idx3-ubyte", idx(0x803, {3, 1, 1}, {1, 2, 3}));
  folder.write("train-labels-idx1-ubyte", idx(0x801, {3}, {9, 10, 11}));
  EXPECT_EQ(folder.error(), "DIR/train-labels-idx1-ubyte: label 10 of row 1 is not in 0..9");
  EXPECT_EQ(folder.read({.classes = 12}).size(), 3);
}

TEST(LabelledImages, GzipDamageIsReportedWithTheFile) {
  ImageFolder folder;
  folder.write("train-images-idx3-ubyte.gz", {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3});
  folder.write("train-labels-idx1-ubyte", idx(0x801, {0}, {}));
  EXPECT_THAT(folder.error(), testing::StartsWith("DIR/train-images-idx3-ubyte.gz: gzip data "));
}

}  // namespace
}  // namespace karez::data

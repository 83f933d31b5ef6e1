// Tests of transfers between meshes, which compare the pieces element by element with the contents of every device.
#include "karez/sbp/transfer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "karez/base/error.h"

namespace karez::sbp {
namespace {

Mesh mesh_on(std::string_view text, std::vector<int> devices) {
  Mesh mesh = Mesh::parse(text);
  for (std::size_t i = 0; i < devices.size(); ++i) mesh.devices[i] = {devices[i] / 10, devices[i] % 10};
  return mesh;
}

using Index = std::vector<std::int64_t>;

// Returns the elements of a box, enumerated independently of the tested code.
std::set<Index> elements(const Box& box) {
  std::set<Index> out = {{}};
  for (const Range& range : box) {
    std::set<Index> extended;
    for (const Index& head : out)
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        Index index = head;
        index.push_back(i);
        extended.insert(std::move(index));
      }
    out = std::move(extended);
  }
  return out;
}

TEST(Transfer, EachReceiverGetsEachElementOnceFromADeviceThatHoldsIt) {
  std::mt19937 random(3);
  const std::vector<Mesh> meshes = {mesh_on("", {0}),
                                    mesh_on("a=2", {0, 1}),
                                    mesh_on("a=2", {12, 0}),
                                    mesh_on("a=3", {1, 2, 3}),
                                    mesh_on("a=2,b=2", {0, 10, 1, 11}),
                                    mesh_on("a=3,b=2", {5, 4, 3, 2, 1, 0})};
  for (int round = 0; round < 400; ++round) {
    const Mesh &a = meshes[random() % meshes.size()], &b = meshes[random() % meshes.size()];
    Shape shape;
    for (std::size_t d = random() % 4; d > 0; --d) shape.push_back(static_cast<std::int64_t>(random() % 5));
    const TensorType type{DType::f32, shape};
    const auto old_layouts = layouts_without_partial(type, a), new_layouts = layouts_without_partial(type, b);
    const Layout &before = old_layouts[random() % old_layouts.size()],
                 &after = new_layouts[random() % new_layouts.size()];
    std::map<int, std::set<Index>> received_elements;
    for (const TransferPiece& piece : transfer_pieces(shape, {a, before}, {b, after})) {
      const auto sender_elements = elements(local_box(shape, a, before, piece.from));
      const DeviceName from = a.devices[static_cast<std::size_t>(piece.from)],
                       to = b.devices[static_cast<std::size_t>(piece.to)];
      EXPECT_EQ(piece.is_local, from == to);
      for (const Index& index : elements(piece.box)) {
        EXPECT_TRUE(sender_elements.count(index)) << "the sender does not hold the element";
        EXPECT_TRUE(received_elements[piece.to].insert(index).second) << "the receiver gets the element twice";
        for (std::size_t p = 0; p < a.devices.size() && !piece.is_local; ++p)
          EXPECT_FALSE(a.devices[p] == to && elements(local_box(shape, a, before, static_cast<int>(p))).count(index))
              << "the receiver already held the element";
      }
    }
    for (int p = 0; p < b.size(); ++p)
      EXPECT_EQ(received_elements[p], elements(local_box(shape, b, after, p))) << "round " << round;
  }
}

TEST(Transfer, ReceiversAlternateBetweenReplicasAndPreferTheirOwnRank) {
  const Mesh pair = mesh_on("a=2", {0, 1}), four_devices = mesh_on("a=4", {2, 3, 4, 5}),
             two_ranks = mesh_on("a=2", {0, 10}), receivers = mesh_on("a=2", {11, 12});
  std::vector<int> from;
  for (const auto& piece : transfer_pieces({8}, {pair, {B()}}, {four_devices, {S(0)}})) from.push_back(piece.from);
  EXPECT_EQ(from, (std::vector<int>{0, 1, 0, 1}));
  for (const auto& piece : transfer_pieces({8}, {two_ranks, {B()}}, {receivers, {B()}}))
    EXPECT_EQ(piece.from, 1) << "rank 1 holds the box";
}

TEST(Transfer, ATransferTakesAsLongAsItsBusiestDevice) {
  CostTable costs;
  costs.axis_links = {{"stage", {.alpha = 1, .beta = 0.5}}};
  costs.memory_bytes = 4;
  const Mesh single = mesh_on("", {0}), pair = mesh_on("a=2", {1, 2}), overlapping = mesh_on("a=2", {0, 1});
  const TensorType type{DType::f32, {8}};  // 32 bytes
  EXPECT_DOUBLE_EQ(transfer_seconds(type, {single, {}}, {pair, {B()}}, costs), 2 + 0.5 * 64)
      << "one device sends the tensor twice";
  EXPECT_DOUBLE_EQ(transfer_seconds(type, {single, {}}, {pair, {S(0)}}, costs), 2 + 0.5 * 32);
  EXPECT_DOUBLE_EQ(transfer_seconds(type, {pair, {S(0)}}, {single, {}}, costs), 2 + 0.5 * 32)
      << "one device receives two halves";
  EXPECT_DOUBLE_EQ(transfer_seconds(type, {single, {}}, {overlapping, {S(0)}}, costs), 1 + 0.5 * 16 + 16 / 4.0)
      << "half of the tensor stays and is copied";
  EXPECT_DOUBLE_EQ(transfer_seconds(type, {overlapping, {B()}}, {overlapping, {B()}}, costs), 32 / 4.0);
}

TEST(Transfer, PartialLayoutsAreErrors) {
  const Mesh pair = mesh_on("a=2", {0, 1});
  try {
    transfer_pieces({4}, {pair, {P()}}, {pair, {B()}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "transfer: (P(sum)) has a Partial; reduce it before the transfer");
  }
  EXPECT_THROW(transfer_pieces({4}, {pair, {B()}}, {pair, {P()}}), Error);
  for (const Layout& layout : layouts_without_partial({DType::f32, {4, 2}}, mesh_on("a=2,b=2", {0, 1, 2, 3})))
    for (Sbp entry : layout) EXPECT_FALSE(entry.is_partial());
  EXPECT_EQ(layouts_without_partial({DType::f32, {4, 2}}, mesh_on("a=2,b=2", {0, 1, 2, 3})).size(), 9u);
}

}  // namespace
}  // namespace karez::sbp

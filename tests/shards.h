// For law 1: what each device of a mesh holds of a logical array, and the logical array that all devices' pieces stand for.
#pragma once

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "device/host_array.h"
#include "kernels/cpu/copy_plan.h"
#include "sbp/sbp.h"

namespace karez::tests {

inline std::int64_t first_of(const Box& box, const Shape& shape) {
  const Strides strides = row_major(shape);
  std::int64_t at = 0;
  for (std::size_t d = 0; d < box.size(); ++d) at += box[d].begin * strides[d];
  return at;
}
inline HostArray cut(const HostArray& array, const Box& box) {
  HostArray out(TensorType{array.dtype(), shape_of(box)});
  const std::int64_t size = size_of(array.dtype());
  if (out.count() > 0)
    run(plan_copy(out.shape(), row_major(out.shape()), row_major(array.shape()), size), out.bytes(),
        array.bytes() + first_of(box, array.shape()) * size);
  return out;
}

// The device's coordinates on the Partial axes as one number, and how many there are: which summand of a Partial value it holds.
struct Summand {
  std::size_t index = 0, count = 1;
};
inline Summand summand_of(const Mesh& mesh, const Layout& layout, int position) {
  Summand out;
  const auto at = mesh.coordinates(position);
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (!layout[axis].is_partial()) continue;
    const auto size = static_cast<std::size_t>(mesh.axes[axis].size);
    out.index = out.index * size + static_cast<std::size_t>(at[axis]);
    out.count *= size;
  }
  return out;
}

template <class T> T lowest() {
  return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}
template <class T> T highest() { return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max(); }

// `count` arrays that reduce to the given one: random summands, or candidates of which a random one is the value.
inline std::vector<HostArray> summands(const HostArray& array, Reduce reduce, std::size_t count, std::mt19937_64& random) {
  std::vector<HostArray> out;
  for (std::size_t k = 0; k < count; ++k) out.emplace_back(array.type());
  if (count == 1) return {array};
  with_type(array.dtype(), [&]<class T>() {
    for (std::size_t e = 0; e < static_cast<std::size_t>(array.count()); ++e) {
      const T value = array.data<T>()[e];
      if (reduce == Reduce::sum) {
        T rest = value;
        for (std::size_t k = 1; k < count; ++k) {
          T part;
          if constexpr (std::is_same_v<T, bool>) fail("a bool has no summands");
          else if constexpr (std::is_floating_point_v<T>) part = static_cast<T>(static_cast<double>(random() % 2000) / 1000 - 1);
          else part = static_cast<T>(static_cast<int>(random() % 20) - 10);
          out[k].data<T>()[e] = part;
          rest = static_cast<T>(rest - part);
        }
        out[0].data<T>()[e] = rest;
        continue;
      }
      const std::size_t winner = random() % count;
      for (std::size_t k = 0; k < count; ++k) {
        const T other = reduce == Reduce::max ? (random() % 2 ? lowest<T>() : value) : (random() % 2 ? highest<T>() : value);
        out[k].data<T>()[e] = k == winner ? value : other;
      }
    }
  });
  return out;
}

// What each device holds, by position.
inline std::vector<HostArray> shards(const HostArray& array, const Mesh& mesh, const Layout& layout, std::mt19937_64& random) {
  Reduce reduce = Reduce::sum;
  for (Sbp sbp : layout)
    if (sbp.is_partial()) reduce = sbp.reduce;
  const auto parts = summands(array, reduce, summand_of(mesh, layout, 0).count, random);
  std::vector<HostArray> out;
  for (int p = 0; p < mesh.size(); ++p) out.push_back(cut(parts[summand_of(mesh, layout, p).index], local_box(array.shape(), mesh, layout, p)));
  return out;
}

// The logical array that the pieces stand for: Split parts placed, Partial ones reduced. Throws where devices that hold the same piece
// (they differ on Broadcast axes alone) do not hold the same bits, a piece has another shape than its box, or an element is missing.
inline HostArray assemble(const TensorType& type, const Mesh& mesh, const Layout& layout, const std::vector<HostArray>& pieces) {
  HostArray out(type);
  std::vector<bool> touched(static_cast<std::size_t>(type.count()), false);
  for (int p = 0; p < mesh.size(); ++p) {
    const HostArray& piece = pieces[static_cast<std::size_t>(p)];
    const Box box = local_box(type.shape, mesh, layout, p);
    require(piece.shape() == shape_of(box), "device ", p, " holds ", print_shape(piece.shape()), " where its box is ", print_shape(shape_of(box)));
    auto at = mesh.coordinates(p);
    Reduce reduce = Reduce::sum;
    for (std::size_t axis = 0; axis < layout.size(); ++axis) {
      if (layout[axis].is_broadcast()) at[axis] = 0;
      if (layout[axis].is_partial()) reduce = layout[axis].reduce;
    }
    if (const int first = mesh.position(at); first != p) {
      const HostArray& same = pieces[static_cast<std::size_t>(first)];
      require(std::memcmp(piece.bytes(), same.bytes(), static_cast<std::size_t>(piece.view().bytes())) == 0, "devices ", first, " and ", p,
              " hold other bits of a Broadcast value");
      continue;
    }
    with_type(type.dtype, [&]<class T>() {
      std::size_t e = 0;
      const Strides strides = row_major(type.shape);
      for_each_index(piece.shape(), [&](const auto& index) {
        const auto to = static_cast<std::size_t>(first_of(box, type.shape) + offset_of(index, strides));
        const T x = piece.data<T>()[e++];
        T& y = out.data<T>()[to];
        if (!touched[to]) y = x;
        else if (reduce == Reduce::sum) y = static_cast<T>(y + x);
        else y = reduce == Reduce::max ? std::max(x, y) : std::min(x, y);
        touched[to] = true;
      });
    });
  }
  for (std::size_t e = 0; e < touched.size(); ++e) require(touched[e], "no device holds element ", e, " of ", type);
  return out;
}

}  // namespace karez::tests

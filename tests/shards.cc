// Splits and joins arrays by short rules that do not use the tested code.
#include "tests/shards.h"

#include <algorithm>

namespace karez::tests {

Range oracle_part(Range whole, int parts, int index) {
  const std::int64_t size = whole.end - whole.begin;
  Range out{whole.begin, whole.begin};
  for (int p = 0; p <= index; ++p) out = {out.end, out.end + size / parts + (p < size % parts ? 1 : 0)};
  return out;
}

std::vector<int> oracle_coordinates(const Mesh& mesh, int position) {
  std::vector<int> at(mesh.axes.size(), 0);
  for (int step = 0; step < position; ++step)
    for (std::size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < mesh.axes[axis].size) break;
      at[axis] = 0;
    }
  return at;
}

Box oracle_box(const Shape& shape, const Mesh& mesh, const Layout& layout, int position) {
  Box box;
  for (std::int64_t size : shape) box.push_back({0, size});
  const auto at = oracle_coordinates(mesh, position);
  for (std::size_t axis = 0; axis < layout.size(); ++axis)
    if (layout[axis].is_split()) {
      Range& range = box[static_cast<std::size_t>(layout[axis].dim)];
      range = oracle_part(range, mesh.axes[axis].size, at[axis]);
    }
  return box;
}

Shape sizes_of(const Box& box) {
  Shape out;
  for (const Range& range : box) out.push_back(range.end - range.begin);
  return out;
}

HostArray cut(const HostArray& array, const Box& box) {
  HostArray out(TensorType{array.dtype(), sizes_of(box)});
  const auto size = static_cast<std::size_t>(size_of(array.dtype()));
  each_element(array.shape(), box, [&](std::size_t whole, std::size_t part) {
    std::memcpy(out.bytes() + part * size, array.bytes() + whole * size, size);
  });
  return out;
}

Summand summand_of(const Mesh& mesh, const Layout& layout, int position) {
  Summand out;
  const auto at = oracle_coordinates(mesh, position);
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (!layout[axis].is_partial()) continue;
    const auto size = static_cast<std::size_t>(mesh.axes[axis].size);
    out.index = out.index * size + static_cast<std::size_t>(at[axis]);
    out.count *= size;
  }
  return out;
}

std::vector<HostArray> summands(const HostArray& array, Reduce reduce, std::size_t count, std::mt19937_64& random,
                                bool masked) {
  std::vector<HostArray> out;
  for (std::size_t k = 0; k < count; ++k) out.emplace_back(array.type());
  if (count == 1) return {array};
  with_type(array.dtype(), [&]<class T>() {
    for (std::size_t e = 0; e < static_cast<std::size_t>(array.count()); ++e) {
      const T value = array.data<T>()[e];
      if (reduce == Reduce::sum && masked) {  // all arrays are still zero
        out[random() % count].data<T>()[e] = value;
        continue;
      }
      if (reduce == Reduce::sum) {
        T remainder = value;
        for (std::size_t k = 1; k < count; ++k) {
          T part;
          if constexpr (std::is_same_v<T, bool>) fail("a bool has no summands");
          else if constexpr (std::is_floating_point_v<T>)
            part = static_cast<T>(static_cast<double>(random() % 2000) / 1000 - 1);
          else part = static_cast<T>(static_cast<int>(random() % 20) - 10);
          out[k].data<T>()[e] = part;
          remainder = static_cast<T>(remainder - part);
        }
        out[0].data<T>()[e] = remainder;
        continue;
      }
      const std::size_t chosen = random() % count;
      for (std::size_t k = 0; k < count; ++k) {
        const T candidate =
            reduce == Reduce::max ? (random() % 2 ? lowest<T>() : value) : (random() % 2 ? highest<T>() : value);
        out[k].data<T>()[e] = k == chosen ? value : candidate;
      }
    }
  });
  return out;
}

std::vector<HostArray> shards(const HostArray& array, const Mesh& mesh, const Layout& layout, std::mt19937_64& random,
                              bool masked) {
  Reduce reduce = Reduce::sum;
  for (Sbp sbp : layout)
    if (sbp.is_partial()) reduce = sbp.reduce;
  const auto parts = summands(array, reduce, summand_of(mesh, layout, 0).count, random, masked);
  std::vector<HostArray> out;
  for (int p = 0; p < mesh.size(); ++p)
    out.push_back(cut(parts[summand_of(mesh, layout, p).index], oracle_box(array.shape(), mesh, layout, p)));
  return out;
}

HostArray assemble(const TensorType& type, const Mesh& mesh, const Layout& layout,
                   const std::vector<HostArray>& pieces) {
  HostArray out(type);
  std::vector<bool> is_set(static_cast<std::size_t>(type.count()), false);
  for (int p = 0; p < mesh.size(); ++p) {
    const HostArray& piece = pieces[static_cast<std::size_t>(p)];
    const Box box = oracle_box(type.shape, mesh, layout, p);
    require(piece.shape() == sizes_of(box), "device ", p, " has shape ", piece.shape(), ", but its box is ",
            sizes_of(box));
    int first = 0;  // the first device along the Broadcast axes, all of which must have equal bits
    const auto at = oracle_coordinates(mesh, p);
    Reduce reduce = Reduce::sum;
    for (std::size_t axis = 0; axis < layout.size(); ++axis) {
      first = first * mesh.axes[axis].size + (layout[axis].is_broadcast() ? 0 : at[axis]);
      if (layout[axis].is_partial()) reduce = layout[axis].reduce;
    }
    if (first != p) {
      const HostArray& first_piece = pieces[static_cast<std::size_t>(first)];
      require(std::memcmp(piece.bytes(), first_piece.bytes(), static_cast<std::size_t>(piece.view().bytes())) == 0,
              "devices ", first, " and ", p, " have different bits of a Broadcast value");
      continue;
    }
    with_type(type.dtype, [&]<class T>() {
      each_element(type.shape, box, [&](std::size_t whole, std::size_t part) {
        const T x = piece.data<T>()[part];
        T& y = out.data<T>()[whole];
        if (!is_set[whole]) y = x;
        else if (reduce == Reduce::sum) y = static_cast<T>(y + x);
        else if (x != x || y != y) y = x != x ? x : y;  // max and min propagate NaN
        else y = reduce == Reduce::max ? std::max(x, y) : std::min(x, y);
        is_set[whole] = true;
      });
    });
  }
  for (std::size_t e = 0; e < is_set.size(); ++e) require(is_set[e], "no device has element ", e, " of ", type);
  return out;
}

}  // namespace karez::tests

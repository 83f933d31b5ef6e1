// Which rows a rank holds, and reading them from its part.
#include "api/inside/local_part.h"

#include <algorithm>
#include <array>
#include <set>

#include "api/inside/rooms.h"
#include "base/text.h"

namespace karez {
namespace {

// The rows that a rank's devices hold, one behind the other.
struct Rows {
  std::int64_t first = 0, count = 0;
};

Rows rows_of(const TensorType& whole, const Mesh& mesh, const Layout& layout, int rank, const std::string& who) {
  std::set<std::pair<std::int64_t, std::int64_t>> ranges;
  for (int position = 0; position < mesh.size(); ++position) {
    if (mesh.devices[static_cast<std::size_t>(position)].rank != rank) continue;
    const Range range = local_box(whole.shape, mesh, layout, position)[0];
    if (range.begin < range.end) ranges.emplace(range.begin, range.end);
  }
  if (ranges.empty()) return {};
  std::int64_t end = ranges.begin()->first;
  for (const auto& [from, to] : ranges) {
    require(ErrorKind::device, from == end, who, ": rank ", rank, "'s devices on ", sbp::print(mesh),
            " hold rows that do not lie one behind the other; give the whole array");
    end = to;
  }
  return {ranges.begin()->first, end - ranges.begin()->first};
}

class PartSource : public data::Source {
 public:
  PartSource(std::shared_ptr<const data::Source> part, const LocalPart& of) : part_(std::move(part)), type_(of.whole), first_(of.first) {}
  TensorType type() const override { return type_; }
  void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    part_->read(position, Inside(*this, begin).begin(), out);
  }
  const std::byte* find(std::int64_t position, std::span<const std::int64_t> begin, const View& view) const override {
    return part_->find(position, Inside(*this, begin).begin(), view);
  }

 private:
  // Where a slice of the whole begins in the part.
  class Inside {
   public:
    Inside(const PartSource& source, std::span<const std::int64_t> begin) : count_(begin.size()) {
      std::copy(begin.begin(), begin.end(), at_.begin());
      at_[0] -= source.first_;
    }
    std::span<const std::int64_t> begin() const { return {at_.data(), count_}; }

   private:
    std::array<std::int64_t, 16> at_{};
    std::size_t count_;
  };

  std::shared_ptr<const data::Source> part_;
  TensorType type_;
  std::int64_t first_;
};

}  // namespace

LocalPart local_part(const TensorType& part, std::int64_t rows, const Mesh& mesh, int rank, const std::string& who) {
  require(ErrorKind::shape, part.rank() >= 1 && part.rank() <= 16, who, " is ", part,
          "; what a rank has a part of has rows, and 16 dimensions at most");
  require(ErrorKind::shape, rows >= 0, who, ": local(array, ", rows, "): the rows of the whole");
  std::set<int> ranks;
  for (const DeviceName& device : mesh.devices) ranks.insert(device.rank);
  if (ranks.count(rank) == 0) rank = mesh.devices[0].rank;
  LocalPart out{part, Layout(mesh.axes.size(), B()), 0};
  out.whole.shape[0] = rows > 0 ? rows : part.shape[0] * static_cast<std::int64_t>(ranks.size());
  std::vector<std::string> held;
  for (std::size_t axes = 0; axes <= mesh.axes.size(); ++axes) {
    if (axes > 0) out.layout[axes - 1] = S(0);
    const Rows here = rows_of(out.whole, mesh, out.layout, rank, who);
    out.first = here.first;
    if (here.count == part.shape[0]) return out;
    TensorType wanted = part;
    wanted.shape[0] = here.count;
    held.push_back(cat(wanted, " where it lies as ", sbp::print(out.whole, mesh, out.layout)));
  }
  fail(ErrorKind::shape, who, " is ", part, " of a whole of ", out.whole.shape[0], " rows; rank ", rank, " holds ", join(held, ", "),
       "; local(array, ROWS) says how many rows the whole has");
}

std::shared_ptr<const data::Source> part_source(std::shared_ptr<const data::Source> part, const LocalPart& of) {
  return std::make_shared<PartSource>(std::move(part), of);
}

Error with_parts_explained(const Error& error, const std::vector<Argument>& arguments) {
  std::string text = error.what();
  if (error.kind != ErrorKind::peer || text.find("the ranks do not run the same program") == text.npos) return error;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    if (!argument.part || argument.rows > 0) continue;
    const std::int64_t rows = argument.array.type().shape[0];
    text += cat("\nargument ", i, " is a part by local(array) of ", rows, " rows here, which says that every rank gives ", rows,
                "; where ranks give different numbers of rows, each says how many the whole has, as in local(array, rows=", 2 * rows, ")");
  }
  return {error.kind, text, error.where};
}

Argument local(HostArray array, std::int64_t rows) {
  Argument out(std::move(array));
  require(out.array.valid(), "local() of an array never made");
  out.part = true;
  out.rows = rows;
  return out;
}

}  // namespace karez

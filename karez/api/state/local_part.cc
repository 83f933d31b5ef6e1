// Implements arguments made by local(): finds the rows that a rank holds, and reads these rows from the rank's part.
#include "karez/api/state/local_part.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "karez/api/state/fixed_layouts.h"
#include "karez/base/text.h"
#include "karez/graph/op.h"

namespace karez {
namespace {

Layout split_rows_layout(const Mesh& mesh, int axes) {
  Layout out(mesh.axes.size(), B());
  for (int axis = 0; axis < axes; ++axis) out[static_cast<std::size_t>(axis)] = S(0);
  return out;
}

// The contiguous rows that a rank's devices hold.
struct RowRange {
  std::int64_t first = 0, count = 0;
};

RowRange rows_of(const TensorType& whole, const Mesh& mesh, const Layout& layout, int rank,
                 const std::string& subject) {
  std::set<std::pair<std::int64_t, std::int64_t>> ranges;
  for (int position = 0; position < mesh.size(); ++position) {
    if (mesh.devices[static_cast<std::size_t>(position)].rank != rank) continue;
    const Range range = local_box(whole.shape, mesh, layout, position)[0];
    if (range.begin < range.end) ranges.emplace(range.begin, range.end);
  }
  if (ranges.empty()) return {};
  std::int64_t end = ranges.begin()->first;
  for (const auto& [range_begin, range_end] : ranges) {
    if (range_begin != end)
      fail(ErrorKind::device, subject, " has no position: rank ", rank, "'s devices on ", sbp::print(mesh),
           " hold rows that are not contiguous; pass the global array");
    end = range_end;
  }
  return {ranges.begin()->first, end - ranges.begin()->first};
}

class PartSource : public data::Source {
 public:
  PartSource(std::shared_ptr<const data::Source> part, const LocalPart& position)
      : part_(std::move(part)),
        type_(position.whole),
        first_(position.first) {}
  TensorType type() const override { return type_; }
  bool may_block() const override { return part_->may_block(); }
  void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    part_->read(position, PartOffset(*this, begin).begin(), out);
  }
  const std::byte* find(std::int64_t position, std::span<const std::int64_t> begin, const View& view) const override {
    return part_->find(position, PartOffset(*this, begin).begin(), view);
  }

 private:
  // Converts the offset of a slice in the global array to its offset in the part.
  class PartOffset {
   public:
    PartOffset(const PartSource& source, std::span<const std::int64_t> begin) : count_(begin.size()) {
      std::copy(begin.begin(), begin.end(), begin_.begin());
      begin_[0] -= source.first_;
    }
    std::span<const std::int64_t> begin() const { return {begin_.data(), count_}; }

   private:
    std::array<std::int64_t, 16> begin_{};
    std::size_t count_;
  };

  std::shared_ptr<const data::Source> part_;
  TensorType type_;
  std::int64_t first_;
};

LocalPart local_part_on(const TensorType& part, std::int64_t rows, const Mesh& mesh, int rank,
                        const std::string& subject) {
  std::set<int> ranks;
  for (const DeviceName& device : mesh.devices) ranks.insert(device.rank);
  if (ranks.count(rank) == 0) rank = mesh.devices[0].rank;
  LocalPart out{part, 0, 0};
  out.whole.shape[0] = rows > 0 ? rows : part.shape[0] * static_cast<std::int64_t>(ranks.size());
  std::vector<std::string> candidates;
  for (; out.axes <= mesh.rank(); ++out.axes) {
    const Layout layout = split_rows_layout(mesh, out.axes);
    const RowRange rank_rows = rows_of(out.whole, mesh, layout, rank, subject);
    out.first = rank_rows.first;
    if (rank_rows.count == part.shape[0]) return out;
    TensorType candidate = part;
    candidate.shape[0] = rank_rows.count;
    candidates.push_back(cat(candidate, " if the global array is ", sbp::print(out.whole, mesh, layout)));
  }
  fail(ErrorKind::shape, subject, " is ", part, " of a global array of ", out.whole.shape[0], " rows, but rank ", rank,
       " holds ", join(candidates, ", "), "; pass the number of rows of the global array: local(array, ROWS)");
}

bool has_device_of(const Mesh& mesh, int rank) {
  return std::any_of(mesh.devices.begin(), mesh.devices.end(), [&](DeviceName device) { return device.rank == rank; });
}

}  // namespace

LocalPart local_part(const TensorType& part, std::int64_t rows, const std::vector<Mesh>& meshes, int rank,
                     const std::string& subject) {
  require(ErrorKind::shape, part.rank() >= 1 && part.rank() <= 16, subject, " must have 1 to 16 dimensions, got ",
          part);
  require(ErrorKind::shape, rows >= 0, subject, " is given ", rows,
          " as the number of rows of the global array; it must be at least 0");
  std::optional<LocalPart> out;
  const Mesh* first = nullptr;
  for (const Mesh& mesh : meshes) {
    if (!has_device_of(mesh, rank)) continue;
    const LocalPart position = local_part_on(part, rows, mesh, rank, subject);
    if (!out) out = position, first = &mesh;
    if (position.whole != out->whole || position.axes != out->axes || position.first != out->first)
      fail(ErrorKind::layout, subject, " is ambiguous: it would be rows ", out->first, " to ",
           out->first + part.shape[0] - 1, " of ", out->whole.shape[0], " on ", sbp::print(*first), ", but rows ",
           position.first, " to ", position.first + part.shape[0] - 1, " of ", position.whole.shape[0], " on ",
           sbp::print(mesh), "; pass the global array");
  }
  return out ? *out : local_part_on(part, rows, meshes[0], rank, subject);
}

std::vector<Mesh> meshes_of(const DeviceMesh& mesh, const FunctionOptions& options) {
  std::vector<Mesh> out = {own_mesh(mesh, options)};
  for (const TracePlacement& placement : placements_of(mesh, options))
    if (std::find(out.begin(), out.end(), placement.mesh) == out.end()) out.push_back(placement.mesh);
  return out;
}

void set_part_layouts(Graph& graph, const std::map<std::string, int>& axes, int microbatches,
                      const std::string& subject) {
  std::int64_t groups = 1;
  std::vector<Node*> batch;
  for (Node& node : graph.nodes) {
    if (node.op->role != Role::source) continue;
    if (node.attrs.has("parts")) batch.push_back(&node);
    const auto part = axes.find(node.attrs.text("name"));
    if (part == axes.end()) continue;
    Value& value = graph.value(node.outputs[0]);
    const Mesh& mesh = graph.mesh(node.outputs[0]);
    if (part->second > mesh.rank())
      fail(ErrorKind::layout, subject, ": ", part->first, ", a part passed by local(), is split along ", part->second,
           " axes, but its placement ", sbp::print(mesh), " has only ", mesh.rank(), "; pass the global array");
    value.layout = split_rows_layout(mesh, part->second);
    if (!node.attrs.has("parts")) continue;  // not a part of the batch that is split into micro-batches
    std::int64_t devices = 1;
    for (int axis = 0; axis < part->second; ++axis) devices *= mesh.axes[static_cast<std::size_t>(axis)].size;
    require(ErrorKind::shape, value.type.shape[0] % (devices * microbatches) == 0, subject, ": ", part->first,
            ", a part passed by local(), is ", value.type, " on ", devices, " devices with microbatches=", microbatches,
            ": each device must have the same number of rows of each micro-batch, so ", devices * microbatches,
            " must divide ", value.type.shape[0]);
    require(ErrorKind::layout, groups == 1 || devices == 1 || devices == groups, subject,
            ": with microbatches=", microbatches, ", parts passed by local() must all be split among the same number ",
            "of devices, but one is split among ", groups, " and one among ", devices);
    groups = std::max(groups, devices);
  }
  if (groups == 1) return;
  for (Node* node : batch) node->attrs.set("groups", groups);
}

std::map<std::string, std::int64_t> row_groups(const Graph& graph) {
  std::map<std::string, std::int64_t> out;
  for (const Node& node : graph.nodes)
    if (node.op->role == Role::source && node.attrs.has("groups"))
      out[node.attrs.text("name")] = node.attrs.integer("groups");
  return out;
}

namespace {

// A source that reads the batch in the order of micro-batches: first the rows of each group that belong to the first
// micro-batch, then those that belong to the second, and so on.
class GroupedSource : public data::Source {
 public:
  GroupedSource(std::shared_ptr<const data::Source> batch, std::int64_t groups, int microbatches)
      : batch_(std::move(batch)),
        type_(batch_->type()),
        groups_(groups),
        rows_(type_.shape[0] / (groups * microbatches)),
        group_rows_(rows_ * microbatches) {}
  TensorType type() const override { return type_; }
  bool may_block() const override { return batch_->may_block(); }

  void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    std::array<std::int64_t, 16> source_begin{};
    std::copy(begin.begin(), begin.end(), source_begin.begin());
    const std::span<const std::int64_t> batch_begin{source_begin.data(), begin.size()};
    const std::int64_t rows = out.view->shape[0], row_bytes = out.view->strides[0] * size_of(out.view->dtype);
    if (rows <= contiguous_rows(begin[0])) {
      source_begin[0] = batch_row(begin[0]);
      return batch_->read(position, batch_begin, out);
    }
    View view = *out.view;
    for (std::int64_t row = 0; row < rows; row += view.shape[0]) {
      view.shape[0] = std::min(rows - row, contiguous_rows(begin[0] + row));
      source_begin[0] = batch_row(begin[0] + row);
      batch_->read(position, batch_begin, {out.data + row * row_bytes, &view});
    }
  }

  const std::byte* find(std::int64_t position, std::span<const std::int64_t> begin, const View& view) const override {
    if (view.shape[0] > contiguous_rows(begin[0])) return nullptr;
    std::array<std::int64_t, 16> source_begin{};
    std::copy(begin.begin(), begin.end(), source_begin.begin());
    source_begin[0] = batch_row(begin[0]);
    return batch_->find(position, {source_begin.data(), begin.size()}, view);
  }

 private:
  // Returns the row of the batch for a row of this source.
  std::int64_t batch_row(std::int64_t row) const {
    const std::int64_t group = row / rows_ % groups_, microbatch = row / (rows_ * groups_);
    return group * group_rows_ + microbatch * rows_ + row % rows_;
  }
  // Returns the number of rows, beginning with this one, that are contiguous in the batch.
  std::int64_t contiguous_rows(std::int64_t row) const { return rows_ - row % rows_; }

  std::shared_ptr<const data::Source> batch_;
  TensorType type_;
  std::int64_t groups_;
  std::int64_t rows_, group_rows_;  // the number of rows of a group in one micro-batch, and in the complete batch
};

}  // namespace

Feed group_rows(Feed feed, std::int64_t groups, int microbatches) {
  feed.source = std::make_shared<GroupedSource>(std::move(feed.source), groups, microbatches);
  return feed;
}

std::shared_ptr<const data::Source> part_source(std::shared_ptr<const data::Source> part, const LocalPart& position) {
  return std::make_shared<PartSource>(std::move(part), position);
}

Error explain_parts(const Error& error, const std::vector<Argument>& arguments) {
  std::string text = error.what();
  if (error.kind != ErrorKind::peer || text.find("the ranks do not run the same program") == text.npos) return error;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    if (!argument.part || argument.rows > 0) continue;
    const std::int64_t rows = argument.array.type().shape[0];
    text += cat("\nargument ", i, " is local(array) with ", rows,
                " rows on this rank, which means that every rank passes ", rows,
                "; if ranks pass different numbers of rows, each must give the number of rows of the global array, as "
                "in local(array, rows=",
                2 * rows, ")");
  }
  return {error.kind, text, error.where};
}

Argument local(HostArray array, std::int64_t rows) {
  Argument out(std::move(array));
  require(out.array.valid(), "local: the array is uninitialised");
  out.part = true;
  out.rows = rows;
  return out;
}

}  // namespace karez

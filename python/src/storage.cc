// Implements the steps from tensors to their views, and writes through them.
#include "python/src/storage.h"

#include "karez/api/functions.h"
#include "karez/api/interactive.h"
#include "python/src/errors.h"

namespace karez::python {
namespace {

// A range of one dimension: `count` elements from `first` on, `step` apart.
struct Range {
  int dim;
  std::int64_t first, count, step, size;

  bool is_whole() const { return first == 0 && count == size && step == 1; }
};

std::vector<Range> partial_ranges(const ViewStep& slice, const Shape& shape) {
  std::vector<Range> out;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const Range range{static_cast<int>(d), slice.first[d], slice.count[d], slice.step[d], shape[d]};
    if (!range.is_whole()) out.push_back(range);
  }
  return out;
}

HostArray host_integers(const Ints& numbers) { return HostArray::of<std::int64_t>({ssize(numbers)}, numbers); }
Term table(const HostArray& values) {
  return tracing() ? Term(constant(values, user_line())) : Term(values, user_line());
}

Tensor tensor_of(const Term& term) {
  const auto* tensor = std::get_if<Tensor>(&term.value);
  return tensor != nullptr ? *tensor : reshape(term, std::get<Parameter>(term.value).shape());
}

Tensor range_of(const Tensor& tensor, int dim, std::int64_t first, std::int64_t count) {
  Ints begin(tensor.shape().size()), size = tensor.shape();
  begin[static_cast<std::size_t>(dim)] = first;
  size[static_cast<std::size_t>(dim)] = count;
  return slice(tensor, begin, size);
}

// The rows of a dimension with these indices.
Tensor rows_of(const Tensor& tensor, int dim, const Ints& indices) {
  if (dim == 0) return gather(tensor, table(host_integers(indices)));
  Ints front = {dim}, back;
  for (int d = 0; d < tensor.rank(); ++d) {
    if (d != dim) front.push_back(d);
    back.push_back(d < dim ? d + 1 : d == dim ? 0 : d);
  }
  return transpose(gather(transpose(tensor, front), table(host_integers(indices))), back);
}

Tensor view_of(const Tensor& tensor, const Range& range) {
  if (range.step == 1 || range.count == 0) return range_of(tensor, range.dim, range.first, range.count);
  Ints indices;
  for (std::int64_t i = 0; i < range.count; ++i) indices.push_back(range.first + i * range.step);
  return rows_of(tensor, range.dim, indices);
}

Tensor after_write(const Tensor& tensor, const Range& range, const Tensor& value) {
  if (range.count == 0) return tensor;
  if (range.step == 1) {
    std::vector<Term> parts;
    const std::int64_t end = range.first + range.count;
    if (range.first > 0) parts.emplace_back(range_of(tensor, range.dim, 0, range.first), user_line());
    parts.emplace_back(value, user_line());
    if (end < range.size) parts.emplace_back(range_of(tensor, range.dim, end, range.size - end), user_line());
    return concat(parts, range.dim);
  }
  Ints sources(static_cast<std::size_t>(range.size));
  Shape mask_shape(tensor.shape().size(), 1);
  mask_shape[static_cast<std::size_t>(range.dim)] = range.size;
  HostArray is_written(TensorType{DType::b8, mask_shape});  // all false
  for (std::int64_t i = 0; i < range.count; ++i) {
    const auto at = static_cast<std::size_t>(range.first + i * range.step);
    sources[at] = i;
    is_written.data<bool>()[at] = true;
  }
  return where(table(is_written), rows_of(value, range.dim, sources), tensor);
}

// A write of single elements of some dimensions, outside of compiled functions: their indices are operands, so that
// writes at other indices use the same plan.
Tensor after_write_at(const Tensor& tensor, const std::vector<Range>& ranges, const Tensor& value) {
  std::optional<Tensor> mask;
  for (const Range& range : ranges) {
    Shape shape(tensor.shape().size(), 1);
    shape[static_cast<std::size_t>(range.dim)] = range.size;
    const Tensor here = equal(iota(shape, range.dim, DType::i64, user_line()), Term(range.first, user_line()));
    mask = mask ? logical_and(*mask, here) : here;
  }
  return where(*mask, value, tensor);
}

Tensor slice_after_write(const Tensor& tensor, const std::vector<Range>& ranges, std::size_t i, const Tensor& value) {
  if (i == ranges.size()) return value;
  return after_write(tensor, ranges[i], slice_after_write(view_of(tensor, ranges[i]), ranges, i + 1, value));
}

Tensor slice_of(const Tensor& tensor, const ViewStep& step) {
  const std::size_t rank = tensor.shape().size();
  require(step.first.size() == rank && step.count.size() == rank && step.step.size() == rank, "slice: ", tensor.type,
          " has ", rank, " dimensions, so it needs as many begins, sizes and steps, not ", step.first.size(), ", ",
          step.count.size(), " and ", step.step.size());
  Ints first = step.first, count = step.count;
  std::vector<Range> strided;
  for (const Range& range : partial_ranges(step, tensor.shape())) {
    if (range.step == 1 || range.count == 0) continue;
    const auto d = static_cast<std::size_t>(range.dim);
    first[d] = 0;
    count[d] = range.size;
    strided.push_back(range);
  }
  Tensor out = count == tensor.shape() ? tensor : slice(tensor, first, count);
  for (const Range& range : strided) out = view_of(out, range);
  return out;
}

Ints inverse(const Ints& permutation) {
  Ints out(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i)
    out[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  return out;
}

// The strides of a tensor in another shape, without a copy: dimensions that follow each other in memory may be merged
// and split again, others may not.
std::optional<Ints> strides_of_reshape(const Shape& shape, const Ints& strides, const Shape& sizes) {
  if (tensor::count_of(shape) == 0) return shape == sizes ? strides : tensor::row_major(sizes);
  Ints out(sizes.size());
  auto next = static_cast<std::ptrdiff_t>(sizes.size()) - 1;
  std::int64_t inner_stride = strides.empty() ? 1 : strides.back(), count = 1, placed = 1;
  for (auto d = static_cast<std::ptrdiff_t>(shape.size()) - 1; d >= 0; --d) {
    const auto i = static_cast<std::size_t>(d);
    count *= shape[i];
    if (d > 0 && (shape[i - 1] == 1 || strides[i - 1] == count * inner_stride)) continue;
    for (; next >= 0 && (placed < count || sizes[static_cast<std::size_t>(next)] == 1); --next) {
      out[static_cast<std::size_t>(next)] = placed * inner_stride;
      placed *= sizes[static_cast<std::size_t>(next)];
    }
    if (placed != count) return std::nullopt;
    if (d > 0) {
      inner_stride = strides[i - 1];
      count = placed = 1;
    }
  }
  if (shape.empty()) std::fill(out.begin(), out.end(), 1);
  else if (next != -1) return std::nullopt;
  return out;
}

}  // namespace

Tensor view_of(const Term& term, const ViewStep& step) {
  switch (step.kind) {
    case ViewStep::Kind::slice: return slice_of(tensor_of(term), step);
    case ViewStep::Kind::shape: return reshape(term, step.count);
    case ViewStep::Kind::permutation: return transpose(term, step.first);
    case ViewStep::Kind::expansion: return broadcast_to(term, step.count);
    case ViewStep::Kind::detached: {
      const Tensor tensor = tensor_of(term);
      return tracing() || requires_gradient(tensor) ? stop_gradient(Term(tensor, term.where)) : tensor;
    }
  }
  base::fail("a step of an unknown kind");
}

Tensor after_write(const Term& term, const ViewStep& step, const Term& value) {
  const Tensor tensor = tensor_of(term);
  switch (step.kind) {
    case ViewStep::Kind::slice: {
      const std::vector<Range> ranges = partial_ranges(step, tensor.shape());
      const bool is_at = std::all_of(ranges.begin(), ranges.end(), [](const Range& range) { return range.count == 1; });
      if (is_at && !ranges.empty() && !tracing()) return after_write_at(tensor, ranges, tensor_of(value));
      return slice_after_write(tensor, ranges, 0, tensor_of(value));
    }
    case ViewStep::Kind::shape: return reshape(value, tensor.shape());
    case ViewStep::Kind::permutation: return transpose(value, inverse(step.first));
    case ViewStep::Kind::expansion:
      base::fail("an expanded tensor must not be written, because several of its elements are the same element of ",
                 tensor.type, "; copy it before, with clone()");
    case ViewStep::Kind::detached: return tensor_of(value);
  }
  base::fail("a step of an unknown kind");
}

std::optional<Ints> strides_of(const ViewStep& step, const Shape& shape, const Ints& strides) {
  Ints out;
  switch (step.kind) {
    case ViewStep::Kind::slice:
      for (std::size_t d = 0; d < shape.size(); ++d) out.push_back(strides[d] * step.step[d]);
      return out;
    case ViewStep::Kind::shape: return strides_of_reshape(shape, strides, step.count);
    case ViewStep::Kind::permutation:
      for (const std::int64_t d : step.first) out.push_back(strides[static_cast<std::size_t>(d)]);
      return out;
    case ViewStep::Kind::expansion: {
      const std::size_t added = step.count.size() - shape.size();
      out.assign(added, 0);
      for (std::size_t d = 0; d < shape.size(); ++d)
        out.push_back(shape[d] == 1 && step.count[added + d] != 1 ? 0 : strides[d]);
      return out;
    }
    case ViewStep::Kind::detached: return strides;
  }
  base::fail("a step of an unknown kind");
}

Alias::Alias(std::shared_ptr<Storage> shared_storage, std::vector<ViewStep> view_steps, Ints view_strides)
    : storage(std::move(shared_storage)),
      steps(std::move(view_steps)),
      strides(std::move(view_strides)),
      version(storage->version) {}

Alias::~Alias() {
  // The last tensor has its own content, so the operands of the base need not be kept.
  if (storage.use_count() == 2 && storage->version == 0) storage->value = std::monostate();
}

}  // namespace karez::python

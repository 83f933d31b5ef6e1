// Implements vmap: traces the body as a region, and adds its nodes with the dimension of the batch.
#include "karez/api/function_transforms.h"

#include <algorithm>
#include <numeric>

#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/vmap.h"

namespace karez {
namespace {

// The operands with the dimension of the batch first.
std::vector<ValueId> batches_of(Trace& t, const std::vector<MappedOperand>& xs) {
  require(!xs.empty(), "vmap: at least one operand must have a dimension that is mapped");
  std::vector<ValueId> out;
  for (const MappedOperand& x : xs) {
    const ValueId id = t.value(x.value, t.dtype_of(x.value));
    const TensorType type = t.graph.type(id);
    const std::int64_t rank = type.rank();
    require(ErrorKind::shape, x.dim >= -rank && x.dim < rank, "vmap: dimension ", x.dim, " does not exist in ", type);
    Ints perm(static_cast<std::size_t>(rank));
    std::iota(perm.begin(), perm.end(), 0);
    const auto dim = perm.begin() + (x.dim < 0 ? x.dim + rank : x.dim);
    std::rotate(perm.begin(), dim, dim + 1);
    out.push_back(std::is_sorted(perm.begin(), perm.end()) ? id : build::transpose(t.builder, id, perm));
    const std::int64_t size = t.graph.type(out[0]).shape[0], other = t.graph.type(out.back()).shape[0];
    require(ErrorKind::shape, size == other, "vmap: all operands must have the same size in the dimension that is ",
            "mapped, got ", size, " and ", other);
  }
  return out;
}

ValueId rows_of(Trace& t, ValueId x, std::int64_t begin, std::int64_t size) {
  Shape shape = t.graph.type(x).shape;
  if (size == shape[0]) return x;
  Ints first(shape.size());
  first[0] = begin;
  shape[0] = size;
  return build::slice(t.builder, x, first, shape);
}

ops::Randomness randomness_of(const VmapOptions& options) {
  switch (options.randomness) {
    case MappedRandomness::error: return ops::Randomness::error;
    case MappedRandomness::same: return ops::Randomness::same;
    case MappedRandomness::different: return ops::Randomness::different;
  }
  fail("vmap: an unknown randomness");
}

}  // namespace

bool in_trace() { return Trace::open() != nullptr; }

MappedResults vmap(const VmapBody& body, const std::vector<MappedOperand>& xs, VmapOptions options, SourceLine where) {
  return at_line(where, [&](Trace& t) {
    const std::vector<ValueId> batches = batches_of(t, xs);
    std::vector<TensorType> types;
    for (ValueId id : batches) {
      const TensorType& type = t.graph.type(id);
      types.push_back({type.dtype, Shape(type.shape.begin() + 1, type.shape.end())});
    }
    const Trace::Region region = t.region("vmap", types, [&](std::span<const ValueId> arguments) {
      std::vector<Tensor> elements;
      for (ValueId id : arguments) elements.push_back(t.tensor(id));
      std::vector<ValueId> results;
      for (const Tensor& result : body(elements)) results.push_back(t.value(Term(result, where)));
      return results;
    });
    const std::int64_t total = t.graph.type(batches[0]).shape[0];
    require(options.chunk_size >= 0, "vmap: chunk_size must be at least 1, got ", options.chunk_size);
    const std::int64_t step = options.chunk_size == 0 ? std::max<std::int64_t>(total, 1) : options.chunk_size;
    std::vector<std::vector<ValueId>> parts(region.graph.outputs.size());
    std::vector<bool> is_mapped(parts.size());
    for (std::int64_t begin = 0; begin == 0 || begin < total; begin += step) {
      const MappedBatch batch{std::min(step, total - begin), begin, total, randomness_of(options)};
      std::vector<MappedValue> arguments;
      for (ValueId id : batches) arguments.push_back({rows_of(t, id, begin, batch.size), true});
      for (ValueId id : region.captured) arguments.push_back({id, false});
      const std::vector<MappedValue> results = ops::vmap(t.builder, region.graph, arguments, batch);
      for (std::size_t i = 0; i < results.size(); ++i) {
        is_mapped[i] = results[i].is_mapped;
        if (results[i].is_mapped || begin == 0) parts[i].push_back(results[i].id);
      }
    }
    MappedResults out{{}, is_mapped};
    for (const auto& list : parts)
      out.values.push_back(t.tensor(list.size() == 1 ? list[0] : build::concat(t.builder, list, 0)));
    return out;
  });
}

}  // namespace karez

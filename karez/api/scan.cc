// Implements scan: traces the body as a region, and checks that the carries that it returns have the right types.
#include "karez/api/scan.h"
#include "karez/api/namespace.h"

#include "karez/api/trace/trace.h"
#include "karez/ops/scan.h"

namespace karez {
namespace {

std::vector<Tensor> tensors(const Trace& t, std::span<const ValueId> ids) {
  std::vector<Tensor> out;
  for (ValueId id : ids) out.push_back(t.tensor(id));
  return out;
}

std::int64_t count_trips(const Trace& t, const std::vector<ValueId>& sequences, const ScanOptions& options) {
  if (sequences.empty()) {
    require(options.length >= 1, "scan without sequences: ScanOptions::length must be at least 1, got ",
            options.length);
    return options.length;
  }
  const TensorType& first = t.graph.type(sequences[0]);
  for (ValueId id : sequences) {
    const TensorType& type = t.graph.type(id);
    require(ErrorKind::shape, type.rank() >= 1, "scan: a sequence is ", type,
            "; its first dimension must be the number of trips");
    require(ErrorKind::shape, type.shape[0] == first.shape[0],
            "scan: all sequences must have the same number of rows, got ", first.shape[0], " and ", type.shape[0]);
  }
  require(ErrorKind::shape, first.shape[0] >= 1, "scan: a sequence must have at least one row, got ", first);
  require(options.length < 0 || options.length == first.shape[0], "scan: the length is ", options.length,
          ", but the sequences have ", first.shape[0], " rows");
  return first.shape[0];
}

}  // namespace

Scanned scan(const ScanBody& body, const std::vector<Term>& init, const std::vector<Term>& xs, ScanOptions options,
             SourceLine where) {
  return at_line(where, [&](Trace& t) {
    std::vector<ValueId> operands, sequences;
    for (const Term& term : init) operands.push_back(t.value(term, t.dtype_of(term)));
    for (const Term& term : xs) sequences.push_back(t.value(term, t.dtype_of(term)));
    ops::ScanShape shape{.carries = static_cast<int>(init.size()),
                         .sequences = static_cast<int>(xs.size()),
                         .trips = count_trips(t, sequences, options),
                         .reverse = options.reverse};
    std::vector<TensorType> types;
    for (ValueId id : operands) types.push_back(t.graph.type(id));
    for (ValueId id : sequences) types.push_back(ops::row_of(t.graph.type(id)));
    Trace::Region region = t.region("scan", types, [&](std::span<const ValueId> arguments) {
      const Scanned next = body(tensors(t, arguments.first(init.size())), tensors(t, arguments.subspan(init.size())));
      require(next.carry.size() == init.size(), "scan: the body must return as many carries as init has: expected ",
              init.size(), ", got ", next.carry.size());
      std::vector<ValueId> results;
      for (std::size_t i = 0; i < init.size(); ++i) {
        results.push_back(t.value(Term(next.carry[i], where)));
        require(ErrorKind::type, t.graph.type(results[i]) == types[i], "scan: carry ", i, " is initially ", types[i],
                ", but the body returns ", t.graph.type(results[i]));
      }
      for (const Tensor& row : next.ys) {
        results.push_back(t.value(Term(row, where)));
        shape.rows.push_back(t.graph.type(results.back()));
      }
      return results;
    });
    operands.insert(operands.end(), sequences.begin(), sequences.end());
    operands.insert(operands.end(), region.captured.begin(), region.captured.end());
    const std::vector<ValueId> out = build::scan(t.builder, std::move(region.graph), operands, shape);
    const std::span all(out);
    return Scanned{tensors(t, all.first(init.size())), tensors(t, all.subspan(init.size()))};
  });
}

}  // namespace karez

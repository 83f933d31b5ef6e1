// Composes attention from two matrix products and a softmax, rotary position embeddings from slices and products, and
// einsum from matrix products.
#include "karez/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "karez/base/text.h"
#include "karez/ops/compose.h"

namespace karez::ops::build {
namespace {

// Returns the score of a masked key: the lowest finite number, because infinity would trigger check_nan.
ValueId masked_score_like(Builder& b, ValueId scores) {
  const bool single = b.type(scores).dtype == DType::f32;
  return full_like(
      b, scores,
      single ? static_cast<double>(std::numeric_limits<float>::lowest()) : std::numeric_limits<double>::lowest());
}

void check_attention(const TensorType& q, const TensorType& k, const TensorType& v) {
  auto print_types = [&] { return cat("q ", q, ", k ", k, ", v ", v); };
  if (!is_float(q.dtype) || k.dtype != q.dtype || v.dtype != q.dtype)
    fail(ErrorKind::type, "attention: q, k and v must have the same float dtype, got ", print_types());
  const bool equal_ranks = q.rank() >= 3 && k.rank() == q.rank() && v.rank() == q.rank();
  if (!equal_ranks)
    fail(ErrorKind::shape,
         "attention: q [n..., h, t, d], k [n..., g, s, d] and v [n..., g, s, e] must have equal ranks, got ",
         print_types());
  const auto r = static_cast<std::size_t>(q.rank());
  const bool equal_leading = std::equal(q.shape.begin(), q.shape.end() - 3, k.shape.begin()) &&
                             std::equal(k.shape.begin(), k.shape.end() - 1, v.shape.begin());
  if (!equal_leading)
    fail(ErrorKind::shape,
         "attention: k and v may differ only in their last dimension, and their leading dimensions must match q, got ",
         print_types());
  if (q.shape[r - 1] != k.shape[r - 1])
    fail(ErrorKind::shape, "attention: queries have ", q.shape[r - 1], " elements, but keys have ", k.shape[r - 1],
         ": ", print_types());
  if (k.shape[r - 3] <= 0 || q.shape[r - 3] % k.shape[r - 3] != 0)
    fail(ErrorKind::shape, "attention: ", k.shape[r - 3], " key heads do not divide ", q.shape[r - 3],
         " query heads: ", print_types());
}

// Computes a softmax of the visible keys over the last axis; the result is 0 if no key is visible.
ValueId masked_softmax(Builder& b, ValueId scores, ValueId visible) {
  const TensorType type = b.type(scores);
  ValueId masked = select(b, visible, scores, masked_score_like(b, scores));
  const Ints axis = {type.rank() - 1};
  Shape reduced_shape = type.shape;
  reduced_shape.back() = 1;
  ValueId maximum = reshape(b, stop_gradient(b, reduce_max(b, masked, axis)), reduced_shape);
  ValueId e = select(b, visible, exp(b, binary(b, "sub", masked, maximum)), full_like(b, scores, 0));
  ValueId total = sum(b, e, axis, true);
  return binary(b, "div", e, select(b, gt(b, total, full_like(b, total, 0)), total, full_like(b, total, 1)));
}

// Returns the shape [n..., heads, rows, columns], where n... are the leading sizes of the queries.
Shape heads_of(const TensorType& q, std::int64_t heads, std::int64_t rows, std::int64_t columns) {
  Shape shape(q.shape.begin(), q.shape.end() - 3);
  shape.insert(shape.end(), {heads, rows, columns});
  return shape;
}

// Computes the weights [n..., h, t, s], in f32 for halves.
ValueId compute_weights(Builder& b, ValueId q, ValueId k, const AttentionOptions& options,
                        std::optional<ValueId> mask) {
  const TensorType tq = b.type(q), tk = b.type(k);
  const auto r = static_cast<std::size_t>(tq.rank());
  const std::int64_t h = tq.shape[r - 3], t = tq.shape[r - 2], d = tq.shape[r - 1], g = tk.shape[r - 3],
                     s = tk.shape[r - 2];
  q = widened(b, q);
  // Queries that share keys become rows of one matrix, so keys are not repeated.
  if (g != h) q = reshape(b, q, heads_of(tq, g, h / g * t, d));
  q = mul(b, q, full_like(b, q, options.scale.value_or(1 / std::sqrt(static_cast<double>(d)))));
  k = widened(b, k);
  ValueId scores = matmul(b, q, k, {.transpose_b = true});
  const Shape full_shape = heads_of(tq, h, t, s);
  if (g != h) scores = reshape(b, scores, full_shape);
  std::optional<ValueId> visible;
  if (options.causal) {  // each operand has positions along one dimension, so no [t, s] table of integers is stored
    auto positions = [&](const Shape& shape, int axis) {
      return broadcast_to(b, iota(b, {DType::i64, shape}, axis), {t, s});
    };
    visible = broadcast_to(b, ge(b, positions({t, 1}, 0), positions({1, s}, 1)), full_shape);
  }
  if (!mask)
    return softmax(b, visible ? select(b, *visible, scores, masked_score_like(b, scores))
                              : scores);  // key 0 is visible to every query
  const TensorType mask_type = b.type(*mask);
  const bool is_bool = mask_type.dtype == DType::b8;
  require(ErrorKind::type, is_bool || mask_type.dtype == tq.dtype, "attention: the mask must be bool or ",
          name_of(tq.dtype), ", got ", mask_type);
  ValueId unmasked = *mask;  // keys that the mask leaves visible, because it does not add -inf to them
  if (!is_bool) {
    const ValueId added = widened(b, *mask);
    unmasked = ne(b, added, full_like(b, added, -std::numeric_limits<double>::infinity()));
    scores = add(b, scores, broadcast_to(b, select(b, unmasked, added, full_like(b, added, 0)), full_shape));
  }
  unmasked = broadcast_to(b, unmasked, full_shape);
  return masked_softmax(b, scores, visible ? and_(b, *visible, unmasked) : unmasked);
}

}  // namespace

ValueId attention_weights(Builder& b, ValueId q, ValueId k, const AttentionOptions& options,
                          std::optional<ValueId> mask) {
  check_attention(b.type(q), b.type(k), b.type(k));
  return cast(b, compute_weights(b, q, k, options, mask), b.type(q).dtype);
}

ValueId attention(Builder& b, ValueId q, ValueId k, ValueId v, const AttentionOptions& options,
                  std::optional<ValueId> mask) {
  const TensorType tq = b.type(q), tv = b.type(v);
  check_attention(tq, b.type(k), tv);
  const auto r = static_cast<std::size_t>(tq.rank());
  const std::int64_t h = tq.shape[r - 3], t = tq.shape[r - 2], g = tv.shape[r - 3], s = tv.shape[r - 2],
                     e = tv.shape[r - 1];
  ValueId weights = compute_weights(b, q, k, options, mask);
  if (g != h) weights = reshape(b, weights, heads_of(tq, g, h / g * t, s));
  v = widened(b, v);
  const ValueId out = cast(b, matmul(b, weights, v), tq.dtype);
  return g == h ? out : reshape(b, out, heads_of(tq, h, t, e));
}

ValueId rotary(Builder& b, ValueId x, const RotaryOptions& options) {
  const TensorType type = b.type(x);
  require(ErrorKind::shape, type.rank() >= 2 && type.shape.back() % 2 == 0 && is_float(type.dtype),
          "rotary: expected f32 or f64 [..., t, d] with an even d, got ", type);
  require(options.base > 0 && options.first >= 0, "rotary: base must be positive and first at least 0, got base ",
          options.base, " and first ", options.first);
  const std::int64_t t = type.shape[type.shape.size() - 2], d = type.shape.back(), half = d / 2;
  x = widened(b, x);
  const TensorType table{b.type(x).dtype, {t, half}};
  ValueId position = iota(b, table, 0), pair = iota(b, table, 1);
  if (options.first > 0) position = add(b, position, full_like(b, position, static_cast<double>(options.first)));
  ValueId frequency = exp(b, mul(b, pair, full_like(b, pair, -2 * std::log(options.base) / static_cast<double>(d))));
  ValueId angle = mul(b, position, frequency);
  ValueId c = cos(b, angle), s = sin(b, angle);
  const auto axis = static_cast<std::int64_t>(options.interleaved ? type.rank() : type.rank() - 1);
  Shape split = type.shape;  // interleaved pairs get a separate axis
  if (options.interleaved) {
    split.back() = half, split.push_back(2);
    x = reshape(b, x, split);
  }
  auto part = [&](std::int64_t number) {
    Ints begin(split.size(), 0), size = split;
    begin[static_cast<std::size_t>(axis)] = options.interleaved ? number : number * half;
    size[static_cast<std::size_t>(axis)] = options.interleaved ? 1 : half;
    ValueId y = slice(b, x, begin, size);
    if (!options.interleaved) return y;
    Shape flat = type.shape;
    flat.back() = half;
    return reshape(b, y, flat);
  };
  ValueId first = part(0), second = part(1);
  ValueId rotated[] = {sub(b, binary(b, "mul", first, c), binary(b, "mul", second, s)),
                       add(b, binary(b, "mul", second, c), binary(b, "mul", first, s))};
  if (!options.interleaved) return cast(b, concat(b, rotated, static_cast<int>(axis)), type.dtype);
  split.back() = 1;
  for (ValueId& each : rotated) each = reshape(b, each, split);
  return cast(b, reshape(b, concat(b, rotated, static_cast<int>(axis)), type.shape), type.dtype);
}

// ---- einsum

namespace {

using Label = int;                  // a letter, or 256 + d for dimension d of "...", counted from the last
using Labels = std::vector<Label>;  // one label for each dimension of a value

struct Subscripts {
  std::vector<Labels> in;
  Labels out;
};

bool has(const Labels& labels, Label label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

// Returns the labels of an operand or of the result; "..." stands for `ellipsis_rank` dimensions.
Labels labels_of(std::string_view text, std::string_view subscripts, int ellipsis_rank) {
  Labels labels;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 3) == "...") {
      require(!labels.empty()
                  ? labels.front() < 256 && std::none_of(labels.begin(), labels.end(), [](Label l) { return l >= 256; })
                  : true,
              "einsum '", subscripts, "': '...' occurs twice in '", text, "'");
      for (int d = ellipsis_rank; d-- > 0;) labels.push_back(256 + d);
      i += 2;
      continue;
    }
    const char c = text[i];
    require((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), "einsum '", subscripts, "': '", c, "' is not a letter");
    require(!has(labels, c), "einsum '", subscripts, "': '", c, "' occurs twice in '", text,
            "'; diagonals are not supported");
    labels.push_back(c);
  }
  return labels;
}

Subscripts parse_subscripts(Builder& b, std::string_view subscripts, std::span<const ValueId> operands) {
  std::string compact;
  for (char c : subscripts)
    if (c != ' ') compact += c;
  const auto arrow = compact.find("->");
  const std::string left = compact.substr(0, arrow);
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin != std::string::npos;) {
    const auto comma = left.find(',', begin);
    parts.push_back(left.substr(begin, comma == std::string::npos ? comma : comma - begin));
    begin = comma == std::string::npos ? comma : comma + 1;
  }
  require(!operands.empty() && parts.size() == operands.size(), "einsum '", subscripts, "': ", parts.size(),
          " operands in the subscripts, but ", operands.size(), " given");
  Subscripts parsed;
  int ellipsis_rank = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool has_ellipsis = parts[i].find("...") != std::string::npos;
    const int letter_count = static_cast<int>(parts[i].size()) - (has_ellipsis ? 3 : 0),
              rank = b.type(operands[i]).rank();
    require(ErrorKind::shape, has_ellipsis ? letter_count <= rank : letter_count == rank, "einsum '", subscripts,
            "': '", parts[i], "' does not match the rank of operand ", i, " ", b.type(operands[i]));
    parsed.in.push_back(labels_of(parts[i], subscripts, rank - letter_count));
    if (has_ellipsis) ellipsis_rank = std::max(ellipsis_rank, rank - letter_count);
  }
  if (arrow != std::string::npos) {
    parsed.out = labels_of(compact.substr(arrow + 2), subscripts, ellipsis_rank);
  } else {
    std::map<Label, int> occurrences;
    for (const Labels& in : parsed.in)
      for (Label l : in) ++occurrences[l];
    for (int d = ellipsis_rank; d-- > 0;) parsed.out.push_back(256 + d);
    for (auto [label, count] : occurrences)
      if (label < 256 && count == 1) parsed.out.push_back(label);
  }
  std::map<Label, std::int64_t> sizes;
  for (std::size_t i = 0; i < parsed.in.size(); ++i)
    for (std::size_t d = 0; d < parsed.in[i].size(); ++d) {
      const std::int64_t size = b.type(operands[i]).shape[d];
      auto [entry, inserted] = sizes.try_emplace(parsed.in[i][d], size);
      if (entry->second != size)
        fail(ErrorKind::shape, "einsum '", subscripts, "': ",
             parsed.in[i][d] < 256 ? cat("'", static_cast<char>(parsed.in[i][d]), "'")
                                   : std::string("a dimension of '...'"),
             " has sizes ", entry->second, " and ", size);
    }
  for (Label l : parsed.out)
    require(sizes.count(l) > 0, "einsum '", subscripts, "': '", l < 256 ? std::string(1, static_cast<char>(l)) : "...",
            "' of the result is not in any operand");
  return parsed;
}

// A value with its labels.
struct LabelledValue {
  ValueId id;
  Labels labels;
};

LabelledValue sum_out(Builder& b, LabelledValue x, const Labels& kept_labels) {
  Ints summed;
  Labels remaining;
  for (std::size_t d = 0; d < x.labels.size(); ++d) {
    if (has(kept_labels, x.labels[d])) remaining.push_back(x.labels[d]);
    else summed.push_back(static_cast<std::int64_t>(d));
  }
  return summed.empty() ? x : LabelledValue{reduce_sum(b, x.id, summed), remaining};
}

ValueId permute(Builder& b, const LabelledValue& x, const Labels& order) {
  Ints perm;
  for (Label l : order) perm.push_back(std::find(x.labels.begin(), x.labels.end(), l) - x.labels.begin());
  return std::is_sorted(perm.begin(), perm.end()) ? x.id : transpose(b, x.id, perm);
}

// Multiplies two values. Each label belongs to the batch (in x, y and `kept_labels`), the rows (only in x), the columns
// (only in y) or the inner dimensions (in x and y, summed over).
LabelledValue product(Builder& b, LabelledValue x, LabelledValue y, const Labels& kept_labels) {
  Labels batch, rows, columns, inner;
  for (Label l : x.labels) (has(y.labels, l) ? has(kept_labels, l) ? batch : inner : rows).push_back(l);
  for (Label l : y.labels)
    if (!has(x.labels, l)) columns.push_back(l);
  auto join_labels = [](std::initializer_list<const Labels*> parts) {
    Labels all;
    for (const Labels* part : parts) all.insert(all.end(), part->begin(), part->end());
    return all;
  };
  std::map<Label, std::int64_t> sizes;
  for (const LabelledValue* each : {&x, &y})
    for (std::size_t d = 0; d < each->labels.size(); ++d) sizes[each->labels[d]] = b.type(each->id).shape[d];
  auto shape_over = [&](const Labels& labels) {
    Shape shape;
    for (Label l : labels) shape.push_back(sizes[l]);
    return shape;
  };
  auto matrix = [&](const LabelledValue& from, const Labels& first, const Labels& second) {
    Shape shape = shape_over(batch);
    shape.push_back(count_of(shape_over(first)));
    shape.push_back(count_of(shape_over(second)));
    return reshape(b, permute(b, from, join_labels({&batch, &first, &second})), shape);
  };
  ValueId left = matrix(x, rows, inner), right = matrix(y, inner, columns);
  const Labels out = join_labels({&batch, &rows, &columns});
  return {reshape(b, matmul(b, left, right), shape_over(out)), out};
}

}  // namespace

ValueId einsum(Builder& b, std::string_view subscripts, std::span<const ValueId> operands) {
  const Subscripts s = parse_subscripts(b, subscripts, operands);
  auto needed_labels = [&](std::size_t from) {  // labels of the result and of the operands from `from` on
    Labels labels = s.out;
    for (std::size_t i = from; i < s.in.size(); ++i) labels.insert(labels.end(), s.in[i].begin(), s.in[i].end());
    return labels;
  };
  LabelledValue result = sum_out(b, {operands[0], s.in[0]}, needed_labels(1));
  for (std::size_t i = 1; i < operands.size(); ++i) {
    Labels kept_labels = needed_labels(i + 1), needed_by_product = kept_labels;
    needed_by_product.insert(needed_by_product.end(), result.labels.begin(), result.labels.end());
    LabelledValue next = sum_out(b, {operands[i], s.in[i]}, needed_by_product);
    result = product(b, result, next, kept_labels);
  }
  return permute(b, result, s.out);
}

}  // namespace karez::ops::build

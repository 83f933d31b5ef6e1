// Computes sizes and strides, and prints and parses types and views.
#include "karez/tensor/tensor.h"

#include <algorithm>
#include <numeric>

#include "karez/base/text.h"

namespace karez::tensor {

View::View() = default;
View::View(const View&) = default;
View::View(View&&) noexcept = default;
View& View::operator=(const View&) = default;
View& View::operator=(View&&) noexcept = default;
View::~View() = default;
View::View(DType d, Shape s) : dtype(d), shape(std::move(s)), strides(row_major(shape)) {}
View::View(DType d, Shape s, Strides t) : dtype(d), shape(std::move(s)), strides(std::move(t)) {}
View::View(const TensorType& type) : View(type.dtype, type.shape) {}

std::int64_t count_of(const Shape& shape) {
  std::int64_t count = 1;
  for (auto size : shape) {
    require(ErrorKind::shape, size >= 0, "a shape has a negative size: ", shape);
    count = checked_mul(count, size);
  }
  return count;
}

std::string print(const TensorType& type) { return cat(name_of(type.dtype), type.shape); }

namespace {
std::vector<std::int64_t> parse_list(Scanner& in, std::string_view open, std::string_view close) {
  std::vector<std::int64_t> values;
  in.expect(open);
  while (!in.accept(close)) {
    if (!values.empty()) in.expect(",");
    Scanner start = in;
    values.push_back(in.integer());
    if (values.back() < 0) start.fail_here("a size or a stride is negative");
  }
  return values;
}
}  // namespace

TensorType parse_type(Scanner& in) {
  Scanner start = in;
  DType dtype = DType::f32;
  try {
    dtype = dtype_from(in.word());
  } catch (const Error& error) { start.fail_here(error.what()); }
  return {dtype, parse_list(in, "[", "]")};
}

Strides row_major(const Shape& shape) {
  Strides strides(shape.size());
  std::int64_t step = 1;
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
    strides[d] = step;
    step = checked_mul(step, std::max<std::int64_t>(shape[d], 1));
  }
  return strides;
}

Strides channels_last(const Shape& shape) {
  if (shape.size() != 4) return row_major(shape);
  std::int64_t c = std::max<std::int64_t>(shape[1], 1), h = std::max<std::int64_t>(shape[2], 1),
               w = std::max<std::int64_t>(shape[3], 1);
  return {checked_mul(checked_mul(h, w), c), 1, checked_mul(w, c), c};
}

bool is_dense(const Shape& shape, const Strides& strides) {
  if (count_of(shape) == 0) return true;
  std::vector<int> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] < strides[b]; });
  std::int64_t step = 1;
  for (int d : order) {
    if (shape[d] == 1) continue;
    if (strides[d] != step) return false;
    step *= shape[d];
  }
  return true;
}

bool same_order(const Shape& shape, const Strides& a, const Strides& b) {
  if (count_of(shape) == 0) return true;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && a[d] != b[d]) return false;
  return true;
}

std::int64_t View::extent() const {
  if (count() == 0) return 0;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) last = checked_add(last, checked_mul(shape[d] - 1, strides[d]));
  return last + 1;
}

std::string print(const View& view) {
  std::string text = print(view.type());
  return view.strides == row_major(view.shape) ? text : cat(text, "{", join(view.strides, ", "), "}");
}

View parse_view(Scanner& in) {
  TensorType type = parse_type(in);
  if (!in.peek("{")) return View(type);
  View view(type.dtype, type.shape, parse_list(in, "{", "}"));
  if (view.strides.size() != view.shape.size())
    in.fail_here("the preceding view must have one stride for each dimension");
  return view;
}

std::int64_t offset_of(const std::vector<std::int64_t>& index, const Strides& strides) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

}  // namespace karez::tensor

// Copies the arrays of elements to the rows of a batch.
#include "karez/data/stages/row_stack.h"

#include <algorithm>
#include <cstring>

#include "karez/base/copy_bytes.h"
#include "karez/data/stages/dataset_node.h"

namespace karez::data {
namespace {

// The shape of a row: equal for all elements, or the largest sizes.
Shape row_shape(std::span<const Element> elements, std::size_t field, const StackOptions& options,
                std::string_view stage) {
  const HostArray& first = array_of(elements[0], field);
  Shape shape = first.shape();
  const Shape* given = options.padded && field < options.shapes.size() ? &options.shapes[field] : nullptr;
  for (const Element& element : elements) {
    const HostArray* array = std::get_if<HostArray>(&element.fields[field]);
    if (array != nullptr && array->dtype() == first.dtype() && array->shape() == shape) continue;  // the usual case
    if (array == nullptr || array->dtype() != first.dtype())
      fail(ErrorKind::type, stage, ": field ", field, " must have the same dtype in all rows of a batch, got ",
           print(first.type()), " and ", array ? print(array->type()) : std::string("an object"));
    if (!options.padded || array->shape().size() != shape.size())
      fail(ErrorKind::shape, stage, ": field ", field,
           options.padded ? " must have the same number of dimensions in all rows of a batch, got "
                          : " must have the same shape in all rows of a batch, got ",
           print(first.type()), " and ", print(array->type()),
           options.padded ? "" : "; padded_batch pads them to the largest shape");
    for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = std::max(shape[d], array->shape()[d]);
  }
  if (given == nullptr) return shape;
  require(ErrorKind::shape, given->size() == shape.size(), stage, ": the shape for field ", field, " has ",
          given->size(), " dimensions, but the rows have ", shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if ((*given)[d] < 0) continue;
    require(ErrorKind::shape, shape[d] <= (*given)[d], stage, ": a row of field ", field, " has size ", shape[d],
            " in dimension ", d, ", more than the given size ", (*given)[d]);
    shape[d] = (*given)[d];
  }
  return shape;
}

// Copies an array into the corner of a row whose sizes are at least the array's.
void copy_to_corner(std::byte* to, const Shape& row, const HostArray& array) {
  const std::int64_t item = size_of(array.dtype());
  const Shape& shape = array.shape();
  if (array.count() == 0) return;
  if (shape == row) return copy_bytes(to, array.bytes(), static_cast<std::size_t>(array.count() * item));
  const Strides strides = row_major(row);
  const std::size_t last = shape.size() - 1;
  Shape outer(shape.begin(), shape.end() - 1);
  const std::byte* from = array.bytes();
  for_each_index(outer, [&](const std::vector<std::int64_t>& index) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < last; ++d) offset += index[d] * strides[d];
    std::memcpy(to + offset * item, from, static_cast<std::size_t>(shape[last] * item));
    from += shape[last] * item;
  });
}

}  // namespace

Rows::Rows(HostArray array) : array_(std::make_shared<const HostArray>(std::move(array))), row_(array_->type()) {
  row_.shape.erase(row_.shape.begin());
  bytes_ = row_.bytes();
}

HostArray Rows::operator[](std::int64_t index) const {
  return HostArray(row_, std::shared_ptr<std::byte[]>(array_, array_->bytes() + index * bytes_));
}

void Rows::copy(std::span<const EpochIndex> places, std::byte* to) const {
  for (std::size_t i = 0; i < places.size();) {
    std::size_t end = i + 1;
    while (end < places.size() && places[end].index == places[end - 1].index + 1) ++end;
    const std::size_t bytes = (end - i) * static_cast<std::size_t>(bytes_);
    if (bytes > 0) copy_bytes(to, array_->bytes() + places[i].index * bytes_, bytes);
    to += bytes;
    i = end;
  }
}

Element stack(std::span<const Element> elements, const StackOptions& options, ArrayPool& pool, std::string_view stage) {
  const Element& first = elements.front();
  for (const Element& element : elements) {
    if (element.structure == first.structure || *element.structure == *first.structure) continue;
    fail(ErrorKind::data, stage, ": all rows of a batch must have the same structure, got ", print(*first.structure),
         " and ", print(*element.structure));
  }
  Element out;
  out.structure = first.structure;
  out.epoch = first.epoch, out.index = first.index;
  out.state = elements.back().state;
  for (std::size_t field = 0; field < first.fields.size(); ++field) {
    if (!std::holds_alternative<HostArray>(first.fields[field])) {
      require(ErrorKind::type, !options.weights, stage, ": field ", field,
              " is not an array of a dtype that tensors have, so rows of zeros cannot be added; convert it before");
      std::vector<Object> objects;
      for (const Element& element : elements) {
        const Object* object = std::get_if<Object>(&element.fields[field]);
        require(ErrorKind::type, object != nullptr, stage, ": field ", field,
                " must be an array in all rows of a batch, or in none");
        objects.push_back(*object);
      }
      out.fields.emplace_back(std::move(objects));
      continue;
    }
    const Shape row = row_shape(elements, field, options, stage);
    TensorType type{array_of(first, field).dtype(), row};
    const std::int64_t bytes = type.bytes();
    type.shape.insert(type.shape.begin(), options.rows);
    HostArray batch = pool.allocate(std::move(type));
    const bool has_gaps = options.rows > static_cast<std::int64_t>(elements.size()) ||
                          (!options.positions.empty() && options.positions[0] < 0);
    if (options.padded || has_gaps) std::memset(batch.bytes(), 0, static_cast<std::size_t>(batch.view().bytes()));
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const std::int64_t position = options.positions.empty() ? static_cast<std::int64_t>(i) : options.positions[i];
      if (position >= 0) copy_to_corner(batch.bytes() + position * bytes, row, array_of(elements[i], field));
    }
    out.fields.emplace_back(std::move(batch));
  }
  if (!options.weights) return out;
  HostArray weights(TensorType{DType::f32, {options.rows}});
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::int64_t position = options.positions.empty() ? static_cast<std::int64_t>(i) : options.positions[i];
    if (position >= 0) weights.data<float>()[static_cast<std::size_t>(position)] = 1;
  }
  out.fields.emplace_back(std::move(weights));
  // The weights are the last item of a tuple or list, and the second of a pair otherwise.
  auto structure = std::make_shared<Structure>(*first.structure);
  if (structure->kind == Structure::Kind::tuple || structure->kind == Structure::Kind::list) {
    structure->children.push_back(leaf_structure());
    out.structure = structure;
  } else {
    out.structure = tuple_structure({first.structure, leaf_structure()});
  }
  return out;
}

}  // namespace karez::data

// Opens weight files, reads bytes at their offsets, and converts them to arrays.
#include "karez/data/weight_files.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/base/xxhash.h"

namespace karez::data {
namespace {

// Calls copy(to, from) for each element of `shape` in row-major order; both offsets are counted in elements.
template <class Copy> void for_rows(const Shape& shape, const Strides& strides, Copy&& copy) {
  if (count_of(shape) == 0) return;
  const std::int64_t inner = shape.empty() ? 1 : shape.back(), step = shape.empty() ? 1 : strides.back();
  const Shape outer(shape.begin(), shape.empty() ? shape.end() : shape.end() - 1);
  std::int64_t destination = 0;
  for_each_index(outer, [&](const std::vector<std::int64_t>& index) {
    std::int64_t from = 0;
    for (std::size_t d = 0; d < index.size(); ++d) from += index[d] * strides[d];
    for (std::int64_t i = 0; i < inner; ++i) copy(destination++, from + i * step);
  });
}

// Returns the offset of the part's first element and the part's strides, both in elements.
std::pair<std::int64_t, Strides> part_layout(const WeightEntry& entry, const WeightPart& part) {
  Strides strides = row_major(entry.shape);
  std::int64_t first_element = 0;
  if (part.parts > 1) {
    const auto axis = static_cast<std::size_t>(part.axis);
    first_element = entry.shape[axis] / part.parts * part.part * strides[axis];
  }
  if (part.transposed) std::swap(strides[0], strides[1]);
  return {first_element, std::move(strides)};
}

template <class From, class To, class Make>
void convert(const WeightEntry& entry, const WeightPart& part, const std::byte* bytes, To* destination, Make&& make) {
  const auto [first_element, strides] = part_layout(entry, part);
  for_rows(shape_of(entry, part), strides, [&, first_element = first_element](std::int64_t at, std::int64_t from) {
    From value;
    std::memcpy(&value, bytes + static_cast<std::size_t>(first_element + from) * sizeof(From), sizeof(From));
    destination[at] = make(value);
  });
}

}  // namespace

WeightFiles::WeightFiles(const std::string& path) : path_(path) {
  if (!path.ends_with(".index.json")) {
    open(path);
  } else {
    const std::string folder = path.substr(0, path.find_last_of('/') + 1);
    open(path);  // opens the index without parsing its text
    const auto index = parse_weight_index(files_[0].file->read_text(0, files_[0].data), path);
    std::map<std::string, int> numbers;
    for (const auto& [name, file] : index)
      if (numbers.emplace(file, static_cast<int>(files_.size())).second) open(folder + file);
    for (const WeightEntry& entry : entries_) {
      auto indexed = index.find(entry.name);
      const std::string& file = files_[static_cast<std::size_t>(entry.file)].file->name();
      if (indexed == index.end() || numbers.at(indexed->second) != entry.file)
        fail(ErrorKind::data, file, ": the file has tensor ", quote(entry.name), ", which ", path,
             indexed == index.end() ? " does not list" : cat(" lists in ", indexed->second));
    }
    std::set<std::string> present;
    for (const WeightEntry& entry : entries_) present.insert(entry.name);
    for (const auto& [name, file] : index)
      if (present.count(name) == 0)
        fail(ErrorKind::data, folder, file, ": the file has no tensor ", quote(name), ", which ", path,
             " lists in it; ", suggest_names(name, std::vector<std::string>(present.begin(), present.end())));
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const WeightEntry& a, const WeightEntry& b) { return a.name < b.name; });
}

void WeightFiles::open(const std::string& path) {
  files_.push_back({std::make_unique<const OpenFile>(path), 0});
  const OpenFile& opened = *files_.back().file;
  const std::int64_t bytes = opened.size();
  if (path.ends_with(".index.json")) {
    require(ErrorKind::data, bytes <= longest_weight_header, path, ": the index has ", bytes, " bytes, but at most ",
            longest_weight_header, " are allowed");
    files_.back().data = bytes;
    return;
  }
  const std::int64_t length = weight_header_bytes(opened.read_text(0, std::min<std::int64_t>(bytes, 8)), bytes, path);
  WeightHeader header = parse_weight_header(opened.read_text(8, length), bytes, path);
  files_.back().data = 8 + length;
  for (WeightEntry& entry : header.entries) {
    entry.file = static_cast<int>(files_.size()) - 1;
    entries_.push_back(std::move(entry));
  }
  for (auto& [name, text] : header.notes) notes_.insert_or_assign(name, std::move(text));
}

std::vector<std::byte> WeightFiles::read(const WeightEntry& entry) const {
  const File& file = files_[static_cast<std::size_t>(entry.file)];
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.end - entry.begin));
  file.file->read_at(file.data + entry.begin, bytes);
  if (entry.checksum && *entry.checksum != hash_bytes(bytes))
    fail(ErrorKind::data, file.file->name(), ": the bytes of tensor ", quote(entry.name),
         " do not match their checksum: the file is damaged");
  return bytes;
}

void WeightFiles::check_bytes() const {
  for (const WeightEntry& entry : entries_)
    if (entry.checksum) read(entry);
}

Shape shape_of(const WeightEntry& entry, const WeightPart& part) {
  Shape shape = entry.shape;
  const auto description = [&] { return cat("tensor ", quote(entry.name), " ", entry.dtype, entry.shape); };
  if (part.parts > 1) {
    require(ErrorKind::shape, part.axis >= 0 && part.axis < static_cast<int>(shape.size()), description(),
            " has no axis ", part.axis, " to split");
    std::int64_t& size = shape[static_cast<std::size_t>(part.axis)];
    require(ErrorKind::shape, size % part.parts == 0, description(), " cannot be split into ", part.parts,
            " equal parts along axis ", part.axis);
    size /= part.parts;
  }
  require(ErrorKind::shape, part.part >= 0 && part.part < part.parts, description(), ": part ", part.part, " of ",
          part.parts, " does not exist");
  require(ErrorKind::shape, !part.transposed || shape.size() == 2, description(),
          " must have two dimensions to be transposed");
  if (part.transposed) std::swap(shape[0], shape[1]);
  return shape;
}

bool is_representable(const WeightEntry& entry, DType dtype) {
  return entry.dtype == weight_dtype(dtype) ||
         ((dtype == DType::f32 || dtype == DType::f64) && (entry.dtype == "F16" || entry.dtype == "BF16"));
}

HostArray array_of(const WeightEntry& entry, const WeightPart& part, DType dtype, const std::vector<std::byte>& bytes) {
  HostArray out(TensorType{dtype, shape_of(entry, part)});
  if (!is_representable(entry, dtype))
    fail(ErrorKind::type, "tensor ", quote(entry.name), " has dtype ", entry.dtype, " and cannot be read as ", dtype);
  if (dtype == DType::b8) {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] > std::byte{1})
        fail(ErrorKind::data, "tensor ", quote(entry.name), ": element ", i, " of a BOOL tensor must be 0 or 1, got ",
             static_cast<int>(bytes[i]));
  }
  if (item_bytes(entry.dtype) == size_of(dtype)) {
    const std::vector<std::byte> converted = bytes_of(entry, part, bytes);
    if (!converted.empty()) std::memcpy(out.bytes(), converted.data(), converted.size());
    return out;
  }
  const auto widen = [&]<class T>(T* destination) {
    const auto element = [](auto half) { return static_cast<T>(half); };
    if (entry.dtype == "F16") convert<tensor::F16>(entry, part, bytes.data(), destination, element);
    else convert<tensor::Bf16>(entry, part, bytes.data(), destination, element);
  };
  if (dtype == DType::f32) widen(out.data<float>().data());
  else widen(out.data<double>().data());
  return out;
}

std::vector<std::byte> bytes_of(const WeightEntry& entry, const WeightPart& part, const std::vector<std::byte>& bytes) {
  if (part == WeightPart{}) return bytes;
  const auto item = static_cast<std::size_t>(item_bytes(entry.dtype));
  std::vector<std::byte> out(static_cast<std::size_t>(count_of(shape_of(entry, part))) * item);
  const auto [first_element, strides] = part_layout(entry, part);
  for_rows(shape_of(entry, part), strides,
           [&, first_element = first_element](std::int64_t destination, std::int64_t from) {
             std::memcpy(&out[static_cast<std::size_t>(destination) * item],
                         &bytes[static_cast<std::size_t>(first_element + from) * item], item);
           });
  return out;
}

}  // namespace karez::data

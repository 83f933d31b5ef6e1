// Opens weight files, reads bytes at their offsets, and converts them to arrays.
#include "karez/data/weight_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/base/xxhash.h"

namespace karez::data {
namespace {

// Reads `bytes` bytes from offset `at` on; fewer bytes are an error.
void read_at(int descriptor, std::byte* destination, std::int64_t bytes, std::int64_t at, std::string_view file) {
  while (bytes > 0) {
    const ssize_t got =
        ::pread(descriptor, destination, static_cast<std::size_t>(std::min<std::int64_t>(bytes, 1 << 30)), at);
    if (got < 0 && errno == EINTR) continue;
    require(ErrorKind::data, got >= 0, "cannot read ", file, ": ", std::strerror(errno));
    require(ErrorKind::data, got > 0, file, ": the file ends at byte ", at, ", but ", bytes,
            " more bytes are expected; it was truncated after it was opened");
    destination += got;
    at += got;
    bytes -= got;
  }
}

std::string read_text(int descriptor, std::int64_t bytes, std::int64_t at, std::string_view file) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  read_at(descriptor, reinterpret_cast<std::byte*>(text.data()), bytes, at, file);
  return text;
}

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
  try {
    if (!path.ends_with(".index.json")) {
      open(path);
    } else {
      const std::string folder = path.substr(0, path.find_last_of('/') + 1);
      open(path);  // opens the index without parsing its text
      const auto index = parse_weight_index(read_text(files_[0].descriptor, files_[0].data, 0, path), path);
      std::map<std::string, int> numbers;
      for (const auto& [name, file] : index)
        if (numbers.emplace(file, static_cast<int>(files_.size())).second) open(folder + file);
      for (const WeightEntry& entry : entries_) {
        auto indexed = index.find(entry.name);
        const std::string& file = files_[static_cast<std::size_t>(entry.file)].path;
        require(ErrorKind::data, indexed != index.end() && numbers.at(indexed->second) == entry.file, file,
                ": the file has tensor ", quote(entry.name), ", which ", path,
                indexed == index.end() ? " does not list" : cat(" lists in ", indexed->second));
      }
      std::set<std::string> present;
      for (const WeightEntry& entry : entries_) present.insert(entry.name);
      for (const auto& [name, file] : index)
        if (present.count(name) == 0)
          fail(ErrorKind::data, folder, file, ": the file has no tensor ", quote(name), ", which ", path,
               " lists in it; ", suggest_names(name, std::vector<std::string>(present.begin(), present.end())));
    }
  } catch (...) {
    for (const File& file : files_) ::close(file.descriptor);
    throw;
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const WeightEntry& a, const WeightEntry& b) { return a.name < b.name; });
}

WeightFiles::~WeightFiles() {
  for (const File& file : files_) ::close(file.descriptor);
}

void WeightFiles::open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not block.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require(ErrorKind::data, descriptor >= 0, "cannot read ", path, ": ", std::strerror(errno));
  files_.push_back({path, descriptor, 0});
  struct stat status = {};
  const bool has_status = ::fstat(descriptor, &status) == 0;
  require(ErrorKind::data, has_status, "cannot read ", path, ": ", std::strerror(errno));
  require(ErrorKind::data, S_ISREG(status.st_mode), "cannot read ", path, ": it is not a regular file");
  const std::int64_t bytes = status.st_size;
  if (path.ends_with(".index.json")) {
    require(ErrorKind::data, bytes <= longest_weight_header, path, ": the index has ", bytes, " bytes, but at most ",
            longest_weight_header, " are allowed");
    files_.back().data = bytes;
    return;
  }
  const std::int64_t length =
      weight_header_bytes(read_text(descriptor, std::min<std::int64_t>(bytes, 8), 0, path), bytes, path);
  WeightHeader header = parse_weight_header(read_text(descriptor, length, 8, path), bytes, path);
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
  read_at(file.descriptor, bytes.data(), entry.end - entry.begin, file.data + entry.begin, file.path);
  require(ErrorKind::data, !entry.checksum || *entry.checksum == hash_bytes(bytes), file.path, ": the bytes of tensor ",
          quote(entry.name), " do not match their checksum: the file is damaged");
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
  require(ErrorKind::type, is_representable(entry, dtype), "tensor ", quote(entry.name), " has dtype ", entry.dtype,
          " and cannot be read as ", dtype);
  if (dtype == DType::b8) {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      require(ErrorKind::data, bytes[i] <= std::byte{1}, "tensor ", quote(entry.name), ": element ", i,
              " of a BOOL tensor must be 0 or 1, got ", static_cast<int>(bytes[i]));
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

// Parses headers of safetensors files from untrusted bytes, and prints them.
#include "karez/data/safetensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <span>

#include "karez/base/text.h"
#include "karez/base/xxhash.h"
#include "karez/data/json.h"

namespace karez::data {
namespace {

struct FormatType {
  std::string_view name;
  std::int64_t bytes;
};
constexpr FormatType format_types[] = {{"BOOL", 1},    {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                                       {"F8_E8M0", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},     {"BF16", 2},
                                       {"I32", 4},     {"U32", 4}, {"F32", 4}, {"F64", 8},     {"I64", 8},
                                       {"U64", 8},     {"C64", 8}};
constexpr std::size_t max_dimensions = 64;

// Shortens a long text for messages, but not within a UTF-8 character.
std::string abbreviate(std::string_view text) {
  std::size_t end = std::min<std::size_t>(text.size(), 100);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return quote(text.substr(0, end));
}

// A state machine over JSON events: the state is the open object and its last key.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view file) : file_(file) {}

  void take(const JsonEvent& event) {
    switch (event.kind) {
      case JsonKind::object: return open();
      case JsonKind::object_end: return close();
      case JsonKind::array: return begin_list();
      case JsonKind::array_end: return end_list();
      case JsonKind::key: return key(event.text);
      case JsonKind::text: return text(event.text);
      case JsonKind::integer: return integer(event.integer);
      case JsonKind::other: fail(ErrorKind::data, file_, ": ", location(), ": expected a string or a 64-bit integer");
    }
  }
  WeightHeader header;

 private:
  enum class State { outside, top, entry, notes };

  std::string location() const {
    if (state_ == State::notes) return cat("__metadata__ ", abbreviate(key_));
    if (state_ == State::entry)
      return cat("tensor ", abbreviate(header.entries.back().name), key_.empty() ? "" : ": ", key_);
    return state_ == State::top ? cat("header, key ", abbreviate(key_)) : "header";
  }
  template <class... Parts> void check(bool ok, const Parts&... parts) const {
    require(ErrorKind::data, ok, file_, ": ", location(), ": ", parts...);
  }

  void open() {
    check(list_ == nullptr && (state_ == State::outside || state_ == State::top), "unexpected object");
    if (state_ == State::outside) {
      state_ = State::top;
    } else if (key_ == "__metadata__") {
      state_ = State::notes;
    } else {
      header.entries.emplace_back().name = key_;
      state_ = State::entry;
      seen_ = {};
    }
    key_.clear();
  }
  void close() {
    if (state_ == State::entry) {
      key_.clear();
      for (std::size_t k = 0; k < std::size(keys); ++k) check(seen_[k], "missing key ", keys[k]);
    }
    state_ = state_ == State::top ? State::outside : State::top;
  }
  void key(std::string_view text) {
    key_ = text;
    if (state_ == State::top && text == "__metadata__") {
      check(!has_notes_, "duplicate key");
      has_notes_ = true;
    }
    if (state_ == State::notes) check(header.notes.count(key_) == 0, "duplicate key");
    if (state_ != State::entry) return;
    const auto k = static_cast<std::size_t>(std::find(std::begin(keys), std::end(keys), text) - std::begin(keys));
    check(k < std::size(keys), "unknown key; a tensor has dtype, shape and data_offsets");
    check(!seen_[k], "duplicate key");
    seen_[k] = true;
  }
  void begin_list() {
    check(state_ == State::entry && list_ == nullptr && (key_ == "shape" || key_ == "data_offsets"), "unexpected list");
    list_ = key_ == "shape" ? &header.entries.back().shape : &(offsets_ = {});
  }
  void end_list() {
    if (list_ == &offsets_) {
      check(offsets_.size() == 2, "expected two numbers, begin and end; got ", offsets_.size());
      header.entries.back().begin = offsets_[0];
      header.entries.back().end = offsets_[1];
    }
    list_ = nullptr;
  }
  void text(std::string_view text) {
    check(list_ == nullptr && (state_ == State::notes || (state_ == State::entry && key_ == "dtype")),
          "unexpected string");
    if (state_ == State::notes) header.notes[key_] = text;
    else header.entries.back().dtype = text;
  }
  void integer(std::int64_t value) {
    check(list_ != nullptr, "unexpected number");
    check(value >= 0, "a number must not be negative, got ", value);
    check(list_->size() < max_dimensions, "more than ", max_dimensions, " numbers");
    list_->push_back(value);
  }

  static constexpr std::string_view keys[] = {"dtype", "shape", "data_offsets"};
  std::string_view file_;
  State state_ = State::outside;
  std::string key_;
  std::array<bool, 3> seen_ = {};
  bool has_notes_ = false;
  Shape offsets_, *list_ = nullptr;
};

// Checks that the offsets agree with the size of shape and dtype.
void check_entry(const WeightEntry& entry, std::int64_t data_bytes, std::string_view file) {
  const std::string location = cat(file, ": tensor ", abbreviate(entry.name), ": ");
  const std::int64_t item = item_bytes(entry.dtype);
  if (item <= 0)
    fail(ErrorKind::data, location, "unknown dtype ", abbreviate(entry.dtype),
         "; expected one of: ", join(format_types, ", ", [](const FormatType& type) { return type.name; }));
  require(ErrorKind::data, entry.begin <= entry.end && entry.end <= data_bytes, location, "its offsets ", entry.begin,
          " to ", entry.end, " are not a range of the ", data_bytes, " bytes after the header");
  std::int64_t bytes = item;
  bool fits = true;
  for (std::int64_t size : entry.shape) fits &= !__builtin_mul_overflow(bytes, size, &bytes);
  require(ErrorKind::data, fits && bytes == entry.end - entry.begin, location, entry.dtype, entry.shape, " takes ",
          fits ? std::to_string(bytes) : std::string("more than 2^63"), " bytes, but its offsets ", entry.begin, " to ",
          entry.end, " cover ", entry.end - entry.begin);
}

// Checks that each tensor begins where the previous one ends, and that the last one ends with the file.
void check_offsets(const std::vector<WeightEntry>& entries, std::int64_t data_bytes, std::string_view file) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const WeightEntry& entry = entries[i];
    require(ErrorKind::data, entry.begin >= at, file, ": tensors ", abbreviate(entries[i == 0 ? 0 : i - 1].name),
            " and ", abbreviate(entry.name), " overlap: ", entry.begin, " is below ", at);
    require(ErrorKind::data, entry.begin == at, file, ": bytes ", at, " to ", entry.begin, " before tensor ",
            abbreviate(entry.name), " belong to no tensor");
    at = entry.end;
  }
  require(ErrorKind::data, at == data_bytes, file, ": the tensors end at byte ", at,
          " after the header, but the file ends at byte ", data_bytes);
}

void check_names(const std::vector<WeightEntry>& entries, std::string_view file) {
  std::set<std::string_view> names;
  for (const WeightEntry& entry : entries)
    require(ErrorKind::data, names.insert(entry.name).second, file, ": tensor ", abbreviate(entry.name),
            " occurs twice");
}

constexpr std::string_view checksums_note = "karez.checksums", header_note = "karez.header",
                           no_checksum = "0000000000000000";

std::string hex_of(std::uint64_t value) {
  std::string out(no_checksum);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
  return out;
}

// Returns the offset in the header of the header's own checksum, or npos if the header has none.
std::size_t checksum_offset(std::string_view header) {
  const std::string key = cat("\"", header_note, "\":\"");
  const std::size_t at = header.find(key);
  return at == header.npos || header.size() - at < key.size() + no_checksum.size() ? header.npos : at + key.size();
}

std::string length_of(std::size_t header_bytes) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header_bytes >> (8 * i) & 255);
  return out;
}

// The checksum of the header's length and text, with its own checksum set to 0.
std::string checksum_of(std::string header, std::size_t position) {
  header.replace(position, no_checksum.size(), no_checksum);
  const std::string complete_notes = length_of(header.size()) + header;
  return hex_of(hash_bytes(std::as_bytes(std::span(complete_notes))));
}

// Moves the checksums from the notes to the entries, and verifies the checksum of the header. Either both notes exist
// or none.
void extract_checksums(WeightHeader& header, std::string_view text, std::string_view file) {
  const auto header_entry = header.notes.find(std::string(header_note)),
             checksum_list = header.notes.find(std::string(checksums_note));
  if (header_entry == header.notes.end() && checksum_list == header.notes.end()) return;
  const std::size_t position = checksum_offset(text);
  const bool is_intact = header_entry != header.notes.end() && checksum_list != header.notes.end() &&
                         position != text.npos && header_entry->second == checksum_of(std::string(text), position);
  require(ErrorKind::data, is_intact, file,
          ": the header does not match its checksum: the file is damaged, or another program rewrote it ",
          "and kept the notes '", header_note, "' and '", checksums_note, "', which it must leave out");
  const std::vector<std::string> words =
      header.entries.empty() ? std::vector<std::string>() : split(checksum_list->second, ' ');
  require(ErrorKind::data, words.size() == header.entries.size(), file, ": the file has checksums for ", words.size(),
          " tensors, but contains ", header.entries.size());
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(words[i].data(), words[i].data() + words[i].size(), value, 16);
    require(ErrorKind::data, error == std::errc() && end == words[i].data() + words[i].size(), file, ": ",
            abbreviate(words[i]), " is not a checksum");
    header.entries[i].checksum = value;
  }
  header.notes.erase(header_entry);
  header.notes.erase(checksum_list);
}

}  // namespace

std::int64_t item_bytes(std::string_view dtype) {
  for (const FormatType& type : format_types)
    if (type.name == dtype) return type.bytes;
  return 0;
}

std::string_view weight_dtype(DType dtype) {
  switch (dtype) {
    case DType::f32: return "F32";
    case DType::f64: return "F64";
    case DType::i32: return "I32";
    case DType::i64: return "I64";
    case DType::b8: return "BOOL";
    case DType::bf16: return "BF16";
    case DType::f16: return "F16";
    case DType::u8: return "U8";
  }
  fail(ErrorKind::type, "safetensors has no dtype for ", dtype);
}

std::int64_t weight_header_bytes(std::string_view prefix, std::int64_t file_bytes, std::string_view file) {
  require(ErrorKind::data, prefix.size() >= 8, file, ": the file has ", file_bytes,
          " bytes, but a safetensors file begins with 8 bytes that give the length of its header");
  std::uint64_t bytes = 0;
  for (int i = 7; i >= 0; --i) bytes = bytes << 8 | static_cast<unsigned char>(prefix[static_cast<std::size_t>(i)]);
  require(ErrorKind::data, bytes <= static_cast<std::uint64_t>(longest_weight_header), file,
          ": the header should have ", bytes, " bytes, but at most ", longest_weight_header,
          " are allowed; this may not be a safetensors file");
  require(ErrorKind::data, static_cast<std::int64_t>(bytes) <= file_bytes - 8, file, ": the header should have ", bytes,
          " bytes, but only ", file_bytes - 8, " follow: the file is truncated");
  return static_cast<std::int64_t>(bytes);
}

WeightHeader parse_weight_header(std::string_view text, std::int64_t file_bytes, std::string_view file) {
  require(ErrorKind::data, text.starts_with("{"), file, ": the header does not begin with '{'");
  HeaderReader reader(file);
  scan_json(text, cat(file, ": the header"), [&](const JsonEvent& event) { reader.take(event); });
  WeightHeader& header = reader.header;
  const std::int64_t data_bytes = file_bytes - 8 - static_cast<std::int64_t>(text.size());
  for (const WeightEntry& entry : header.entries) check_entry(entry, data_bytes, file);
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const WeightEntry& a, const WeightEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_offsets(header.entries, data_bytes, file);
  check_names(header.entries, file);
  extract_checksums(header, text, file);
  return std::move(header);
}

std::string print_weight_header(std::vector<WeightEntry>& entries, const WeightNotes& notes) {
  std::string text = "{";
  const auto append = [&]() -> std::string& { return text += text.size() > 1 ? "," : ""; };
  if (!notes.empty())
    append() +=
        cat("\"__metadata__\":{",
            join(notes, ",", [](const auto& note) { return cat(json_text(note.first), ":", json_text(note.second)); }),
            "}");
  std::int64_t at = 0;
  for (WeightEntry& entry : entries) {
    require(ErrorKind::name, entry.name != "__metadata__",
            "a tensor is named __metadata__, which safetensors reserves for notes");
    std::int64_t bytes = item_bytes(entry.dtype);
    for (std::int64_t size : entry.shape) bytes = checked_mul(bytes, size);
    entry.begin = at;
    entry.end = at = checked_add(at, bytes);
    append() += cat(json_text(entry.name), ":{\"dtype\":\"", entry.dtype, "\",\"shape\":[", join(entry.shape, ","),
                    "],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
  }
  text += "}";
  text.resize(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(text.size()), 8)), ' ');
  require(ErrorKind::data, static_cast<std::int64_t>(text.size()) <= longest_weight_header, "the names and types of ",
          entries.size(), " tensors take ", text.size(), " bytes; the format allows at most ", longest_weight_header);
  return length_of(text.size()) + text;
}

std::string print_checked_header(std::vector<WeightEntry>& entries, const WeightNotes& notes) {
  WeightNotes complete_notes = notes;
  complete_notes[std::string(checksums_note)] =
      join(entries, " ", [](const WeightEntry& entry) { return hex_of(entry.checksum.value_or(0)); });
  complete_notes[std::string(header_note)] = no_checksum;
  std::string header = print_weight_header(entries, complete_notes).substr(8);
  const std::size_t position = checksum_offset(header);
  header.replace(position, no_checksum.size(), checksum_of(header, position));
  return length_of(header.size()) + header;
}

std::map<std::string, std::string> parse_weight_index(std::string_view text, std::string_view file) {
  std::map<std::string, std::string> out;
  std::string key, name;
  int depth = 0;
  bool in_map = false, found_map = false;
  scan_json(text, file, [&](const JsonEvent& event) {
    if (in_map) {
      if (event.kind == JsonKind::object_end) return static_cast<void>((in_map = false, --depth));
      if (event.kind == JsonKind::key) return static_cast<void>(name = event.text);
      require(ErrorKind::data, event.kind == JsonKind::text, file, ": weight_map, ", abbreviate(name),
              ": not a file name");
      require(ErrorKind::data, out.emplace(name, event.text).second, file, ": weight_map: ", abbreviate(name),
              " occurs twice");
      const std::string_view path = event.text;
      require(
          ErrorKind::data,
          !path.empty() && path != "." && path != ".." && path.find_first_of(std::string_view("/\\\0", 3)) == path.npos,
          file, ": weight_map, ", abbreviate(name), ": ", abbreviate(path),
          " is not a file in the folder of the index");
      return;
    }
    if (event.kind == JsonKind::object && depth == 1 && key == "weight_map") {
      require(ErrorKind::data, !found_map, file, ": weight_map occurs twice");
      found_map = in_map = true;
    }
    if (event.kind == JsonKind::object || event.kind == JsonKind::array) ++depth;
    if (event.kind == JsonKind::object_end || event.kind == JsonKind::array_end) --depth;
    if (event.kind == JsonKind::key && depth == 1) key = event.text;
  });
  require(ErrorKind::data, found_map, file, ": it has no object \"weight_map\"");
  return out;
}

}  // namespace karez::data

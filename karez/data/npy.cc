// Parses the .npy format: magic number, version, header length, a Python dictionary as text, and the elements.
#include "karez/data/npy.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "karez/base/scanner.h"
#include "karez/base/text.h"

namespace karez::data {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

struct ParsedHeader {
  std::string type;
  bool fortran = false;
  Shape shape;
};

std::string python_text(Scanner& in) {  // '<f4': types contain no quotes
  const bool single = in.accept("'");
  if (!single) in.expect("\"");
  std::string out;
  constexpr std::string_view letters = "<>|=abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  while (!in.accept(single ? "'" : "\"")) {
    bool is_letter = false;
    for (char c : letters)
      if (in.accept(std::string_view(&c, 1))) out += c, is_letter = true;
    if (!is_letter) in.fail_here("a string must end with ' or \"");
  }
  return out;
}

// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
ParsedHeader parse_fields(std::string_view text, std::string_view name) {
  Scanner in(text, std::string(name));
  ParsedHeader out;
  in.expect("{");
  while (!in.accept("}")) {
    const std::string key = python_text(in);
    in.expect(":");
    if (key == "descr") {
      out.type = python_text(in);
    } else if (key == "fortran_order") {
      out.fortran = in.accept("True");
      if (!out.fortran) in.expect("False");
    } else if (key == "shape") {
      in.expect("(");
      while (!in.accept(")")) {
        out.shape.push_back(in.integer());
        if (out.shape.back() < 0) in.fail_here("a size must not be negative");
        if (!in.accept(",") && !in.peek(")")) in.fail_here("expected ',' or ')'");
      }
    } else {
      in.fail_here("unknown header key '" + key + "'");
    }
    if (!in.accept(",") && !in.peek("}")) in.fail_here("expected ',' or '}'");
  }
  return out;
}

DType dtype_of_numpy(const std::string& type, std::string_view name) {
  if (type == "<f4") return DType::f32;
  if (type == "<f8") return DType::f64;
  if (type == "<i4") return DType::i32;
  if (type == "<i8") return DType::i64;
  if (type == "|b1") return DType::b8;
  if (type == "<f2") return DType::f16;
  if (type == "|u1") return DType::u8;
  fail(ErrorKind::data, name, ": unsupported element type '", type, "'; expected <f2, <f4, <f8, <i4, <i8, |b1 or |u1");
}

}  // namespace

NpyPrefix parse_npy_prefix(std::span<const char> bytes, std::string_view name) {
  const std::string_view text(bytes.data(), bytes.size());
  require(ErrorKind::data, text.size() >= 10 && text.substr(0, magic.size()) == magic, name,
          ": not a .npy file: it does not begin with the magic number");
  const int version = static_cast<unsigned char>(text[6]);
  require(ErrorKind::data, version >= 1 && version <= 3, name, ": unsupported .npy version ", version,
          "; expected 1, 2 or 3");
  const std::size_t width = version == 1 ? 2 : 4;
  require(ErrorKind::data, text.size() >= 8 + width, name, ": the header is truncated");
  std::size_t length = 0;
  for (std::size_t i = 0; i < width; ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(text[8 + i])) << (8 * i);
  return {8 + width, length};
}

NpyHeader parse_npy_header(std::string_view text, std::string_view name) {
  try {
    ParsedHeader header = parse_fields(text, name);
    NpyHeader out = {{dtype_of_numpy(header.type, name), std::move(header.shape)}, header.fortran};
    out.type.bytes();  // throws if the size overflows
    return out;
  } catch (const Error& error) {
    const std::string_view message = error.what();
    throw Error(ErrorKind::data, starts_with(message, name) ? std::string(message) : cat(name, ": ", message));
  }
}

HostArray parse_npy(std::span<const char> bytes, std::string_view name) {
  const NpyPrefix prefix = parse_npy_prefix(bytes, name);
  const std::string_view text(bytes.data(), bytes.size());
  require(ErrorKind::data, prefix.length <= text.size() - prefix.bytes, name, ": the header should have ",
          prefix.length, " bytes, but only ", text.size() - prefix.bytes, " follow");
  const std::string_view content = text.substr(prefix.bytes + prefix.length);
  const auto [type, fortran] = parse_npy_header(text.substr(prefix.bytes, prefix.length), name);
  require(ErrorKind::data, type.bytes() == static_cast<std::int64_t>(content.size()), name, ": ", type, " takes ",
          type.bytes(), " bytes, but the file has ", content.size());
  HostArray out(type);
  if (!fortran) {
    if (!content.empty()) std::memcpy(out.bytes(), content.data(), content.size());
    return out;
  }
  Strides strides(type.shape.size());  // first dimension fastest
  std::int64_t step = 1;
  for (std::size_t d = 0; d < strides.size(); step *= type.shape[d++]) strides[d] = step;
  const auto item = static_cast<std::size_t>(size_of(type.dtype));
  std::size_t at = 0;
  for_each_index(type.shape, [&](const std::vector<std::int64_t>& index) {
    std::memcpy(out.bytes() + at, content.data() + static_cast<std::size_t>(offset_of(index, strides)) * item, item);
    at += item;
  });
  return out;
}

HostArray read_npy(const std::string& path) {
  require(ErrorKind::data, !std::filesystem::is_directory(path), "cannot read ", path, ": it is a directory");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  require(ErrorKind::data, in.good(), "cannot read ", path, ": ", std::strerror(errno));
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  return parse_npy(bytes, path);
}

}  // namespace karez::data

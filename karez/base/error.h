// The only exception class: its kind classifies the cause, and its text states the problem, the expected and the actual
// value, and the source line.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "karez/base/cat.h"

namespace karez::base {

enum class ErrorKind {
  user,    // an invalid call or option
  shape,   // sizes do not match
  type,    // dtypes do not match
  layout,  // a sharding or placement is not legal
  name,    // a name is unknown or ambiguous
  device,  // a device, its memory or a kernel for it fails
  peer,    // the connection to another rank is lost
  hang,    // the program makes no progress
  data,    // a file or source has unexpected contents
};
std::string_view name_of(ErrorKind kind);

// The exit code of a program that ends with an error of this kind: 64 for user, shape, type, layout, name and device,
// 75 for peer, 76 for hang, 77 for data.
int exit_code(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text);
  Error(ErrorKind kind, const std::string& text, std::string where = {});
  Error(const Error&);
  Error& operator=(const Error&);
  ~Error() override;

  ErrorKind kind;
  std::string where;  // the user's source line, "net.cc:12"; empty if unknown
};

[[noreturn]] void fail_parts(ErrorKind kind, std::initializer_list<TextPart> parts);

template <class... Parts> [[noreturn, gnu::always_inline]] inline void fail(ErrorKind kind, const Parts&... parts) {
  fail_parts(kind, {TextPart(parts)...});
}
template <class... Parts> [[noreturn, gnu::always_inline]] inline void fail(const Parts&... parts) {
  fail_parts(ErrorKind::user, {TextPart(parts)...});
}

// The parts are converted to text only if the check fails.
template <class... Parts> [[gnu::always_inline]] inline void require(ErrorKind kind, bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail_parts(kind, {TextPart(parts)...});
}
template <class... Parts> [[gnu::always_inline]] inline void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail_parts(ErrorKind::user, {TextPart(parts)...});
}

// Products and sums of sizes; overflow is an error.
inline std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  require(ErrorKind::shape, !__builtin_mul_overflow(a, b, &out), "size overflows 64 bits: ", a, " x ", b);
  return out;
}
inline std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  require(ErrorKind::shape, !__builtin_add_overflow(a, b, &out), "size overflows 64 bits: ", a, " + ", b);
  return out;
}
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t step) { return ceil_div(a, step) * step; }

}  // namespace karez::base

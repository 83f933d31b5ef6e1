// The one way things fail: an exception whose kind says whose fault it is, and whose text says what is wrong, both
// values, and where.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "karez/base/cat.h"

namespace karez::base {

enum class ErrorKind {
  user,    // a call or option that cannot be meant
  shape,   // sizes that do not fit
  type,    // dtypes that do not fit
  layout,  // a sharding or placement that is not legal
  name,    // something is called by a name that nobody has, or that two have
  device,  // a device, its memory or a kernel for it
  peer,    // another rank is gone
  hang,    // nothing moves any more
  data,    // a file or source does not hold what it should
};
std::string_view name_of(ErrorKind kind);

// What a program that ends because of such an error returns to its shell: 64 the user's (user, shape, type, layout,
// name, device), 75 peer, 76 hang, 77 data.
int exit_code(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text);
  Error(ErrorKind kind, const std::string& text, std::string where = {});
  Error(const Error&);
  Error& operator=(const Error&);
  ~Error() override;

  ErrorKind kind;
  std::string where;  // the user's source line, "net.cc:12", where it is known
};

[[noreturn]] void fail_parts(ErrorKind kind, std::initializer_list<TextPart> parts);

template <class... Parts> [[noreturn, gnu::always_inline]] inline void fail(ErrorKind kind, const Parts&... parts) {
  fail_parts(kind, {TextPart(parts)...});
}
template <class... Parts> [[noreturn, gnu::always_inline]] inline void fail(const Parts&... parts) {
  fail_parts(ErrorKind::user, {TextPart(parts)...});
}

// The parts become text only where the check fails.
template <class... Parts> [[gnu::always_inline]] inline void require(ErrorKind kind, bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail_parts(kind, {TextPart(parts)...});
}
template <class... Parts> [[gnu::always_inline]] inline void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail_parts(ErrorKind::user, {TextPart(parts)...});
}

// Products and sums of sizes: an overflow is an error, never a small number.
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

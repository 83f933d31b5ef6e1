// Elements as messages to and from worker processes (python/karez/data/worker.py).
//
// A message is a header and a body, which has an entry for each of several elements. In a request, an entry begins
// with a RequestEntry at a multiple of 16, and in a reply with a ReplyEntry. The rest of it describes the element from
// the outside in:
//   't' u32 n, 'l' u32 n                       a tuple or list, and then its n items
//   'd' u32 n, n times (u32 size, text)        a dict, and then the n values of these keys
//   'a' u8 dtype, u8 rank, u8 shared, i64 dims[rank], and the bytes of an array, or their position (u64) if `shared`
//   'o' u8 shared, u64 size, and the bytes of a pickle, or their position (u64) if `shared`
// Bytes of arrays in the body of a request, or in an entry of a reply, begin at a multiple of 16. Positions are those
// in a memory that both processes map: each channel has a region of it, so that no two elements use the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "python/src/elements.h"

namespace karez::python {

inline constexpr std::uint64_t in_message = ~std::uint64_t{0};  // the position of a body that follows its header
inline constexpr std::size_t largest_message = 32'768;          // longer bodies are in shared memory
inline constexpr std::int64_t largest_inline = 4096;            // bytes of an array or pickle in a body

struct RequestHeader {
  std::uint8_t channel = 0, flags = 0;  // flags: random_flag, filter_flag
  std::uint16_t count = 1;              // of elements
  std::uint32_t unused = 0;
  std::uint64_t position = in_message, size = 0;
  std::uint64_t padding = 0;
};
static_assert(sizeof(RequestHeader) == 32);
inline constexpr std::uint8_t random_flag = 1, filter_flag = 2;

struct RequestEntry {
  std::uint64_t key[2] = {};  // of the random numbers
  std::uint64_t size = 0;     // of the rest
  std::uint64_t padding = 0;
};
static_assert(sizeof(RequestEntry) == 32);

struct ReplyHeader {
  std::uint8_t flags = 0, unused = 0;
  std::uint16_t count = 0;
  std::uint32_t cpu = 0;          // the part of the time in which the process computed, in millionths
  std::uint64_t nanoseconds = 0;  // of the calls of the function
  std::uint64_t position = in_message, size = 0;
};
static_assert(sizeof(ReplyHeader) == 32);
inline constexpr std::uint8_t kept_input_flag = 1;  // the worker still uses arrays of the request

struct ReplyEntry {
  // 'v': the element; 'p': its pickle; 's': it is skipped, with the pickle of errors, if there were any; 'k': a byte,
  // whether a filter keeps it; 'e': the pickle of an error of the function; 'l': the same, because the function could
  // not be loaded; 'r': the results of several elements were too large for the memory, so this one has to be requested
  // alone.
  char status = 0;
  std::uint8_t unused[7] = {};
  std::uint64_t size = 0;
};
static_assert(sizeof(ReplyEntry) == 16);

// The part of a shared memory that belongs to one channel.
struct SharedRegion {
  std::byte* memory = nullptr;  // of all channels
  std::uint64_t begin = 0, end = 0;
};

// Writes the description of an element to the end of a body, and large arrays into the region. Returns the end of the
// bytes written there.
std::uint64_t write_element(const data::Element& element, const SharedRegion& region, std::string& body);
// The element of an entry with the status 'v', 'p' or 's'. `memory` is the shared memory of replies.
data::Element read_reply(char status, std::string_view body, std::span<const std::byte> memory);

}  // namespace karez::python

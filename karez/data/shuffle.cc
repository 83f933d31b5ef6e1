// Shuffles by Fisher-Yates with Philox: random words are a function of (seed, epoch, position), so no state is kept
// between epochs.
#include "karez/data/shuffle.h"

#include <numeric>
#include <utility>

#include "karez/base/hash.h"
#include "karez/base/philox.h"

namespace karez::data {

void shuffle(std::span<std::int32_t> order, std::uint64_t seed, std::int64_t epoch) {
  std::iota(order.begin(), order.end(), 0);
  std::uint64_t stream = Hash().add("shuffle").add(static_cast<std::uint64_t>(epoch)).value();
  for (std::size_t i = order.size(); i-- > 1;) {
    // Two words make 64 bits; the high half of the product with i + 1 is uniform to 2^-32 even for billions of rows
    // (Lemire 2019).
    std::uint64_t word = std::uint64_t{philox_word(seed, stream, 2 * i)} << 32 | philox_word(seed, stream, 2 * i + 1);
    auto j = static_cast<std::size_t>((static_cast<unsigned __int128>(word) * (i + 1)) >> 64);
    std::swap(order[i], order[j]);
  }
}

}  // namespace karez::data

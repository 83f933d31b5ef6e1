// Fuzzes the decoder of WAV files with arbitrary bytes. It must reject them with an Error of the kind `data`, or return
// samples that fit the size of the file.
#include "karez/data/wav.h"

#include "karez/base/error.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {

void fuzz_wav(std::string_view bytes) {
  try {
    const data::Sound sound = data::decode_wav({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    const Shape& shape = sound.samples.shape();
    check_invariant(shape.size() == 2 && shape[1] >= 1 && sound.rate >= 1, "a sound has no channel or no rate");
    check_invariant(sound.samples.count() <= 8 * static_cast<std::int64_t>(bytes.size()),
                    "a sound has more samples than its file can contain");
  } catch (const Error& error) {
    check_invariant(error.kind == ErrorKind::data, "the error of a damaged sound has another kind than data");
  }
}

}  // namespace karez::tests

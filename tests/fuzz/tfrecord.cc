// Fuzzes the readers of TFRecord and of tf.train.Example with arbitrary bytes.
#include "tests/fuzz/format_readers.h"

namespace karez::tests {

void fuzz_tfrecord(std::string_view bytes) {
  for (bool examples : {false, true})
    check_format(bytes,
                 [&](const data::FileOptions& options) { return data::from_tfrecord({"a"}, {examples}, options); });
  try {
    data::parse_example({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  } catch (const Error&) {}
}

}  // namespace karez::tests

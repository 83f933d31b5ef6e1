// Fuzzes the decoders of JPEG, PNG and WebP images with arbitrary bytes. A decoder must reject them with an Error of
// the kind `data`, or return as many pixels as the options allow.
#include "karez/base/error.h"
#include "karez/data/images.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {

void fuzz_image(std::string_view bytes) {
  constexpr std::int64_t max_pixels = 1 << 18;
  const std::span<const std::uint8_t> file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const data::DecodeOptions options[] = {
      {.max_pixels = max_pixels},
      {.channels = 1, .orient = true, .max_pixels = max_pixels},
      {.channels = 3, .max_pixels = max_pixels, .min_height = 1, .min_width = 1},
  };
  for (const data::DecodeOptions& option : options) {
    try {
      const HostArray image = data::decode_image(file, option);
      const Shape& shape = image.shape();
      check_invariant(shape.size() == 3 && shape[0] > 0 && shape[1] > 0, "an image has no pixels");
      check_invariant(shape[0] * shape[1] <= max_pixels, "an image has more pixels than the limit");
      check_invariant(option.channels == 0 ? shape[2] >= 1 && shape[2] <= 4 : shape[2] == option.channels,
                      "an image has other channels than those of the option");
      const data::HostArray again = data::decode_image(data::encode_png(image));
      check_invariant(again.shape() == shape, "an encoded image has another shape");
    } catch (const Error& error) {
      check_invariant(error.kind == ErrorKind::data, "the error of a damaged image has another kind than data");
    }
  }
}

}  // namespace karez::tests

// The function of elements that decodes images.
#include "karez/data/images/image_field.h"
#include "karez/data/images/record_errors.h"

namespace karez::data::images {

ImageFunction decode(const DecodeOptions& options, bool skip_errors, BytesOfObject bytes_of, SkipReport report) {
  check_options(options);
  return [options, bytes_of = std::move(bytes_of),
          errors = RecordErrors("decode", skip_errors, std::move(report))](const Element& element) {
    require(ErrorKind::shape, !element.fields.empty(), "decode: the element has no fields");
    std::span<const std::uint8_t> file;
    if (const auto* object = std::get_if<Object>(&element.fields[0]); object != nullptr && bytes_of != nullptr) {
      file = bytes_of(*object);
    } else {
      const HostArray& bytes = array_of(element);
      require(ErrorKind::type, bytes.dtype() == DType::u8 && bytes.shape().size() == 1,
              "decode: expected the bytes of a file, u8[n], got ", bytes.type());
      file = bytes.data<std::uint8_t>();
    }
    return errors.element(
        [&] { return with_field(element, decode_image(file, options, cat("the image of record ", element.index))); });
  };
}

}  // namespace karez::data::images

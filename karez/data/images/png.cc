// Decodes and encodes PNG images. Only this file calls libpng.
//
// libpng reports errors by longjmp, which must not skip destructors. So each step that calls it is a function whose
// variables have none, which returns false after an error; the caller then throws.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "karez/base/error.h"
#include "karez/data/images/pixels.h"

namespace karez::data {
namespace {

struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const std::uint8_t* bytes = nullptr;
  std::size_t count = 0, at = 0;
  char text[160] = "";
};

void raise_error(png_structp png, png_const_charp text) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->text, sizeof(reader->text), "%s", text);
  png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep out, std::size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (reader->count - reader->at < count) {
    reader->at = reader->count;
    png_error(png, "the file ends too early");
  }
  std::memcpy(out, reader->bytes + reader->at, count);
  reader->at += count;
}

bool read_header(PngReader& reader) {
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, raise_error, ignore_warning);
  if (reader.png == nullptr) return false;
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) return false;
  // Skips chunks that do not change pixels: libpng takes the memory that their header says before it reads them.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_read_fn(reader.png, &reader, read_bytes);
  png_read_info(reader.png, reader.info);
  return true;
}

// Requests 1 to 4 channels of 8 bits.
bool start(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_strip_16(reader.png);
  png_set_expand(reader.png);  // palettes, transparent colours, and grey of less than 8 bits
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_rows(PngReader& reader, std::uint8_t* out, std::size_t row_bytes, png_uint_32 height, bool interlaced) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  for (int pass = 0; pass < (interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1); ++pass)
    for (png_uint_32 y = 0; y < height; ++y) png_read_row(reader.png, out + y * row_bytes, nullptr);
  png_read_end(reader.png, reader.info);  // also checks that the file is complete
  return true;
}

class PngFile {
 public:
  PngFile(std::span<const std::uint8_t> file, std::string_view name) : name_(name) {
    reader_.bytes = file.data(), reader_.count = file.size();
    try {
      check(read_header(reader_));
    } catch (...) {
      png_destroy_read_struct(&reader_.png, &reader_.info, nullptr);
      throw;
    }
  }
  ~PngFile() { png_destroy_read_struct(&reader_.png, &reader_.info, nullptr); }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;

  std::int64_t height() const { return png_get_image_height(reader_.png, reader_.info); }
  std::int64_t width() const { return png_get_image_width(reader_.png, reader_.info); }
  Pixels read() {
    check(start(reader_));
    Pixels out(height(), width(), png_get_channels(reader_.png, reader_.info));
    require(ErrorKind::data, png_get_rowbytes(reader_.png, reader_.info) == out.row_bytes(), name_,
            ": a row of the PNG image must have ", out.row_bytes(), " bytes, got ",
            png_get_rowbytes(reader_.png, reader_.info));
    const bool interlaced = png_get_interlace_type(reader_.png, reader_.info) != PNG_INTERLACE_NONE;
    check(read_rows(reader_, out.data(), out.row_bytes(), static_cast<png_uint_32>(out.height), interlaced));
    return out;
  }

 private:
  void check(bool ok) const {
    if (!ok)
      fail(ErrorKind::data, name_, ": the PNG image is damaged or truncated near byte ", reader_.at, " of ",
           reader_.count, ": ", std::string_view(reader_.text));
  }

  PngReader reader_;
  std::string_view name_;
};

// The orientation in the chunk eXIf: a chunk has a length, a name of four letters, its content and a checksum.
int orientation_of(std::span<const std::uint8_t> file) {
  for (std::size_t at = 8; file.size() - at >= 12;) {
    const std::size_t length = png_get_uint_32(file.data() + at), left = file.size() - at - 12;
    if (length > left) return 1;
    if (std::memcmp(file.data() + at + 4, "eXIf", 4) == 0) return exif_orientation(file.subspan(at + 8, length));
    at += 12 + length;
  }
  return 1;
}

}  // namespace

DecodedImage decode_png(std::span<const std::uint8_t> file, const DecodeOptions& options, std::string_view name) {
  PngFile png(file, name);
  check_size(png.height(), png.width(), options.max_pixels, name);
  return {png.read(), options.orient ? orientation_of(file) : 1};
}

std::vector<std::uint8_t> encode_png(const HostArray& pixels) {
  const Shape& shape = pixels.shape();
  require(ErrorKind::shape, shape.size() == 3 && pixels.count() > 0 && shape[2] <= 4,
          "encode_png: expected pixels [height, width, 1 to 4], got ", shape);
  constexpr png_uint_32 formats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(shape[0]), image.width = static_cast<png_uint_32>(shape[1]);
  image.format = formats[shape[2] - 1];
  const std::uint8_t* from = pixels.data<std::uint8_t>().data();
  png_alloc_size_t count = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::uint8_t> out(count);
  const bool ok = png_image_write_to_memory(&image, out.data(), &count, 0, from, 0, nullptr) != 0;
  require(ErrorKind::data, ok, "encode_png: ", std::string_view(image.message));
  out.resize(count);
  return out;
}

}  // namespace karez::data

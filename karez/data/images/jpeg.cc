// Decodes and encodes JPEG images. Only this file calls libjpeg-turbo.
//
// libjpeg reports errors by longjmp, which must not skip destructors. So each step that calls it is a function whose
// variables have none, which returns false after an error; the caller then throws.
#include <cstdio>  // before jpeglib.h, which needs FILE

#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>

#include "karez/base/error.h"
#include "karez/data/images/pixels.h"

namespace karez::data {
namespace {

constexpr int max_scans = 500;  // of progressive images: a small file with many scans would take minutes
constexpr int exif_marker = JPEG_APP0 + 1;

struct JpegErrors {
  jpeg_error_mgr manager;  // first, so that libjpeg's pointer to it points to this struct
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX];
};

void raise_error(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  errors->manager.format_message(info, errors->text);
  std::longjmp(errors->jump, 1);
}

// Warnings of missing or wrong data are errors; others, such as of superfluous bytes, are ignored, as by other
// programs.
void check_warning(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION: raise_error(info); break;
    default: break;
  }
}

void print_nothing(j_common_ptr) {}

jpeg_error_mgr* start_errors(JpegErrors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = raise_error;
  errors.manager.emit_message = check_warning;
  errors.manager.output_message = print_nothing;
  errors.text[0] = '\0';
  return &errors.manager;
}

struct JpegReader {
  jpeg_decompress_struct info = {};
  JpegErrors errors;
  jpeg_progress_mgr progress = {};
};

void check_scans(j_common_ptr info) {
  auto* reader = reinterpret_cast<j_decompress_ptr>(info);
  if (reader->input_scan_number <= max_scans) return;
  reader->err->msg_code = JERR_BAD_PROGRESSION;
  std::snprintf(reinterpret_cast<JpegErrors*>(info->err)->text, JMSG_LENGTH_MAX, "more than %d scans", max_scans);
  std::longjmp(reinterpret_cast<JpegErrors*>(info->err)->jump, 1);
}

bool read_header(JpegReader& reader, const std::uint8_t* bytes, unsigned long count, bool exif) {
  reader.info.err = start_errors(reader.errors);
  if (setjmp(reader.errors.jump) != 0) return false;
  jpeg_create_decompress(&reader.info);
  reader.progress.progress_monitor = check_scans;
  reader.info.progress = &reader.progress;
  jpeg_mem_src(&reader.info, bytes, count);
  if (exif) jpeg_save_markers(&reader.info, exif_marker, 0xffff);
  jpeg_read_header(&reader.info, TRUE);
  return true;
}

bool start(JpegReader& reader) {
  if (setjmp(reader.errors.jump) != 0) return false;
  jpeg_start_decompress(&reader.info);
  return true;
}

bool read_rows(JpegReader& reader, std::uint8_t* out, std::size_t row_bytes) {
  if (setjmp(reader.errors.jump) != 0) return false;
  while (reader.info.output_scanline < reader.info.output_height) {
    constexpr JDIMENSION most = 8;
    JSAMPROW rows[most];
    const JDIMENSION first = reader.info.output_scanline;
    const JDIMENSION count = std::min(most, reader.info.output_height - first);
    for (JDIMENSION i = 0; i < count; ++i) rows[i] = out + (std::size_t{first} + i) * row_bytes;
    jpeg_read_scanlines(&reader.info, rows, count);
  }
  jpeg_finish_decompress(&reader.info);
  return true;
}

// A reader of a file, whose memory the destructor frees.
class JpegFile {
 public:
  JpegFile(std::span<const std::uint8_t> file, bool exif, std::string_view name) : file_(file), name_(name) {
    try {
      check(read_header(reader_, file.data(), file.size(), exif));
    } catch (...) {
      jpeg_destroy_decompress(&reader_.info);
      throw;
    }
  }
  ~JpegFile() { jpeg_destroy_decompress(&reader_.info); }
  JpegFile(const JpegFile&) = delete;
  JpegFile& operator=(const JpegFile&) = delete;

  jpeg_decompress_struct& info() { return reader_.info; }
  int orientation() const {
    for (const jpeg_marker_struct* marker = reader_.info.marker_list; marker != nullptr; marker = marker->next)
      if (marker->marker == exif_marker && marker->data_length >= 6 && marker->data[0] == 'E')
        return exif_orientation({marker->data, marker->data_length});
    return 1;
  }
  Pixels read() {
    check(start(reader_));
    Pixels out(reader_.info.output_height, reader_.info.output_width, reader_.info.output_components);
    check(read_rows(reader_, out.data(), out.row_bytes()));
    return out;
  }

 private:
  void check(bool ok) const {
    if (ok) return;
    const std::size_t left = reader_.info.src == nullptr ? 0 : reader_.info.src->bytes_in_buffer;
    fail(ErrorKind::data, name_, ": the JPEG image is damaged or truncated near byte ",
         file_.size() - std::min(left, file_.size()), " of ", file_.size(), ": ",
         std::string_view(reader_.errors.text));
  }

  JpegReader reader_;
  std::span<const std::uint8_t> file_;
  std::string_view name_;
};

// Chooses the smallest scale that is at least the requested size.
void choose_scale(jpeg_decompress_struct& info, const DecodeOptions& options) {
  const std::int64_t height = info.image_height, width = info.image_width;
  if (options.min_height == 0 && options.min_width == 0) return;
  for (unsigned divisor : {8u, 4u, 2u})
    if (ceil_div(height, divisor) >= options.min_height && ceil_div(width, divisor) >= options.min_width) {
      info.scale_num = 1, info.scale_denom = divisor;
      return;
    }
}

struct JpegWriter {
  jpeg_compress_struct info = {};
  JpegErrors errors;
  unsigned char* bytes = nullptr;  // allocated by libjpeg
  unsigned long count = 0;
};

bool write(JpegWriter& writer, const std::uint8_t* pixels, JDIMENSION height, JDIMENSION width, int channels,
           int quality) {
  writer.info.err = start_errors(writer.errors);
  if (setjmp(writer.errors.jump) != 0) return false;
  jpeg_create_compress(&writer.info);
  jpeg_mem_dest(&writer.info, &writer.bytes, &writer.count);
  writer.info.image_height = height, writer.info.image_width = width;
  writer.info.input_components = channels;
  writer.info.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&writer.info);
  jpeg_set_quality(&writer.info, quality, TRUE);
  jpeg_start_compress(&writer.info, TRUE);
  while (writer.info.next_scanline < height) {
    auto* row = const_cast<JSAMPLE*>(pixels) + std::size_t{writer.info.next_scanline} * width * channels;
    jpeg_write_scanlines(&writer.info, &row, 1);
  }
  jpeg_finish_compress(&writer.info);
  return true;
}

}  // namespace

DecodedImage decode_jpeg(std::span<const std::uint8_t> file, const DecodeOptions& options, std::string_view name) {
  JpegFile jpeg(file, options.orient, name);
  jpeg_decompress_struct& info = jpeg.info();
  check_size(info.image_height, info.image_width, options.max_pixels, name);
  choose_scale(info, options);
  const bool cmyk = info.num_components == 4;
  require(ErrorKind::data, info.num_components == 1 || info.num_components == 3 || cmyk, name,
          ": a JPEG image must have 1, 3 or 4 components, got ", info.num_components);
  info.out_color_space = cmyk ? JCS_CMYK : info.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  DecodedImage out{{}, jpeg.orientation()};  // before `read`, which frees the markers
  out.pixels = jpeg.read();
  if (cmyk) out.pixels = convert_cmyk(out.pixels);
  return out;
}

std::vector<std::uint8_t> encode_jpeg(const HostArray& pixels, int quality) {
  const Shape& shape = pixels.shape();
  require(ErrorKind::shape, shape.size() == 3 && pixels.count() > 0 && (shape[2] == 1 || shape[2] == 3),
          "encode_jpeg: expected pixels [height, width, 1 or 3], got ", shape);
  require(ErrorKind::shape, std::max(shape[0], shape[1]) <= JPEG_MAX_DIMENSION,
          "encode_jpeg: a side must have at most ", JPEG_MAX_DIMENSION, " pixels, got ", shape);
  require(quality >= 1 && quality <= 100, "encode_jpeg: quality must be between 1 and 100, got ", quality);
  JpegWriter writer;
  const bool ok = write(writer, pixels.data<std::uint8_t>().data(), static_cast<JDIMENSION>(shape[0]),
                        static_cast<JDIMENSION>(shape[1]), static_cast<int>(shape[2]), quality);
  std::vector<std::uint8_t> out(writer.bytes, writer.bytes + writer.count);
  jpeg_destroy_compress(&writer.info);
  std::free(writer.bytes);
  require(ErrorKind::data, ok, "encode_jpeg: ", std::string_view(writer.errors.text));
  return out;
}

}  // namespace karez::data

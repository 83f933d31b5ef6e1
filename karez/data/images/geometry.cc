// Functions that move the pixels of images: crops, flips, transposition and cut-out.
#include <cmath>
#include <cstring>
#include <numeric>

#include "karez/data/images/image_field.h"

namespace karez::data::images {
namespace {

void check_window_size(std::int64_t height, std::int64_t width, std::string_view function) {
  require(height >= 1 && width >= 1, function, ": height and width must be at least 1, got ", height, " x ", width);
}

// A size in bytes that is known when the program is compiled, so that memcpy needs no call; 0: any other size.
template <class Body> void with_fixed_size(std::size_t bytes, Body body) {
  switch (bytes) {
    case 1: return body.template operator()<1>();
    case 2: return body.template operator()<2>();
    case 3: return body.template operator()<3>();
    case 4: return body.template operator()<4>();
    case 8: return body.template operator()<8>();
    case 12: return body.template operator()<12>();
    default: return body.template operator()<0>();
  }
}

void flip_plainly(const std::byte* in, std::int64_t rows, std::int64_t width, std::size_t pixel, std::byte* out) {
  for (std::int64_t y = 0; y < rows; ++y)
    for (std::int64_t x = 0; x < width; ++x, in += pixel)
      std::memcpy(out + static_cast<std::size_t>((y + 1) * width - 1 - x) * pixel, in, pixel);
}

HostArray flipped(const HostArray& image, FlipKernel kernel) {
  const ImageSize size(image, "horizontal_flip");
  HostArray out(image.type());
  if (image.count() > 0)
    (kernel != nullptr ? kernel : flip_plainly)(image.bytes(), size.height, size.width, size.pixel_bytes, out.bytes());
  return out;
}

// Copies the elements of a dimension and of those after it; `strides` are those of `from`, in bytes.
template <std::size_t fixed>
std::byte* copy_strided(const std::byte* from, std::byte* to, std::span<const std::int64_t> sizes,
                        std::span<const std::int64_t> strides, std::size_t item) {
  for (std::int64_t i = 0; i < sizes[0]; ++i, from += strides[0]) {
    if (sizes.size() > 1) {
      to = copy_strided<fixed>(from, to, sizes.subspan(1), strides.subspan(1), item);
    } else {
      std::memcpy(to, from, fixed == 0 ? item : fixed);
      to += item;
    }
  }
  return to;
}

HostArray transposed(const HostArray& array, const std::vector<int>& axes) {
  const Shape& shape = array.shape();
  require(ErrorKind::shape, shape.size() == axes.size(), "transpose: expected an array of ", axes.size(),
          " dimensions, got shape ", shape);
  const auto item = static_cast<std::size_t>(size_of(array.dtype()));
  std::vector<std::int64_t> strides(axes.size());
  auto bytes = static_cast<std::int64_t>(item);
  for (std::size_t i = axes.size(); i-- > 0; bytes *= shape[i]) strides[i] = bytes;
  Shape out_shape;
  std::vector<std::int64_t> out_strides;
  for (int axis : axes) {
    out_shape.push_back(shape[static_cast<std::size_t>(axis)]);
    out_strides.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  HostArray out(TensorType{array.dtype(), out_shape});
  if (axes.empty()) std::memcpy(out.bytes(), array.bytes(), item);
  else
    with_fixed_size(item, [&]<std::size_t fixed>() {
      copy_strided<fixed>(array.bytes(), out.bytes(), out_shape, out_strides, item);
    });
  return out;
}

}  // namespace

std::int64_t center_offset(std::int64_t length, std::int64_t window) {
  if (length < window) return -((window - length) / 2);
  return std::llrint(static_cast<double>(length - window) / 2);  // halves are rounded to even numbers
}

HostArray window_of(const HostArray& image, std::int64_t top, std::int64_t left, std::int64_t height,
                    std::int64_t width, std::string_view function) {
  const ImageSize size(image, function);
  HostArray out(resized_type(image, height, width));  // zeros
  const std::int64_t first_x = std::max<std::int64_t>(0, -left), end_x = std::min(width, size.width - left);
  if (first_x >= end_x) return out;
  const auto offset = [&](std::int64_t pixels) { return static_cast<std::size_t>(pixels) * size.pixel_bytes; };
  for (std::int64_t y = std::max<std::int64_t>(0, -top); y < std::min(height, size.height - top); ++y)
    std::memcpy(out.bytes() + offset(y * width + first_x),
                image.bytes() + offset((top + y) * size.width + left + first_x), offset(end_x - first_x));
  return out;
}

ImageFunction crop(std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width) {
  check_window_size(height, width, "crop");
  require(top >= 0 && left >= 0, "crop: top and left must be at least 0, got ", top, " and ", left);
  return [=](const Element& element) {
    const HostArray& image = array_of(element);
    const ImageSize size(image, "crop");
    require(ErrorKind::shape, height <= size.height - top && width <= size.width - left, "crop: a window of ", height,
            " x ", width, " at row ", top, " and column ", left, " is not inside an image of ", size.height, " x ",
            size.width);
    return with_field(element, window_of(image, top, left, height, width, "crop"));
  };
}

ImageFunction center_crop(std::int64_t height, std::int64_t width) {
  check_window_size(height, width, "center_crop");
  return [=](const Element& element) {
    const HostArray& image = array_of(element);
    const ImageSize size(image, "center_crop");
    return with_field(element, window_of(image, center_offset(size.height, height), center_offset(size.width, width),
                                         height, width, "center_crop"));
  };
}

ImageFunction pad(std::int64_t padding) {
  require(padding >= 0, "pad: padding must be at least 0, got ", padding);
  return [=](const Element& element) {
    const HostArray& image = array_of(element);
    const ImageSize size(image, "pad");
    return with_field(element, window_of(image, -padding, -padding, checked_add(size.height, 2 * padding),
                                         checked_add(size.width, 2 * padding), "pad"));
  };
}

ImageFunction horizontal_flip(FlipKernel kernel) {
  return [=](const Element& element) { return with_field(element, flipped(array_of(element), kernel)); };
}

RandomImageFunction random_crop(std::int64_t height, std::int64_t width, std::int64_t padding) {
  check_window_size(height, width, "random_crop");
  require(padding >= 0, "random_crop: padding must be at least 0, got ", padding);
  return [=](const Element& element, const RandomKey& key) {
    const HostArray& image = array_of(element);
    const ImageSize size(image, "random_crop");
    const std::int64_t rows = size.height + 2 * padding - height, columns = size.width + 2 * padding - width;
    require(ErrorKind::shape, rows >= 0 && columns >= 0, "random_crop: a window of ", height, " x ", width,
            " is larger than an image of ", size.height, " x ", size.width, " with a padding of ", padding);
    RandomNumbers random(key, "random_crop");
    const std::int64_t top = random.below(rows + 1) - padding, left = random.below(columns + 1) - padding;
    return with_field(element, window_of(image, top, left, height, width, "random_crop"));
  };
}

RandomImageFunction random_horizontal_flip(double p, FlipKernel kernel) {
  require(p >= 0 && p <= 1, "random_horizontal_flip: p must be between 0 and 1, got ", p);
  return [=](const Element& element, const RandomKey& key) {
    const HostArray& image = array_of(element);
    const ImageSize size(image, "random_horizontal_flip");
    if (RandomNumbers(key, "random_horizontal_flip").uniform() >= p) return element;
    return with_field(element, flipped(image, kernel));
  };
}

RandomImageFunction cut_out(std::int64_t size) {
  require(size >= 1, "cut_out: size must be at least 1, got ", size);
  return [=](const Element& element, const RandomKey& key) {
    const HostArray& image = array_of(element);
    const ImageSize sides(image, "cut_out");
    if (image.count() == 0) return element;
    RandomNumbers random(key, "cut_out");
    const auto range = [&](std::int64_t length) {
      const std::int64_t first = random.below(length) - size / 2;
      return std::pair(std::max<std::int64_t>(0, first), std::min(length, first + size));
    };
    const auto [top, bottom] = range(sides.height);
    const auto [left, right] = range(sides.width);
    HostArray out(image.type());
    std::memcpy(out.bytes(), image.bytes(), static_cast<std::size_t>(image.count() * size_of(image.dtype())));
    for (std::int64_t y = top; y < bottom; ++y)
      std::memset(out.bytes() + static_cast<std::size_t>(y * sides.width + left) * sides.pixel_bytes, 0,
                  static_cast<std::size_t>(right - left) * sides.pixel_bytes);
    return with_field(element, std::move(out));
  };
}

ImageFunction transpose(std::vector<int> axes) {
  std::vector<int> sorted = axes, expected(axes.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(expected.begin(), expected.end(), 0);
  require(sorted == expected, "transpose: axes must be the numbers 0 to n - 1 in any order");
  return [axes = std::move(axes)](const Element& element) {
    return with_field(element, transposed(array_of(element), axes));
  };
}

}  // namespace karez::data::images

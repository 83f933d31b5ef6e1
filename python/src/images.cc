// Bindings of the functions of images and sounds.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "karez/karez.h"
#include "python/src/bindings.h"
#include "python/src/elements.h"
#include "python/src/image_function.h"
#include "python/src/value.h"

namespace karez::python {
namespace {
using namespace nb::literals;
using data::Element;
namespace images = karez::images;

using Bytes = std::span<const std::uint8_t>;

// The bytes of a `bytes` object, which do not change.
Bytes bytes_of(const data::Object& object) {
  return with_gil([&] {
    PyObject* bytes = handle_of(object).ptr();
    require(ErrorKind::type, PyBytes_Check(bytes) != 0, "expected the bytes of a file, got an object of the type ",
            nb::cast<std::string>(handle_of(object).type().attr("__name__")));
    return Bytes(reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(bytes)),
                 static_cast<std::size_t>(PyBytes_GET_SIZE(bytes)));
  });
}

data::DecodeOptions decode_options(int channels, bool orient, std::int64_t max_pixels,
                                   std::tuple<std::int64_t, std::int64_t> min_size) {
  return {channels, orient, max_pixels, std::get<0>(min_size), std::get<1>(min_size)};
}

// An element of a sound instead of the bytes of a file: the samples, the rate, and the other fields.
Element decode_sound(const Element& element) {
  require(ErrorKind::shape, !element.fields.empty(), "decode: the element has no fields");
  const std::string name = cat("the sound of record ", element.index);
  const auto* object = std::get_if<data::Object>(&element.fields[0]);
  data::Sound sound =
      data::decode_wav(object != nullptr ? bytes_of(*object) : data::array_of(element).data<std::uint8_t>(), name);
  Element out = element;
  out.fields[0] = std::move(sound.samples);
  out.fields.insert(out.fields.begin() + 1, HostArray::of<std::int64_t>({}, {sound.rate}));
  std::vector<data::StructureRef> fields(2, data::leaf_structure());
  const data::Structure& structure = *element.structure;
  if (structure.kind == data::Structure::Kind::tuple) {
    if (structure.children[0]->kind != data::Structure::Kind::leaf)
      fail(ErrorKind::shape, "decode: the first item of the element must be the bytes of a file, got ",
           data::print(*structure.children[0]));
    fields.insert(fields.end(), structure.children.begin() + 1, structure.children.end());
  } else {
    if (structure.kind != data::Structure::Kind::leaf)
      fail(ErrorKind::shape, "decode: expected the bytes of a file, or a tuple that begins with them, got ",
           data::print(structure));
  }
  out.structure = data::tuple_structure(std::move(fields));
  return out;
}

nb::object call(const ImageFunction& function, nb::args items, std::optional<data::RandomKey> key) {
  require(items.size() >= 1, function.name, ": expected an image");
  require(function.random == nullptr || key, function.name,
          ": outside of a data set, key=(seed, epoch, record) is needed, on which the random numbers depend");
  Element element = element_from(items.size() == 1 ? nb::object(items[0]) : nb::object(items)), out;
  {
    GilRelease without_gil;
    out = function.random == nullptr ? function.plain(element) : function.random(element, *key);
    element = {};
  }
  return python_of(out);
}

using OfTensor = std::function<Tensor(const Term&)>;
ImageFunction plain(std::string name, images::ImageFunction function, OfTensor of_tensor) {
  return {std::move(name), std::move(function), nullptr, std::move(of_tensor)};
}
ImageFunction random(std::string name, images::RandomImageFunction function, OfTensor of_tensor) {
  return {std::move(name), nullptr, std::move(function), std::move(of_tensor)};
}

void init_functions_of_images(nb::module_& m) {
  m.def("image_decode", [](int channels, bool orient, std::int64_t max_pixels,
                           std::tuple<std::int64_t, std::int64_t> min_size, bool skip_errors, nb::object report) {
    return ImageFunction{"decode", images::decode(decode_options(channels, orient, max_pixels, min_size), skip_errors,
                                                  bytes_of, skip_report(std::move(report)))};
  });
  m.def("image_crop", [](std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width) {
    return plain("crop", images::crop(top, left, height, width),
                 [=](const Term& x) { return images::crop(x, top, left, height, width); });
  });
  m.def("image_center_crop", [](std::int64_t height, std::int64_t width) {
    return plain("center_crop", images::center_crop(height, width),
                 [=](const Term& x) { return images::center_crop(x, height, width); });
  });
  m.def("image_pad", [](std::int64_t padding) {
    return plain("pad", images::pad(padding), [=](const Term& x) { return images::pad(x, padding); });
  });
  m.def("image_horizontal_flip", [] {
    return plain("horizontal_flip", images::horizontal_flip(),
                 [](const Term& x) { return images::horizontal_flip(x); });
  });
  m.def("image_random_crop", [](std::int64_t height, std::int64_t width, std::int64_t padding) {
    return random("random_crop", images::random_crop(height, width, padding),
                  [=](const Term& x) { return images::random_crop(x, height, width, padding); });
  });
  m.def("image_random_horizontal_flip", [](double p) {
    return random("random_horizontal_flip", images::random_horizontal_flip(p),
                  [=](const Term& x) { return images::random_horizontal_flip(x, p); });
  });
  m.def("image_cut_out", [](std::int64_t size) {
    return random("cut_out", images::cut_out(size), [=](const Term& x) { return images::cut_out(x, size); });
  });
  m.def(
      "image_resize",
      [](std::int64_t height, std::optional<std::int64_t> width, bool bicubic) {
        if (!width)
          return plain("resize", images::resize(height, bicubic),
                       [=](const Term& x) { return images::resize(x, height, bicubic); });
        return plain("resize", images::resize(height, *width, bicubic),
                     [=](const Term& x) { return images::resize(x, height, *width, bicubic); });
      },
      "height"_a, "width"_a.none(), "bicubic"_a);
  m.def("image_random_resized_crop", [](std::int64_t height, std::int64_t width, std::tuple<double, double> scale,
                                        std::tuple<double, double> ratio, bool bicubic) {
    const images::ResizedCropOptions part{std::get<0>(scale), std::get<1>(scale), std::get<0>(ratio),
                                          std::get<1>(ratio)};
    return random("random_resized_crop", images::random_resized_crop(height, width, part, bicubic),
                  [=](const Term& x) { return images::random_resized_crop(x, height, width, part, bicubic); });
  });
  m.def("image_normalize", [](const std::vector<float>& mean, const std::vector<float>& std, bool planes) {
    return plain("normalize", images::normalize(mean, std, planes),
                 [=](const Term& x) { return images::normalize(x, mean, std, planes); });
  });
  m.def("image_transpose", [](const std::vector<int>& axes) {
    return plain("transpose", images::transpose(axes), [=](const Term& x) { return images::transpose(x, axes); });
  });
  m.def("image_one_hot", [](std::int64_t classes, std::int64_t field) {
    return plain("one_hot", images::one_hot(classes, field),
                 [=](const Term& labels) { return images::one_hot(labels, classes); });
  });
  m.def("image_adjust_brightness", [](double factor) {
    return plain("adjust_brightness", images::adjust_brightness(factor),
                 [=](const Term& x) { return images::adjust_brightness(x, factor); });
  });
  m.def("image_adjust_contrast", [](double factor) {
    return plain("adjust_contrast", images::adjust_contrast(factor),
                 [=](const Term& x) { return images::adjust_contrast(x, factor); });
  });
  m.def("image_adjust_saturation", [](double factor) {
    return plain("adjust_saturation", images::adjust_saturation(factor),
                 [=](const Term& x) { return images::adjust_saturation(x, factor); });
  });
  m.def("image_color_jitter", [](double brightness, double contrast, double saturation) {
    return random("color_jitter", images::color_jitter(brightness, contrast, saturation),
                  [=](const Term& x) { return images::color_jitter(x, brightness, contrast, saturation); });
  });
  m.def("image_mix_up", [](double alpha) { return random("mix_up", images::mix_up(alpha), nullptr); });
  m.def(
      "image_mix_up_of_tensors",
      [](const Operand& x, const Operand& y, double alpha, const std::optional<Operand>& ratio) {
        images::MixedRows mixed = ratio ? images::mix_up(x, y, Term(*ratio)) : images::mix_up(x, y, alpha);
        return std::pair(Value(std::move(mixed.images)), Value(std::move(mixed.labels)));
      },
      "images"_a, "labels"_a, "alpha"_a, "ratio"_a.none());
  m.def("sound_decode", [] { return ImageFunction{"decode", decode_sound}; });
}

}  // namespace

void init_images(nb::module_& m) {
  nb::class_<ImageFunction>(m, "ImageFunction",
                            "A function of images, which data sets execute without the interpreter.")
      .def(
          "__call__",
          [](const ImageFunction& self, nb::args items,
             std::optional<std::tuple<std::uint64_t, std::int64_t, std::int64_t>> key) {
            if (!key) return call(self, items, std::nullopt);
            const auto [seed, epoch, index] = *key;
            return call(self, items, data::RandomKey{seed, epoch, index});
          },
          "items"_a, "key"_a.none() = nb::none())
      .def(
          "of_tensor",
          [](const ImageFunction& self, const Operand& image) {
            require(self.of_tensor != nullptr, self.name,
                    ": this function takes no tensors, because the shape of its result depends on the contents of the "
                    "file; call it in `map` of a data set");
            return Value(self.of_tensor(image));
          },
          "image"_a)
      .def_ro("name", &ImageFunction::name)
      .def_prop_ro("is_random", [](const ImageFunction& self) { return self.random != nullptr; });
  init_functions_of_images(m);
  m.def("encode_jpeg", [](nb::handle pixels, int quality) {
    const std::vector<std::uint8_t> file = data::encode_jpeg(host_array(pixels), quality);
    return nb::bytes(file.data(), file.size());
  });
  m.def("encode_png", [](nb::handle pixels) {
    const std::vector<std::uint8_t> file = data::encode_png(host_array(pixels));
    return nb::bytes(file.data(), file.size());
  });
  m.def("encode_wav", [](nb::handle samples, int rate) {
    const std::vector<std::uint8_t> file = data::encode_wav({host_array(samples), rate});
    return nb::bytes(file.data(), file.size());
  });
  m.def("image_folder_dataset",
        [](const nb::bytes& path, bool decode, int channels, bool orient, std::int64_t max_pixels,
           std::tuple<std::int64_t, std::int64_t> min_size, bool skip_errors, nb::object report) {
          const data::ImageFolderOptions options{decode, decode_options(channels, orient, max_pixels, min_size),
                                                 skip_errors, skip_report(std::move(report))};
          const std::string folder(path.c_str(), path.size());
          GilRelease without_gil;
          return data::from_image_folder(folder, options);
        });
  m.def("image_folder_classes", [](const nb::bytes& path) {
    nb::list out;
    for (const std::string& name : data::image_folder_classes({path.c_str(), path.size()}))
      out.append(nb::bytes(name.data(), name.size()));
    return out;
  });
}

}  // namespace karez::python

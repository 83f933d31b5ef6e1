// Tests of data sets of images in folders.
#include "karez/data/image_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "karez/base/test_error.h"
#include "karez/data/test_folder.h"

namespace karez::data {
namespace {

class ImageFolder : public ::testing::Test {
 protected:
  void put(const std::string& name, std::int64_t height) {
    std::filesystem::create_directories(std::filesystem::path(folder_.path(name)).parent_path());
    const HostArray pixels(TensorType{DType::u8, {height, 2, 1}});
    const std::vector<std::uint8_t> file =
        name.ends_with("png") ? encode_png(pixels) : encode_jpeg(pixels);  // 1 to 8 say which file it is
    folder_.put(name, {file.begin(), file.end()});
  }
  // "height:label" of each element.
  static std::string content(const Dataset& set) {
    std::string out;
    for (std::int64_t i = 0; i < set.size().value(); ++i) {
      const Element element = set.at(i);
      out += element.skipped
                 ? "- "
                 : cat(array_of(element).shape()[0], ":", array_of(element, 1).data<std::int64_t>()[0], " ");
    }
    return out;
  }

  TestFolder folder_;
};

TEST_F(ImageFolder, ClassesAndFilesAreSortedByName) {
  put("dog/b.jpg", 2);
  put("dog/a.png", 1);
  put("cat/more/z.JPEG", 4);
  put("cat/x.jpg", 3);
  folder_.put("cat/notes.txt", "not an image");
  folder_.put("file.png", "not in a class");
  for (const std::string& path : {folder_.path(""), folder_.path("").substr(0, folder_.path("").size() - 1)}) {
    EXPECT_EQ(content(from_image_folder(path)), "4:0 3:0 1:1 2:1 ");
    EXPECT_EQ(image_folder_classes(path), (std::vector<std::string>{"cat", "dog"}));
  }
}

TEST_F(ImageFolder, FilesCanBeLeftEncoded) {
  put("a/x.png", 1);
  const Element element = from_image_folder(folder_.path(""), {.decode = false}).at(0);
  const std::string file = folder_.content("a/x.png");
  EXPECT_EQ(array_of(element).shape(), (Shape{static_cast<std::int64_t>(file.size())}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(array_of(element).bytes()), file.size()), file);
}

TEST_F(ImageFolder, DamagedFilesAreErrorsOrSkipped) {
  put("a/1.png", 1);
  put("a/2.png", 2);
  put("a/4.png", 4);
  folder_.put("a/3.png", folder_.content("a/2.png").substr(0, 50));
  EXPECT_EQ(content(from_image_folder(folder_.path(""), {.skip_errors = true})), "1:0 2:0 - 4:0 ");
  const std::string error = error_of([&] { from_image_folder(folder_.path("")).at(2); });
  EXPECT_EQ(error.find(folder_.path("a/3.png") + ": the PNG image is damaged or truncated near byte 50 of 50"), 0u)
      << error;
}

TEST_F(ImageFolder, FoldersWithoutClassesOrImagesAreErrors) {
  EXPECT_EQ(error_of([&] { from_image_folder(folder_.path("none")); }),
            cat("from_image_folder: cannot list the folder \"", folder_.path("none"), "\": No such file or directory"));
  EXPECT_EQ(
      error_of([&] { from_image_folder(folder_.path("")); }),
      cat("from_image_folder: \"", folder_.path(""), "\" contains no folders; expected one folder for each class"));
  put("a/x.png", 1);
  std::filesystem::create_directories(folder_.path("b"));
  EXPECT_EQ(error_of([&] { from_image_folder(folder_.path("")); }),
            cat("from_image_folder: the class \"b\" in \"", folder_.path(""),
                "\" contains no .jpg, .jpeg, .png or .webp file"));
  EXPECT_EQ(error_of([&] { from_image_folder(folder_.path(""), {.decoding = {.channels = 5}}); }),
            "decode_image: channels must be 0 (as in the file), 1 or 3, got 5");
}

}  // namespace
}  // namespace karez::data

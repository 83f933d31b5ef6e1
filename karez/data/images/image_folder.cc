// Lists the classes and files of a folder of images, and reads them.
#include "karez/data/image_folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/data/images/record_errors.h"
#include "karez/data/open_file.h"

namespace karez::data {
namespace {
namespace fs = std::filesystem;

bool is_image(const fs::path& path) {
  std::string suffix = path.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  return suffix == ".jpg" || suffix == ".jpeg" || suffix == ".png" || suffix == ".webp";
}

// Calls visit(entry) for everything in a folder.
template <class Entries, class Visit> void list_folder(const fs::path& folder, Visit visit) {
  std::error_code error;
  Entries entries(folder, error);
  while (!error && entries != Entries()) {
    visit(*entries);
    entries.increment(error);
  }
  if (error)
    fail(ErrorKind::data, "from_image_folder: cannot list the folder ", quote(folder.string()), ": ", error.message());
}

HostArray read_file(const std::string& path) {
  const OpenFile file(path);
  const std::int64_t size = file.size();
  HostArray out(TensorType{DType::u8, {size}},
                std::make_shared_for_overwrite<std::byte[]>(static_cast<std::size_t>(size)));
  file.read_at(0, {out.bytes(), static_cast<std::size_t>(size)});
  return out;
}

}  // namespace

std::vector<std::string> image_folder_classes(const std::string& path) {
  std::vector<std::string> names;
  list_folder<fs::directory_iterator>(path, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    if (entry.is_directory(ignored)) names.push_back(entry.path().filename().string());
  });
  if (names.empty())
    fail(ErrorKind::data, "from_image_folder: ", quote(path),
         " contains no folders; expected one folder for each class");
  std::sort(names.begin(), names.end());
  return names;
}

Dataset from_image_folder(const std::string& path, const ImageFolderOptions& options) {
  check_options(options.decoding);
  const std::vector<std::string> classes = image_folder_classes(path);
  std::vector<std::string> files;
  for (const std::string& name : classes) {
    const std::size_t first = files.size();
    list_folder<fs::recursive_directory_iterator>(fs::path(path) / name, [&](const fs::directory_entry& entry) {
      std::error_code ignored;
      if (is_image(entry.path()) && !entry.is_directory(ignored)) files.push_back(entry.path().string());
    });
    if (files.size() <= first)
      fail(ErrorKind::data, "from_image_folder: the class ", quote(name), " in ", quote(path),
           " contains no .jpg, .jpeg, .png or .webp file");
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
  }
  // A label is found by the file's class, which follows the folder in its path.
  const std::size_t prefix = (fs::path(path) / "").string().size();
  const auto label_of = [classes, prefix](const std::string& file) {
    const std::string name = file.substr(prefix, file.find('/', prefix) - prefix);
    return std::lower_bound(classes.begin(), classes.end(), name) - classes.begin();
  };
  return from_files(std::move(files), [options, label_of,
                                       errors = RecordErrors("from_image_folder", options.skip_errors, options.report)](
                                          const std::string& file) {
    return errors.element([&] {
      HostArray image = read_file(file);
      if (options.decode) image = decode_image(image.data<std::uint8_t>(), options.decoding, file);
      return element({std::move(image), HostArray::of<std::int64_t>({}, {label_of(file)})});
    });
  });
}

}  // namespace karez::data

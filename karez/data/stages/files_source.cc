// The elements that a function makes from files.
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "karez/base/hash.h"
#include "karez/base/hex.h"
#include "karez/base/text.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/dataset_node.h"

namespace karez::data {
namespace {

using Paths = std::vector<std::string>;

bool exists(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0;
}

// The sorted matches of a pattern.
Paths matches_of(const std::string& pattern) {
  require(pattern.find("**") == pattern.npos, "from_files: ", quote(pattern),
          " contains '**', which is not supported; list the folders, as in \"data/*/*.png\"");
  struct Matches {
    glob_t list = {};
    ~Matches() { ::globfree(&list); }
  } matches;
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches.list);
  require(ErrorKind::data, result != GLOB_NOMATCH, "from_files: no file matches ", quote(pattern));
  require(ErrorKind::data, result == 0, "from_files: the files that match ", quote(pattern),
          " cannot be listed: ", result == GLOB_NOSPACE ? "out of memory" : "a folder cannot be read");
  Paths out(matches.list.gl_pathv, matches.list.gl_pathv + matches.list.gl_pathc);
  std::sort(out.begin(), out.end());
  return out;
}

Paths files_of(const Paths& patterns) {
  require(!patterns.empty(), "from_files: at least one path or pattern is needed");
  Paths out;
  for (const std::string& pattern : patterns) {
    require(!pattern.empty() && pattern.find('\0') == pattern.npos,
            "from_files: a path must not be empty or contain a zero byte, got ", quote(pattern));
    const bool is_path = pattern.find_first_of("*?[") == pattern.npos || exists(pattern);
    for (std::string& path : is_path ? Paths{pattern} : matches_of(pattern)) {
      struct stat status = {};
      if (::stat(path.c_str(), &status) != 0)
        fail(ErrorKind::data, "from_files: cannot read ", quote(path), ": ", std::strerror(errno));
      require(ErrorKind::data, !S_ISDIR(status.st_mode), "from_files: ", quote(path),
              " is a folder; a pattern for its files is ", quote(cat(path, path.ends_with('/') ? "*" : "/*")));
      out.push_back(std::move(path));
    }
  }
  return out;
}

// The length of the path of the last folder that contains all files, with its slash.
std::size_t common_folder(const Paths& paths) {
  std::size_t length = paths[0].find_last_of('/') + 1;  // 0 without a slash
  for (const std::string& path : paths)
    while (path.compare(0, length, paths[0], 0, length) != 0)
      length = length < 2 ? 0 : paths[0].find_last_of('/', length - 2) + 1;
  return length;
}

class FilesNode : public DatasetNode {
 public:
  FilesNode(Paths paths, std::function<Element(const std::string&)> read)
      : DatasetNode({}),
        paths_(std::move(paths)),
        read_(std::move(read)) {
    const std::size_t folder = common_folder(paths_);
    Hash hash;
    for (const std::string& path : paths_) hash.add(std::string_view(path).substr(folder));
    const std::uint64_t value = hash.value();
    name_ = cat("from_files(", paths_.size(), " files with hash ", hex_of(std::as_bytes(std::span(&value, 1))), ")");
  }
  std::string name() const override { return name_; }
  std::unique_ptr<StageBody> make_body() const override { return nullptr; }
  std::optional<std::int64_t> size() const override { return static_cast<std::int64_t>(paths_.size()); }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    Element out = read_(paths_[static_cast<std::size_t>(index)]);
    check_element(out, "from_files");
    out.epoch = epoch, out.index = index;
    return out;
  }

 private:
  Paths paths_;
  std::function<Element(const std::string&)> read_;
  std::string name_;
};

}  // namespace

Dataset from_files(std::vector<std::string> patterns, std::function<Element(const std::string& path)> read) {
  require(read != nullptr, "from_files: the function must not be null");
  return Dataset(std::make_shared<FilesNode>(files_of(patterns), std::move(read)));
}

}  // namespace karez::data

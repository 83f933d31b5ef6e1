// Lists the files that paths and patterns select.
#include "karez/data/stages/file_list.h"

#include <dirent.h>
#include <fnmatch.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include "karez/base/error.h"
#include "karez/base/hash.h"
#include "karez/base/hex.h"
#include "karez/base/text.h"

namespace karez::data {
namespace {

using Paths = std::vector<std::string>;

// A path, and whether the folder that contains it says that it is a regular file. Of a million files, one call of stat
// for each would take most of the time.
struct Match {
  std::string path;
  bool is_file = false;
};
using Matches = std::vector<Match>;

bool exists(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0;
}

// The folders, with a slash at the end, that the part of a pattern before its last slash selects; one of "" if there is
// no slash.
Paths folders_of(std::string_view function, const std::string& pattern) {
  const std::string folder = pattern.substr(0, pattern.find_last_of('/') + 1);
  if (folder.find_first_of("*?[\\") == folder.npos) return {folder};
  struct Found {
    glob_t list = {};
    ~Found() { ::globfree(&list); }
  } found;
  const int result = ::glob(folder.c_str(), GLOB_NOSORT | GLOB_ONLYDIR, nullptr, &found.list);
  if (result != 0 && result != GLOB_NOMATCH)
    fail(ErrorKind::data, function, ": the folders that match ", quote(folder),
         " cannot be listed: ", result == GLOB_NOSPACE ? "out of memory" : "a folder cannot be read");
  if (result == GLOB_NOMATCH) return {};
  return {found.list.gl_pathv, found.list.gl_pathv + found.list.gl_pathc};
}

// The sorted matches of a pattern.
Matches matches_of(std::string_view function, const std::string& pattern) {
  if (pattern.find("**") != pattern.npos)
    fail(function, ": ", quote(pattern),
         " contains '**', which is not supported; list the folders, as in \"data/*/*.png\"");
  const std::string name = pattern.substr(pattern.find_last_of('/') + 1);
  Matches out;
  for (const std::string& folder : folders_of(function, pattern)) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.empty() ? "." : folder.c_str()), ::closedir);
    if (!open) continue;  // a folder that cannot be read has no matches, as in a shell
    while (const dirent* entry = ::readdir(open.get()))
      if (::fnmatch(name.c_str(), entry->d_name, FNM_PERIOD) == 0)
        out.push_back({folder + entry->d_name, entry->d_type == DT_REG});
  }
  if (out.empty()) fail(ErrorKind::data, function, ": no file matches ", quote(pattern));
  std::sort(out.begin(), out.end(), [](const Match& a, const Match& b) { return a.path < b.path; });
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

}  // namespace

std::vector<std::string> files_of(std::string_view function, const std::vector<std::string>& patterns) {
  require(!patterns.empty(), function, ": at least one path or pattern is needed");
  Paths out;
  for (const std::string& pattern : patterns) {
    if (pattern.empty() || pattern.find('\0') != pattern.npos)
      fail(function, ": a path must not be empty or contain a zero byte, got ", quote(pattern));
    const bool is_path = pattern.find_first_of("*?[") == pattern.npos || exists(pattern);
    for (auto& [path, is_file] : is_path ? Matches{{pattern}} : matches_of(function, pattern)) {
      if (is_file) {
        out.push_back(std::move(path));
        continue;
      }
      struct stat status = {};
      if (::stat(path.c_str(), &status) != 0)
        fail(ErrorKind::data, function, ": cannot read ", quote(path), ": ", std::strerror(errno));
      if (S_ISDIR(status.st_mode))
        fail(ErrorKind::data, function, ": ", quote(path), " is a folder; a pattern for its files is ",
             quote(cat(path, path.ends_with('/') ? "*" : "/*")));
      out.push_back(std::move(path));
    }
  }
  return out;
}

std::string file_list_text(const std::vector<std::string>& paths) {
  const std::size_t folder = common_folder(paths);
  Hash hash;
  for (const std::string& path : paths) hash.add(std::string_view(path).substr(folder));
  const std::uint64_t value = hash.value();
  return cat(paths.size(), paths.size() == 1 ? " file" : " files", " with hash ",
             hex_of(std::as_bytes(std::span(&value, 1))));
}

}  // namespace karez::data

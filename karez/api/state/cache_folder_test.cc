// Tests of the folder for cached plans: damaged files, access rights, several processes, and the size limit.
#include "karez/api/state/cache_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>

#include "karez/api/testing/test_cache.h"

namespace karez {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

int lines(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

// Returns the value that is found, and the text written to standard error.
std::pair<std::optional<std::string>, std::string> find_value(const fs::path& folder, std::string_view key) {
  CacheFolder cache(folder);
  testing::internal::CaptureStderr();
  auto value = cache.find(key);
  return {std::move(value), testing::internal::GetCapturedStderr()};
}

TEST(CacheFolder, AValueStoredByOneCacheIsFoundByAnother) {
  TemporaryCache test;
  CacheFolder(test.path).store("a program", std::string("its\0plan", 8));
  EXPECT_EQ(find_value(test.path, "a program").first, std::string("its\0plan", 8));
  EXPECT_EQ(find_value(test.path, "another program"), std::pair(std::optional<std::string>(), std::string()));
  CacheFolder(test.path).store("a program", "");
  EXPECT_EQ(find_value(test.path, "a program").first, "");
  EXPECT_EQ(test.files().size(), 1u);
}

TEST(CacheFolder, AnyTruncationAndAnyFlippedBitIsDetected) {
  TemporaryCache test;
  CacheFolder(test.path).store("key", "some value");
  const fs::path file = test.files().at(0);
  const std::string original = read(file);
  for (std::size_t bytes = 0; bytes < original.size(); ++bytes) {
    write(file, original.substr(0, bytes));
    auto [value, message] = find_value(test.path, "key");
    EXPECT_FALSE(value) << bytes;
    EXPECT_EQ(lines(message), 1) << message;
  }
  for (std::size_t bit = 0; bit < 8 * original.size(); ++bit) {
    std::string damaged = original;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    write(file, damaged);
    auto [value, message] = find_value(test.path, "key");
    EXPECT_TRUE(!value || *value == "some value") << bit;
    EXPECT_EQ(lines(message), value ? 0 : 1) << message;
  }
  write(file, original + "more");
  EXPECT_FALSE(find_value(test.path, "key").first);
  write(file, original);
  EXPECT_EQ(find_value(test.path, "key").first, "some value");
}

TEST(CacheFolder, AFileWithAnotherKeyIsRejected) {
  TemporaryCache test;
  CacheFolder(test.path).store("one", "value of one");
  const fs::path file_of_one = test.files().at(0);
  const std::string bytes = read(file_of_one);
  fs::remove(file_of_one);
  CacheFolder(test.path).store("two", "value of two");
  write(test.files().at(0), bytes);
  auto [value, message] = find_value(test.path, "two");
  EXPECT_FALSE(value);
  EXPECT_THAT(message, HasSubstr("belongs to another program or another build of Karez; it is made again"));
  CacheFolder(test.path).store("two", "value of two");
  EXPECT_EQ(find_value(test.path, "two").first, "value of two");
}

TEST(CacheFolder, ASymbolicLinkOrAFolderInPlaceOfAFileIsRejected) {
  TemporaryCache test;
  CacheFolder(test.path).store("key", "value");
  const fs::path file = test.files().at(0), moved = test.path / "elsewhere";
  fs::rename(file, moved);
  fs::create_symlink(moved, file);
  EXPECT_FALSE(find_value(test.path, "key").first);
  fs::remove(file);
  fs::create_directory(file);
  auto [value, message] = find_value(test.path, "key");
  EXPECT_FALSE(value);
  EXPECT_EQ(lines(message), 1) << message;
}

TEST(CacheFolder, AFolderThatOthersMayAccessIsRejectedWithOneWarning) {
  TemporaryCache test;
  for (const mode_t mode : {0755u, 0770u, 0701u, 0500u}) {
    ASSERT_EQ(::chmod(test.path.c_str(), mode), 0);
    CacheFolder cache(test.path);
    testing::internal::CaptureStderr();
    cache.store("key", "value");
    EXPECT_FALSE(cache.find("key"));
    cache.store("key", "value");
    const std::string message = testing::internal::GetCapturedStderr();
    EXPECT_EQ(lines(message), 1) << message;
    EXPECT_THAT(message, HasSubstr("chmod 700 fixes this")) << mode;
    EXPECT_TRUE(test.files().empty());
  }
  ASSERT_EQ(::chmod(test.path.c_str(), 0700), 0);
}

TEST(CacheFolder, AFolderThatCannotBeCreatedGivesOneWarning) {
  TemporaryCache test;
  write(test.path / "file", "");
  CacheFolder cache(test.path / "file" / "below");
  testing::internal::CaptureStderr();
  cache.store("key", "value");
  EXPECT_FALSE(cache.find("key"));
  EXPECT_EQ(lines(testing::internal::GetCapturedStderr()), 1);
}

TEST(CacheFolder, TheFolderIsAccessibleOnlyByItsOwner) {
  TemporaryCache test;
  const fs::path below = test.path / "a" / "b";
  CacheFolder(below).store("key", "value");
  EXPECT_EQ(fs::status(below).permissions() & fs::perms::all, fs::perms::owner_all);
  EXPECT_EQ(find_value(below, "key").first, "value");
}

TEST(CacheFolder, TheLeastRecentlyUsedFilesAreRemoved) {
  TemporaryCache test;
  constexpr std::int64_t limit = 100'000;
  auto key = [](int i) { return base::cat("key ", i); };
  const std::string value(8'000, 'v');
  using Clock = fs::file_time_type::clock;
  for (int i = 0; i < 10; ++i) CacheFolder(test.path, 2 * limit).store(key(i), value + key(i));
  for (const fs::path& file : test.files()) {  // makes all files old; a file with a larger key is less old
    const std::string bytes = read(file);
    fs::last_write_time(file, Clock::now() - std::chrono::hours(100 - (bytes.back() - '0')));
  }
  EXPECT_TRUE(CacheFolder(test.path, limit).find(key(1)))
      << "the file must still exist; this also marks it as just used";
  CacheFolder cache(test.path, limit);
  for (int i = 10; i < 16; ++i) cache.store(key(i), value + key(i));
  std::int64_t bytes = 0;
  for (const fs::path& file : test.files()) bytes += static_cast<std::int64_t>(fs::file_size(file));
  EXPECT_LE(bytes, limit);
  EXPECT_GE(bytes, limit / 2);
  EXPECT_TRUE(cache.find(key(1)));
  EXPECT_TRUE(cache.find(key(15)));
  for (int removed : {0, 2, 3}) EXPECT_FALSE(cache.find(key(removed))) << removed;
  cache.store("large", std::string(limit / 4, 'x'));
  EXPECT_FALSE(cache.find("large")) << "a value that would take too large a part of the folder must not be stored";
}

TEST(CacheFolder, TemporaryFilesOfEndedProcessesAreRemoved) {
  TemporaryCache test;
  for (const char* name : {"aside-1-2", "aside-3-4", "notes.txt"}) write(test.path / name, "half");
  fs::last_write_time(test.path / "aside-1-2", fs::file_time_type::clock::now() - std::chrono::hours(2));
  CacheFolder(test.path).store("key", "value");
  EXPECT_FALSE(fs::exists(test.path / "aside-1-2"));
  EXPECT_TRUE(fs::exists(test.path / "aside-3-4"))
      << "a recent temporary file must be kept, because a process may still write it";
  EXPECT_TRUE(fs::exists(test.path / "notes.txt"));
}

// Writes and reads the same keys as the other processes, in a folder that is too small for all of the values. Returns 0
// if every value that it finds is correct.
int share_folder(const fs::path& folder) {
  CacheFolder cache(folder, 200'000);
  for (int turn = 0; turn < 300; ++turn) {
    const std::string key = base::cat("key ", turn % 12),
                      value(10'000 + 100 * (turn % 12), static_cast<char>('a' + turn % 12));
    if (const auto cached = cache.find(key); cached && *cached != value) return 1;
    cache.store(key, value);
  }
  return 0;
}

TEST(CacheFolder, FourProcessesCanShareAFolder) {
  TemporaryCache test;
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(share_folder(test.path));
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const fs::path& file : test.files()) EXPECT_TRUE(file.filename().string().ends_with(".plan")) << file;
}

TEST(CacheFolder, TheEnvironmentSetsThePath) {
  TemporaryCache test;
  const std::string caches = std::getenv("XDG_CACHE_HOME") == nullptr ? "" : std::getenv("XDG_CACHE_HOME");
  EXPECT_EQ(cache_path(), test.path);
  ::setenv("KAREZ_CACHE", "off", 1);
  EXPECT_EQ(cache_path(), "");
  ::setenv("KAREZ_CACHE", "plans", 1);
  EXPECT_EQ(cache_path(), fs::absolute("plans"));
  ::unsetenv("KAREZ_CACHE");
  ::setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(cache_path(), "/caches/karez");
  ::setenv("XDG_CACHE_HOME", "no/path/from/the/root", 1);
  const char* home = std::getenv("HOME");
  EXPECT_EQ(cache_path(), home == nullptr ? std::string() : base::cat(home, "/.cache/karez"));
  if (caches.empty()) ::unsetenv("XDG_CACHE_HOME");
  else ::setenv("XDG_CACHE_HOME", caches.c_str(), 1);
}

}  // namespace
}  // namespace karez

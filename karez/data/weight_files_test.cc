// Tests of weight files: atomic writes, reads of parts, and errors for damaged files.
#include "karez/data/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "karez/base/test_error.h"
#include "karez/data/weight_writer.h"

namespace karez::data {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class Folder : public ::testing::Test {
 protected:
  Folder() : folder_(fs::path(::testing::TempDir()) / ("karez_weights_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Folder() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_)) out.push_back(entry.path().filename());
    return out;
  }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(at(name), std::ios::binary) << bytes;
  }
  // Makes the bytes of a file without the writer.
  static std::string image(std::string header, const std::string& data) {
    std::string length;
    for (int i = 0; i < 8; ++i) length += static_cast<char>(header.size() >> (8 * i) & 255);
    return length + header + data;
  }
  // Makes a file of one I32 matrix [2, 3] with the numbers 1 to 6.
  static std::string matrix(const std::string& name) {
    std::string data;
    for (char c = 1; c <= 6; ++c) data += std::string{c, 0, 0, 0};
    return image("{\"" + name + "\":{\"dtype\":\"I32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", data);
  }

 private:
  fs::path folder_;
};

std::span<const std::byte> bytes_of_text(const std::string& text) { return std::as_bytes(std::span(text)); }
template <class T> std::vector<T> list(const HostArray& array) {
  return {array.data<T>().begin(), array.data<T>().end()};
}

using WeightFile = Folder;

TEST_F(WeightFile, TensorsAreReadByName) {
  put("m.safetensors", image("{\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"a\":{\"dtype\":"
                             "\"BOOL\",\"shape\":[3],\"data_offsets\":[8,11]},"
                             "\"__metadata__\":{\"k\":\"v\"}}",
                             std::string("\0\0\x80\x3f\0\0\0\xc0\1\0\1", 11)));
  const WeightFiles file(at("m.safetensors"));
  ASSERT_EQ(file.entries().size(), 2u);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.notes(), (WeightNotes{{"k", "v"}}));
  EXPECT_THAT(list<bool>(array_of(file.entries()[0], {}, DType::b8, file.read(file.entries()[0]))),
              ElementsAre(true, false, true));
  EXPECT_THAT(list<float>(array_of(file.entries()[1], {}, DType::f32, file.read(file.entries()[1]))),
              ElementsAre(1.f, -2.f));
}

TEST_F(WeightFile, PartsAreReadAndMatricesTransposed) {
  put("m.safetensors", matrix("w"));
  const WeightFiles file(at("m.safetensors"));
  const WeightEntry& w = file.entries()[0];
  const auto bytes_read = file.read(w);
  const auto read_part = [&](const WeightPart& part) {
    return list<std::int32_t>(array_of(w, part, DType::i32, bytes_read));
  };
  EXPECT_THAT(read_part({}), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(read_part({.transposed = true}), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(shape_of(w, {.transposed = true}), (Shape{3, 2}));
  EXPECT_THAT(read_part({.part = 1, .parts = 2}), ElementsAre(4, 5, 6));
  EXPECT_THAT(read_part({.part = 1, .parts = 3, .axis = 1}), ElementsAre(2, 5));
  EXPECT_THAT(read_part({.transposed = true, .part = 1, .parts = 2}), ElementsAre(4, 5, 6));
  EXPECT_EQ(shape_of(w, {.transposed = true, .part = 1, .parts = 2}), (Shape{3, 1}));
  EXPECT_EQ(error_of([&] { shape_of(w, {.part = 0, .parts = 2, .axis = 1}); }),
            "tensor \"w\" I32[2, 3] cannot be split into 2 equal parts along axis 1");
  EXPECT_EQ(error_of([&] { shape_of(w, {.part = 0, .parts = 2, .axis = 2}); }),
            "tensor \"w\" I32[2, 3] has no axis 2 to split");
  EXPECT_EQ(error_of([&] { shape_of(w, {.part = 2, .parts = 2}); }),
            "tensor \"w\" I32[2, 3]: part 2 of 2 does not exist");
  EXPECT_EQ(error_of([&] {
              shape_of({"v", "F32", {4}}, {.transposed = true});
            }),
            "tensor \"v\" F32[4] must have two dimensions to be transposed");
  EXPECT_EQ(error_of([&] { array_of(w, {}, DType::i64, bytes_read); }),
            "tensor \"w\" has dtype I32 and cannot be read as i64");
}

TEST_F(WeightFile, NumbersOf16BitsAreWidened) {
  const WeightEntry halves{"h", "F16", {2, 2}, 0, 8}, bfloats{"b", "BF16", {2}, 0, 4};
  const std::string h("\0\x3c\0\xc0\0\x38\x01\0", 8), b("\x80\x3f\x20\xc1", 4);  // 1, -2, 0.5, 2^-24; 1, -10
  const auto bytes = [](const std::string& text) {
    return std::vector<std::byte>(bytes_of_text(text).begin(), bytes_of_text(text).end());
  };
  EXPECT_THAT(list<float>(array_of(halves, {}, DType::f32, bytes(h))), ElementsAre(1.f, -2.f, 0.5f, 0x1p-24f));
  EXPECT_THAT(list<double>(array_of(halves, {.transposed = true}, DType::f64, bytes(h))),
              ElementsAre(1., 0.5, -2., 0x1p-24));
  EXPECT_THAT(list<float>(array_of(bfloats, {.part = 1, .parts = 2}, DType::f32, bytes(b))), ElementsAre(-10.f));
  EXPECT_FALSE(is_representable(halves, DType::i32));
  EXPECT_FALSE(is_representable({"f", "F32", {2}}, DType::f64)) << "f32 numbers must not be read as f64";
}

TEST_F(WeightFile, ABoolMustBeZeroOrOne) {
  EXPECT_EQ(error_of([] {
              array_of({"b", "BOOL", {2}, 0, 2}, {}, DType::b8, {std::byte{1}, std::byte{7}});
            }),
            "tensor \"b\": element 1 of a BOOL tensor must be 0 or 1, got 7");
}

TEST_F(WeightFile, OnlyValidRegularFilesAreAccepted) {
  EXPECT_THAT(error_of([&] { WeightFiles file(at("none")); }), HasSubstr("none: No such file or directory"));
  EXPECT_THAT(error_of([&] { WeightFiles file(at("")); }), HasSubstr("it is not a regular file"));
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { WeightFiles file(at("pipe")); }), HasSubstr("it is not a regular file"));
  const std::string complete_file = matrix("w");
  for (std::size_t bytes = 0; bytes < complete_file.size(); ++bytes) {
    put("cut", complete_file.substr(0, bytes));
    EXPECT_NE(error_of([&] { WeightFiles file(at("cut")); }), "no error") << bytes;
  }
}

TEST_F(WeightFile, AFileThatIsTruncatedAfterItWasOpenedIsReported) {
  put("m", matrix("w"));
  const WeightFiles file(at("m"));
  fs::resize_file(at("m"), fs::file_size(at("m")) - 4);
  EXPECT_THAT(error_of([&] { file.read(file.entries()[0]); }),
              HasSubstr("but 4 more bytes are expected; it was truncated after it was opened"));
}

TEST_F(WeightFile, TheOldFileIsStillReadAfterItsPathIsReplaced) {
  put("m", matrix("w"));
  const WeightFiles file(at("m"));
  put("other", matrix("v"));
  fs::rename(at("other"), at("m"));
  EXPECT_EQ(file.read(file.entries()[0]).size(), 24u);
  EXPECT_EQ(file.entries()[0].name, "w");
}

TEST_F(WeightFile, AnIndexListsSeveralFiles) {
  put("m-1.safetensors", matrix("a"));
  put("m-2.safetensors", matrix("b"));
  const auto index = [&](const std::string& map) {
    put("m.safetensors.index.json", "{\"metadata\":{\"total_size\":48},\"weight_map\":{" + map + "}}");
    return at("m.safetensors.index.json");
  };
  const WeightFiles files(index(R"("a":"m-1.safetensors","b":"m-2.safetensors")"));
  ASSERT_EQ(files.entries().size(), 2u);
  EXPECT_EQ(files.entries()[1].name, "b");
  EXPECT_EQ(files.read(files.entries()[1]).size(), 24u);
  const auto error = [&](const std::string& map) { return error_of([&] { WeightFiles wrong(index(map)); }); };
  EXPECT_THAT(error(R"("a":"m-1.safetensors","b":"m-1.safetensors")"), HasSubstr("m-1.safetensors: "));
  EXPECT_THAT(error(R"("a":"m-1.safetensors","b":"m-1.safetensors")"), HasSubstr("lists in it; there is 1: a"));
  EXPECT_THAT(error(R"("a":"m-2.safetensors","b":"m-1.safetensors")"), HasSubstr("the file has tensor \""));
  EXPECT_THAT(error(R"("c":"m-1.safetensors")"), HasSubstr("m-1.safetensors: the file has tensor \"a\", which "));
  EXPECT_THAT(error(R"("a":"m-3.safetensors")"), HasSubstr("m-3.safetensors: No such file"));
  EXPECT_THAT(error(R"("a":"../m-1.safetensors")"), HasSubstr("is not a file in the folder of the index"));
}

using Writer = Folder;

TEST_F(Writer, ThePathHasTheOldBytesUntilAllNewBytesAreWritten) {
  put("m", "old");
  {
    WeightWriter writer(at("m"), {{"w", "F32", {2}}, {"v", "BOOL", {1}}}, {});
    writer.write(bytes_of_text("12345678"));
    EXPECT_EQ(content(at("m")), "old");
    EXPECT_EQ(names().size(), 2u) << "the new bytes must be in a temporary file in the same folder";
    EXPECT_THAT(error_of([&] { writer.commit(); }), HasSubstr("only 1 of 2 tensors were written"));
    EXPECT_THAT(error_of([&] { writer.write(bytes_of_text("12")); }),
                HasSubstr("tensor \"v\" takes 1 bytes, but 2 were given"));
  }
  EXPECT_THAT(names(), UnorderedElementsAre("m")) << "a destroyed writer must leave no file";
  EXPECT_EQ(content(at("m")), "old");
  WeightWriter writer(at("m"), {{"w", "F32", {2}}}, {{"k", "v"}});
  writer.write(bytes_of_text("12345678"));
  writer.commit();
  EXPECT_THAT(names(), UnorderedElementsAre("m"));
  const WeightFiles file(at("m"));
  EXPECT_EQ(file.read(file.entries()[0]).size(), 8u);
  EXPECT_EQ(file.notes().at("k"), "v");
  EXPECT_THAT(content(at("m")), ::testing::EndsWith("12345678"));
}

// Flips at least one bit of each byte, or every bit with --all.
TEST_F(Writer, EveryByteOfAFileIsCheckedWhenItIsRead) {
  {
    WeightWriter writer(at("m"), {{"w", "F32", {3, 2}}, {"none", "F32", {0}}, {"v", "BOOL", {3}}},
                        {{"k", "v"}, {"karez.position", "17"}});
    writer.write(bytes_of_text(std::string(24, 'x')));
    writer.write({});
    writer.write(bytes_of_text(std::string("\1\0\1", 3)));
    writer.commit();
  }
  const std::string bytes = content(at("m"));
  const auto read = [&] { return error_of([&] { WeightFiles(at("m")).check_bytes(); }); };
  ASSERT_EQ(read(), "no error");
  const std::size_t step = std::getenv("KAREZ_ALL") != nullptr ? 1 : 7;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += step) {
    std::string damaged = bytes;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    put("m", damaged);
    EXPECT_NE(read(), "no error") << "bit " << bit % 8 << " of byte " << bit / 8;
  }
  const auto error_after_replacing = [&](const std::string& original, const std::string& replacement) {
    std::string changed = bytes;
    changed.replace(changed.find(original), original.size(), replacement);
    put("m", changed);
    return read();
  };
  EXPECT_THAT(error_after_replacing("xxxx", "xxyx"),
              HasSubstr("m: the bytes of tensor \"w\" do not match their checksum: the file is damaged"));
  EXPECT_THAT(error_after_replacing("[3,2]", "[2,3]"),
              HasSubstr("m: the header does not match its checksum: the file is damaged, or another program"));
  EXPECT_THAT(error_after_replacing("\"17\"", "\"71\""), HasSubstr("the header does not match its checksum"));
  EXPECT_THAT(error_after_replacing("karez.header", "karez.holder"),
              HasSubstr("the header does not match its checksum"));
  EXPECT_THAT(error_after_replacing("karez.checksums", "karez.nothing!!"),
              HasSubstr("the header does not match its checksum"));
}

TEST_F(Writer, OnlyTheTemporaryFilesOfKilledWritersAreRemoved) {
  std::vector<std::string> leftover_files;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const WeightWriter writer(at("m"), {{"w", "F32", {2}}}, {});
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ASSERT_EQ(names().size(), 1u) << "the second child must remove the file that the first one left";
    EXPECT_NE(names()[0], leftover_files.empty() ? "" : leftover_files.back());
    leftover_files.push_back(names()[0]);
  }
  for (const char* other_name : {"m.writing-1", "m.writing-1-", "m.writing--1", "m.writing-1-x", "n.writing-1-1",
                                 "mm.writing-1-1", "m.writing-1-1.old"})
    put(other_name, "");
  fs::create_directory(at("m.writing-2-2"));
  const std::size_t other_count = names().size() - 1;
  {
    WeightWriter first_writer(at("m"), {}, {});
    EXPECT_EQ(names().size(), other_count + 1) << "the writer must remove the stale file and add one";
    WeightWriter second_writer(at("m"), {}, {});
    EXPECT_EQ(names().size(), other_count + 2) << "the file of a writer that exists must not be removed";
    first_writer.commit();
    second_writer.commit();
  }
  EXPECT_EQ(names().size(), other_count + 1);
  EXPECT_THAT(names(), ::testing::Contains("m"));
}

TEST_F(Writer, NoDescriptorStaysOpen) {
  auto open = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()); };
  const auto initial_count = open();
  for (int i = 0; i < 3; ++i) WeightWriter(at("m"), {}, {}).commit();
  { WeightWriter dropped(at("m"), {}, {}); }
  EXPECT_EQ(open(), initial_count);
}

TEST_F(Writer, APathWithoutAFolderIsInTheWorkingDirectory) {
  const fs::path old_folder = fs::current_path();
  fs::current_path(at(""));
  const std::string error = error_of([] { WeightWriter("m", {}, {}).commit(); });
  fs::current_path(old_folder);
  EXPECT_EQ(error, "no error");
  EXPECT_THAT(names(), UnorderedElementsAre("m"));
}

TEST_F(Writer, AFullDiskAndAMissingFolderAreErrorsThatKeepTheOldFile) {
  put("m", "old");
  EXPECT_THAT(error_of([&] { WeightWriter writer(at("no/folder/m"), {}, {}); }),
              HasSubstr("No such file or directory"));
  struct rlimit old_limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {4096, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of([&] {
    WeightWriter writer(at("m"), {{"w", "F32", {2048}}}, {});
    writer.write(bytes_of_text(std::string(8192, 'x')));
    writer.commit();
  });
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(error, HasSubstr("File too large"));
  EXPECT_EQ(content(at("m")), "old");
  EXPECT_THAT(names(), UnorderedElementsAre("m"));
  fs::create_directories(at("is_a_folder/with_something"));
  EXPECT_THAT(error_of([&] { WeightWriter(at("is_a_folder"), {}, {}).commit(); }), HasSubstr("cannot write "));
  EXPECT_THAT(names(), UnorderedElementsAre("m", "is_a_folder"));
}

}  // namespace
}  // namespace karez::data

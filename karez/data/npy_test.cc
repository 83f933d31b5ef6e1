// Tests of reading .npy files: valid files, as NumPy writes them, and damaged files.
#include "karez/data/npy.h"

#include <gtest/gtest.h>

namespace karez::data {
namespace {

std::string npy(const std::string& header, const std::string& content, char version = 1) {
  std::string out = std::string("\x93NUMPY", 6) + version + '\0';
  const std::size_t size = header.size() + 1;
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(size >> (8 * i) & 255);
  return out + header + "\n" + content;
}
template <class T> std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string error_of(const std::string& file) {
  try {
    parse_npy(file, "a.npy");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::data);
    return error.what();
  }
  return "no error";
}

template <class T> std::vector<T> values(const HostArray& array) {
  return {array.data<T>().begin(), array.data<T>().end()};
}

TEST(Npy, AnArrayKeepsItsTypeShapeAndElements) {
  const auto a = parse_npy(
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", bytes_of<float>({1, 2, 3, 4, 5, 6})), "a.npy");
  EXPECT_EQ(a.type(), (TensorType{DType::f32, {2, 3}}));
  EXPECT_EQ(values<float>(a), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, EveryTypeIsReadByItsName) {
  const std::pair<const char*, DType> types[] = {{"<f4", DType::f32}, {"<f8", DType::f64}, {"<i4", DType::i32},
                                                 {"<i8", DType::i64}, {"|b1", DType::b8},  {"<f2", DType::f16}};
  for (const auto& [name, dtype] : types) {
    const std::string header = cat("{'descr': '", name, "', 'fortran_order': False, 'shape': (1,), }");
    EXPECT_EQ(parse_npy(npy(header, std::string(static_cast<std::size_t>(size_of(dtype)), '\1')), "a.npy").dtype(),
              dtype);
  }
}

TEST(Npy, FortranOrderIsConverted) {
  const auto a = parse_npy(
      npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }", bytes_of<std::int32_t>({1, 4, 2, 5, 3, 6})),
      "a.npy");
  EXPECT_EQ(values<std::int32_t>(a), (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, ScalarsEmptyArraysAndLaterVersionsAreRead) {
  EXPECT_EQ(parse_npy(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", bytes_of<double>({2.5})), "a.npy")
                .data<double>()[0],
            2.5);
  EXPECT_EQ(parse_npy(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", "\x05\xff"), "a.npy")
                .data<std::uint8_t>()[1],
            255);
  EXPECT_EQ(parse_npy(npy("{\"descr\": \"<f8\", \"fortran_order\": False, \"shape\": (0, 4)}", ""), "a.npy").shape(),
            (Shape{0, 4}));
  for (char version : {2, 3})
    EXPECT_EQ(parse_npy(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", bytes_of<std::int64_t>({7}),
                            version),
                        "a.npy")
                  .count(),
              1);
}

TEST(Npy, ErrorsNameTheFileAndTheFault) {
  const std::string valid_header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
                    two_floats = bytes_of<float>({1, 2});
  EXPECT_EQ(error_of(""), "a.npy: not a .npy file: it does not begin with the magic number");
  EXPECT_EQ(error_of("PK\3\4 and so on"), "a.npy: not a .npy file: it does not begin with the magic number");
  EXPECT_EQ(error_of(npy(valid_header, two_floats, 4)), "a.npy: unsupported .npy version 4; expected 1, 2 or 3");
  EXPECT_EQ(error_of(npy(valid_header, two_floats).substr(0, 20)),
            "a.npy: the header should have 58 bytes, but only 10 follow");
  EXPECT_EQ(error_of(npy(valid_header, two_floats + "x")), "a.npy: f32[2] takes 8 bytes, but the file has 9");
  EXPECT_EQ(error_of(npy(valid_header, two_floats.substr(1))), "a.npy: f32[2] takes 8 bytes, but the file has 7");
  EXPECT_EQ(error_of(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", two_floats)),
            "a.npy: unsupported element type '>f4'; expected <f2, <f4, <f8, <i4, <i8, |b1 or |u1");
  EXPECT_EQ(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", two_floats)),
            "a.npy: line 1, column 54: a size must not be negative at ',), }'");
  EXPECT_EQ(error_of(npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", two_floats)),
            "a.npy: line 1, column 35: expected 'False' at '0, 'shape': (2,), }'");
  EXPECT_EQ(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", two_floats)),
            "a.npy: size overflows 64 bits: 4611686018427387904 x 4");
  EXPECT_EQ(error_of(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", two_floats)),
            "a.npy: line 1, column 11: expected '\"' at '[('a', '<f4')], 'fortran_order': False, '");
}

}  // namespace
}  // namespace karez::data

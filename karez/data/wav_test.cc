// Tests of WAV files: values of several formats, and damaged files.
#include "karez/data/wav.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "karez/base/test_error.h"

namespace karez::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

// A file as its specification describes it: `format` is 1 for integers and 3 for floats.
Bytes wav_of(int format, int channels, int rate, int bits, const Bytes& samples) {
  Bytes out;
  const auto text = [&](const char* word) { out.insert(out.end(), word, word + 4); };
  const auto number = [&](std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<std::uint8_t>(value >> 8 * i));
  };
  const auto size = static_cast<std::uint32_t>(samples.size());
  text("RIFF"), number(36 + size, 4), text("WAVE"), text("fmt "), number(16, 4);
  number(static_cast<std::uint32_t>(format), 2), number(static_cast<std::uint32_t>(channels), 2);
  number(static_cast<std::uint32_t>(rate), 4), number(static_cast<std::uint32_t>(rate * channels * bits / 8), 4);
  number(static_cast<std::uint32_t>(channels * bits / 8), 2), number(static_cast<std::uint32_t>(bits), 2);
  text("data"), number(size, 4);
  out.insert(out.end(), samples.begin(), samples.end());
  return out;
}

std::vector<float> values(const HostArray& array) { return {array.data<float>().begin(), array.data<float>().end()}; }

std::string decode_error(const Bytes& file) {
  try {
    decode_wav(file, "a.wav");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::data);
    return error.what();
  }
  return "";
}

TEST(Wav, IntegersAreDividedByTheirLargestPowerOfTwo) {
  const Sound bytes = decode_wav(wav_of(1, 1, 8000, 8, {0, 128, 192, 255}));
  EXPECT_EQ(bytes.samples.shape(), (Shape{4, 1}));
  EXPECT_EQ(bytes.rate, 8000);
  EXPECT_EQ(values(bytes.samples), (std::vector<float>{-1, 0, 0.5f, 127 / 128.f}));
  const Sound words = decode_wav(wav_of(1, 2, 44100, 16, {0, 0x80, 0, 0x40, 0xff, 0x7f, 1, 0}));
  EXPECT_EQ(words.samples.shape(), (Shape{2, 2}));
  EXPECT_EQ(values(words.samples), (std::vector<float>{-1, 0.5f, 32767 / 32768.f, 1 / 32768.f}));
  EXPECT_EQ(values(decode_wav(wav_of(1, 1, 8000, 24, {0, 0, 0xc0, 1, 0, 0})).samples),
            (std::vector<float>{-0.5f, 1 / 8388608.f}));
}

TEST(Wav, FloatsAreUnchanged) {
  EXPECT_EQ(values(decode_wav(wav_of(3, 1, 8000, 32, {0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc1})).samples),
            (std::vector<float>{1, -10}));
}

TEST(Wav, SoundsAreEncoded) {
  for (std::int64_t channels : {1, 2, 5})
    for (std::int64_t frames : {1, 7, 1000}) {
      Sound sound{HostArray(TensorType{DType::f32, {frames, channels}}), 16000};
      std::mt19937 random(1);
      for (float& value : sound.samples.data<float>())
        value = static_cast<float>(static_cast<int>(random() % 65536) - 32768) / 32768;
      const Sound again = decode_wav(encode_wav(sound));
      EXPECT_EQ(again.rate, 16000);
      ASSERT_EQ(again.samples.shape(), sound.samples.shape());
      for (std::size_t i = 0; i < values(sound.samples).size(); ++i)
        ASSERT_NEAR(values(again.samples)[i], values(sound.samples)[i], 1 / 32767.f);
    }
  EXPECT_EQ(error_of([] {
              encode_wav({HostArray::of<float>({2}, {1, 2}), 8000});
            }),
            "encode_wav: expected samples [frames, channels], got shape [2]");
}

TEST(Wav, TruncatedAndOtherFilesAreErrors) {
  const Bytes file = wav_of(1, 2, 8000, 16, Bytes(40, 7));
  EXPECT_EQ(decode_error(file), "");
  for (std::size_t count = 0; count < file.size(); ++count)
    ASSERT_EQ(decode_error(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(count))).find("a.wav: "), 0u);
  EXPECT_EQ(decode_error(Bytes(file.begin(), file.end() - 1)),
            "a.wav: the WAV file is truncated: it must have 84 bytes, got 83");
  EXPECT_EQ(decode_error({'O', 'g', 'g', 'S'}), "a.wav: expected a WAV file, got 4 bytes that begin with 4f676753");
}

TEST(Wav, AFileOfUnknownLengthIsReadToItsEnd) {
  Bytes file = wav_of(1, 1, 8000, 16, Bytes(40, 0));
  for (std::size_t i = 4; i < 8; ++i) file[i] = 0xff;
  for (std::size_t i = 40; i < 44; ++i) file[i] = 0xff;
  EXPECT_EQ(decode_wav(file).samples.shape(), (Shape{20, 1}));
}

TEST(Wav, DamagedFilesAreDecodedOrErrors) {
  const Bytes file = wav_of(1, 2, 8000, 16, Bytes(40, 7));
  std::mt19937 random(5);
  for (int trial = 0; trial < 2000; ++trial) {
    Bytes damaged = file;
    for (unsigned i = 0; i <= random() % 4; ++i) damaged[random() % 44] = static_cast<std::uint8_t>(random());
    decode_error(damaged);  // checks the kind of an error
  }
}

}  // namespace
}  // namespace karez::data

// Decodes and encodes WAV files. Only this file calls libsndfile.
#include "karez/data/wav.h"

#include <sndfile.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "karez/base/error.h"
#include "karez/base/hex.h"

namespace karez::data {
namespace {

// A file in memory: libsndfile reads `in`, or writes `out`.
struct MemoryFile {
  std::span<const std::uint8_t> in = {};
  std::vector<std::uint8_t> out = {};
  sf_count_t at = 0;

  sf_count_t size() const { return static_cast<sf_count_t>(std::max(in.size(), out.size())); }
};

MemoryFile& file_of(void* file) { return *static_cast<MemoryFile*>(file); }

SF_VIRTUAL_IO functions_of_memory() {
  SF_VIRTUAL_IO io = {};
  io.get_filelen = [](void* file) { return file_of(file).size(); };
  io.seek = [](sf_count_t offset, int whence, void* file) {
    MemoryFile& memory = file_of(file);
    const sf_count_t from = whence == SEEK_CUR ? memory.at : whence == SEEK_END ? memory.size() : 0;
    sf_count_t at = 0;
    if (__builtin_add_overflow(from, offset, &at) || at < 0) return sf_count_t{-1};
    return memory.at = at;
  };
  io.read = [](void* to, sf_count_t count, void* file) {
    MemoryFile& memory = file_of(file);
    count = std::clamp<sf_count_t>(memory.size() - memory.at, 0, count);
    if (count > 0) std::memcpy(to, memory.in.data() + memory.at, static_cast<std::size_t>(count));
    memory.at += count;
    return count;
  };
  io.write = [](const void* from, sf_count_t count, void* file) {
    MemoryFile& memory = file_of(file);
    if (count <= 0) return sf_count_t{0};
    memory.out.resize(std::max(memory.out.size(), static_cast<std::size_t>(memory.at + count)));
    std::memcpy(memory.out.data() + memory.at, from, static_cast<std::size_t>(count));
    memory.at += count;
    return count;
  };
  io.tell = [](void* file) { return file_of(file).at; };
  return io;
}

struct CloseSound {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

// libsndfile reads as much as a truncated file has; the size at its beginning says whether that is all.
void check_complete(std::span<const std::uint8_t> file, std::string_view name) {
  const auto has = [&](std::size_t at, std::string_view text) {
    return file.size() >= at + 4 && std::memcmp(file.data() + at, text.data(), 4) == 0;
  };
  if ((!has(0, "RIFF") && !has(0, "RF64")) || !has(8, "WAVE"))
    fail(ErrorKind::data, name, ": expected a WAV file, got ", file.size(), " bytes that begin with ",
         hex_of(std::as_bytes(file.first(std::min<std::size_t>(file.size(), 4)))));
  std::uint64_t size = 0;
  for (std::size_t i = 4; i-- > 0;) size = size << 8 | file[4 + i];
  const bool unknown = size == 0xffffffff;  // of RF64, and of programs that write to a pipe
  require(ErrorKind::data, unknown || size + 8 <= file.size(), name, ": the WAV file is truncated: it must have ",
          size + 8, " bytes, got ", file.size());
}

}  // namespace

Sound decode_wav(std::span<const std::uint8_t> file, std::string_view name) {
  check_complete(file, name);
  MemoryFile memory{file};
  SF_VIRTUAL_IO io = functions_of_memory();
  SF_INFO info = {};
  const std::unique_ptr<SNDFILE, CloseSound> sound(sf_open_virtual(&io, SFM_READ, &info, &memory));
  require(ErrorKind::data, sound != nullptr, name, ": the WAV file is damaged near byte ", memory.at, " of ",
          file.size(), ": ", std::string_view(sf_strerror(nullptr)));
  require(ErrorKind::data, info.channels >= 1 && info.samplerate >= 1 && info.frames >= 0, name, ": the WAV file has ",
          info.channels, " channels and a rate of ", info.samplerate);
  // No format needs less than a bit for each sample.
  const auto most = static_cast<std::int64_t>(file.size()) * 8;
  require(ErrorKind::data, info.frames <= most / info.channels, name, ": the WAV file of ", file.size(),
          " bytes says that it has ", info.frames, " frames of ", info.channels, " channels");
  Sound out{HostArray(TensorType{DType::f32, {info.frames, info.channels}}), info.samplerate};
  const sf_count_t frames = sf_readf_float(sound.get(), out.samples.data<float>().data(), info.frames);
  require(ErrorKind::data, frames == info.frames, name, ": the WAV file is truncated or damaged: expected ",
          info.frames, " frames, got ", frames);
  return out;
}

std::vector<std::uint8_t> encode_wav(const Sound& sound) {
  const Shape& shape = sound.samples.shape();
  require(ErrorKind::shape, shape.size() == 2 && shape[1] >= 1 && shape[1] <= 1024,
          "encode_wav: expected samples [frames, channels], got shape ", shape);
  MemoryFile memory;
  SF_VIRTUAL_IO io = functions_of_memory();
  SF_INFO info = {};
  info.samplerate = sound.rate, info.channels = static_cast<int>(shape[1]),
  info.format = SF_FORMAT_WAV | SF_FORMAT_PCM_16;
  std::unique_ptr<SNDFILE, CloseSound> file(sf_open_virtual(&io, SFM_WRITE, &info, &memory));
  require(file != nullptr, "encode_wav: ", std::string_view(sf_strerror(nullptr)));
  sf_command(file.get(), SFC_SET_CLIPPING, nullptr, SF_TRUE);
  const sf_count_t frames = sf_writef_float(file.get(), sound.samples.data<float>().data(), shape[0]);
  file.reset();
  require(frames == shape[0], "encode_wav: ", shape[0], " frames were to be written, got ", frames);
  return std::move(memory.out);
}

}  // namespace karez::data

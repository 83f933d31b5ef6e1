// Sound in WAV files.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/device/host_array.h"

namespace karez::data {

struct Sound {
  HostArray samples;  // f32[frames, channels]; samples of integers are divided by their largest power of two
  int rate = 0;       // frames in a second
};

// A damaged or truncated file is an error of the kind `data` that begins with `name`. Several threads may decode at the
// same time.
Sound decode_wav(std::span<const std::uint8_t> file, std::string_view name = "sound");
// A file with samples of 16 bits.
std::vector<std::uint8_t> encode_wav(const Sound& sound);

}  // namespace karez::data

// Checks and converts the notes of a checkpoint file.
#include "karez/api/state/checkpoint_notes.h"

#include <charconv>
#include <string_view>

#include "karez/api/namespace.h"
#include "karez/base/text.h"

namespace karez {
namespace {

constexpr std::string_view position_note = "karez.position", reserved_prefix = "karez.";

}  // namespace

WeightNotes notes_of(const CheckpointNotes& notes) {
  require(notes.position >= 0, "save: the data position must be at least 0, got ", notes.position);
  WeightNotes out = notes.notes;
  for (const auto& [name, text] : out)
    require(!name.starts_with(reserved_prefix) && name != "format", "save: a note is named '", name,
            "'; 'format' and names that begin with 'karez.' are reserved");
  out["format"] = "karez";
  out[std::string(position_note)] = std::to_string(notes.position);
  return out;
}

CheckpointNotes notes_from(const WeightNotes& notes, const std::string& path) {
  CheckpointNotes out;
  for (const auto& [name, text] : notes) {
    if (name == position_note) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.position);
      if (error != std::errc() || end != text.data() + text.size() || out.position < 0)
        fail(ErrorKind::data, path, ": the data position must be an integer of at least 0, got ",
             quote(text.substr(0, 100)));
    } else if (name != "format" && !name.starts_with(reserved_prefix)) {
      out.notes[name] = text;
    }
  }
  return out;
}

}  // namespace karez

// Reads the build id, a note in the object file that contains this function.
#include "karez/api/state/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace karez {
namespace {

struct BuildIdQuery {
  std::uintptr_t address;
  std::string id;
};

bool contains_address(const dl_phdr_info& object, std::uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& part = object.dlpi_phdr[i];
    const std::uintptr_t begin = object.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && address >= begin && address - begin < part.p_memsz) return true;
  }
  return false;
}

std::string find_build_id(const char* notes, std::size_t size) {
  constexpr std::size_t step = 4;
  auto padded = [](std::size_t bytes) { return (bytes + step - 1) / step * step; };
  for (std::size_t offset = 0; offset + sizeof(ElfW(Nhdr)) <= size;) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes + offset, sizeof note);
    const char* name = notes + offset + sizeof note;
    const char* bytes = name + padded(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string id;
      for (std::size_t i = 0; i < note.n_descsz; ++i)
        for (int high : {4, 0}) id += "0123456789abcdef"[(static_cast<unsigned char>(bytes[i]) >> high) & 15];
      return id;
    }
    offset += sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
  }
  return {};
}

int visit_object(dl_phdr_info* object, std::size_t, void* requested) {
  BuildIdQuery& query = *static_cast<BuildIdQuery*>(requested);
  if (!contains_address(*object, query.address)) return 0;
  for (int i = 0; i < object->dlpi_phnum && query.id.empty(); ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type == PT_NOTE)
      query.id = find_build_id(reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr), part.p_memsz);
  }
  return 1;
}

}  // namespace

std::string build_id() {
  BuildIdQuery query{reinterpret_cast<std::uintptr_t>(&visit_object), {}};
  ::dl_iterate_phdr(visit_object, &query);
  return query.id;
}

}  // namespace karez

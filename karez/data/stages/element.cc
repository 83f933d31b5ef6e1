// Makes elements, and compares and prints their structures.
#include "karez/data/stages/element.h"

#include "karez/base/text.h"

namespace karez::data {

bool Structure::operator==(const Structure& other) const {
  if (kind != other.kind || keys != other.keys || children.size() != other.children.size()) return false;
  for (std::size_t i = 0; i < children.size(); ++i)
    if (children[i] != other.children[i] && !(*children[i] == *other.children[i])) return false;
  return true;
}

StructureRef leaf_structure() {
  static const StructureRef leaf = std::make_shared<const Structure>();
  return leaf;
}

StructureRef tuple_structure(std::vector<StructureRef> children) {
  auto structure = std::make_shared<Structure>();
  structure->kind = Structure::Kind::tuple;
  structure->children = std::move(children);
  return structure;
}

std::int64_t leaves(const Structure& structure) {
  if (structure.kind == Structure::Kind::leaf) return 1;
  std::int64_t count = 0;
  for (const StructureRef& child : structure.children) count += leaves(*child);
  return count;
}

std::string print(const Structure& structure) {
  using Kind = Structure::Kind;
  if (structure.kind == Kind::leaf) return "*";
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < structure.children.size(); ++i)
    parts.push_back(
        cat(structure.kind == Kind::dict ? cat(quote(structure.keys[i]), ": ") : "", print(*structure.children[i])));
  const std::string inside = join(parts, ", ");
  if (structure.kind == Kind::dict) return cat("{", inside, "}");
  if (structure.kind == Kind::list) return cat("[", inside, "]");
  return cat("(", inside, parts.size() == 1 ? ",)" : ")");
}

Element element(HostArray array) {
  Element out;
  out.fields.emplace_back(std::move(array));
  out.structure = leaf_structure();
  return out;
}

Element element(std::vector<HostArray> arrays) {
  Element out;
  out.structure = tuple_structure(std::vector<StructureRef>(arrays.size(), leaf_structure()));
  for (HostArray& array : arrays) out.fields.emplace_back(std::move(array));
  return out;
}

Element skipped_element() {
  static const StructureRef structure = tuple_structure({});
  Element out;
  out.structure = structure;
  out.skipped = true;
  return out;
}

std::int64_t array_bytes(const Element& element) {
  std::int64_t bytes = 0;
  for (const Field& field : element.fields)
    if (const auto* array = std::get_if<HostArray>(&field)) bytes += array->type().bytes();
  return bytes;
}

std::int64_t array_bytes(const std::vector<Element>& elements) {
  std::int64_t bytes = 0;
  for (const Element& element : elements) bytes += array_bytes(element);
  return bytes;
}

const HostArray& array_of(const Element& element, std::size_t field) {
  require(field < element.fields.size(), "an element has ", element.fields.size(), " fields; field ", field,
          " does not exist");
  const HostArray* array = std::get_if<HostArray>(&element.fields[field]);
  require(ErrorKind::type, array != nullptr, "field ", field, " of an element is not an array");
  return *array;
}

}  // namespace karez::data

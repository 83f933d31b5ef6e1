// Defines the functions of compilation.h, including the special member functions of its types, so that these are
// compiled only once.
#include "karez/passes/compilation.h"

#include <algorithm>

namespace karez::passes {

CompileOptions::CompileOptions() = default;
CompileOptions::CompileOptions(const CompileOptions&) = default;
CompileOptions::CompileOptions(CompileOptions&&) noexcept = default;
CompileOptions& CompileOptions::operator=(const CompileOptions&) = default;
CompileOptions& CompileOptions::operator=(CompileOptions&&) noexcept = default;
CompileOptions::~CompileOptions() = default;

LocalCall::LocalCall() = default;
LocalCall::LocalCall(const LocalCall&) = default;
LocalCall::LocalCall(LocalCall&&) noexcept = default;
LocalCall& LocalCall::operator=(const LocalCall&) = default;
LocalCall& LocalCall::operator=(LocalCall&&) noexcept = default;
LocalCall::~LocalCall() = default;

LocalSegment::LocalSegment() = default;
LocalSegment::LocalSegment(SegmentId segment_id, int device_number) : segment(segment_id), device(device_number) {}
LocalSegment::LocalSegment(const LocalSegment&) = default;
LocalSegment::LocalSegment(LocalSegment&&) noexcept = default;
LocalSegment& LocalSegment::operator=(const LocalSegment&) = default;
LocalSegment& LocalSegment::operator=(LocalSegment&&) noexcept = default;
LocalSegment::~LocalSegment() = default;

LocalProgram::LocalProgram() = default;
LocalProgram::LocalProgram(const LocalProgram&) = default;
LocalProgram::LocalProgram(LocalProgram&&) noexcept = default;
LocalProgram& LocalProgram::operator=(const LocalProgram&) = default;
LocalProgram& LocalProgram::operator=(LocalProgram&&) noexcept = default;
LocalProgram::~LocalProgram() = default;

Segmentation::Segmentation() = default;
Segmentation::Segmentation(const Segmentation&) = default;
Segmentation::Segmentation(Segmentation&&) noexcept = default;
Segmentation& Segmentation::operator=(const Segmentation&) = default;
Segmentation& Segmentation::operator=(Segmentation&&) noexcept = default;
Segmentation::~Segmentation() = default;

SlotAssignment::SlotAssignment() = default;
SlotAssignment::SlotAssignment(const SlotAssignment&) = default;
SlotAssignment::SlotAssignment(SlotAssignment&&) noexcept = default;
SlotAssignment& SlotAssignment::operator=(const SlotAssignment&) = default;
SlotAssignment& SlotAssignment::operator=(SlotAssignment&&) noexcept = default;
SlotAssignment::~SlotAssignment() = default;

Compilation::Compilation() = default;
Compilation::Compilation(const Compilation&) = default;
Compilation::Compilation(Compilation&&) noexcept = default;
Compilation& Compilation::operator=(const Compilation&) = default;
Compilation& Compilation::operator=(Compilation&&) noexcept = default;
Compilation::~Compilation() = default;

std::vector<DeviceName> own_devices(const Graph& graph, int rank) {
  std::vector<DeviceName> devices;
  for (const Mesh& mesh : graph.meshes)
    for (DeviceName device : mesh.devices)
      if (device.rank == rank && std::find(devices.begin(), devices.end(), device) == devices.end())
        devices.push_back(device);
  return devices;
}

int position_on(const Mesh& mesh, DeviceName device) {
  auto at = std::find(mesh.devices.begin(), mesh.devices.end(), device);
  return at == mesh.devices.end() ? -1 : static_cast<int>(at - mesh.devices.begin());
}

}  // namespace karez::passes

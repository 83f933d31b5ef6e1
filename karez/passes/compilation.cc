// Special member functions of the large types, compiled once.
#include "karez/passes/compilation.h"

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
LocalSegment::LocalSegment(SegmentId of, int on) : segment(of), device(on) {}
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

}  // namespace karez::passes

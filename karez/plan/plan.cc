// Special member functions of the plan's large types, defined here so that they are compiled only once.
#include "karez/plan/plan.h"
#include "karez/plan/catalog.h"

namespace karez::plan {

CallSpec::CallSpec() = default;
CallSpec::CallSpec(const CallSpec&) = default;
CallSpec::CallSpec(CallSpec&&) noexcept = default;
CallSpec& CallSpec::operator=(const CallSpec&) = default;
CallSpec& CallSpec::operator=(CallSpec&&) noexcept = default;
CallSpec::~CallSpec() = default;

bool Register::operator==(const Register&) const = default;

bool Operand::operator==(const Operand&) const = default;

Call::Call() = default;
Call::Call(const Call&) = default;
Call::Call(Call&&) noexcept = default;
Call& Call::operator=(const Call&) = default;
Call& Call::operator=(Call&&) noexcept = default;
Call::~Call() = default;
bool Call::operator==(const Call&) const = default;

bool Collective::operator==(const Collective&) const = default;

Actor::Actor() = default;
Actor::Actor(const Actor&) = default;
Actor::Actor(Actor&&) noexcept = default;
Actor& Actor::operator=(const Actor&) = default;
Actor& Actor::operator=(Actor&&) noexcept = default;
Actor::~Actor() = default;
bool Actor::operator==(const Actor&) const = default;

bool Communicator::operator==(const Communicator&) const = default;

Plan::Plan() = default;
Plan::Plan(const Plan&) = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(const Plan&) = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;
bool Plan::operator==(const Plan&) const = default;

}  // namespace karez::plan

// Lets adapters in to allocations, and posts places by the steps of lanes that run elsewhere.
#include "src/device/runs/adapter_access.hpp"

#include <algorithm>
#include <utility>

#include "src/base/memory_order.hpp"
#include "src/device/library_device.hpp"
#include "src/executor/try_step.hpp"

namespace wreath {

Result<DeviceRange> range_of(const void* data) {
  const PointerFacts facts = facts_of(data);
  if (facts.kind != MemoryKind::Device) return Error{ErrorCode::Unavailable, "it is no device's"};
  auto& device = static_cast<LibraryDevice&>(*facts.device);
  if (!device.is_exportable(facts.begin)) {
    return Error{ErrorCode::Unavailable, "it was not allocated as MemoryUse::Exportable"};
  }
  return DeviceRange{&device, facts.allocation, facts.begin, device.address_in_kernels(facts.begin), facts.bytes};
}

void AdapterAccess::begin(const LaneScheduler& lanes, const Plan& plan, std::vector<DeviceRange> memory) {
  lanes_ = &lanes;
  plan_ = &plan;
  memory_ = std::move(memory);
  posted_.clear();
  next_.clear();
  const bool places = std::ranges::any_of(plan.sources, [](const RecvFifo* each) { return each->landings > 1; });
  if (!places || !lanes.state().lands) return;
  // A rank that only receives asks no wire otherwise.
  for (const FifoEnd& source : plan.lowered.sources) static_cast<void>(reach(source.peer));
  for (const std::uint16_t lane : lanes.running()) posted_.push_back(lanes.lane(lane));
}

bool AdapterAccess::reach(Rank peer) const {
  Wire* const wire = links_.wire(peer);
  if (wire == nullptr || memory_.empty()) return false;
  return std::ranges::all_of(memory_, [&](const DeviceRange& each) { return static_cast<bool>(wire->let_in(each)); });
}

// A link's own end does not see what blocks consume while they run, but their counter does. Blocks may have consumed
// messages whose places are not posted yet: those of a second source, where they went on after the first one's counter
// was read. The link forgets then how far it is (PutLandings::name_places), and the places of these messages are posted
// all the same, so that each place is that of its own message.
void AdapterAccess::post_places() {
  if (posted_.empty()) return;
  for (std::size_t i = 0; i < plan_->sources.size(); ++i) {
    RecvFifo& source = *plan_->sources[i];
    if (source.landings == 1) continue;
    source.next = load_acquire(source.consumed->value);
    if (!next_.empty()) source.posted = next_[i];
  }
  HostProcessor processor;
  for (LaneState& lane : posted_) StepRunner<HostProcessor>(lanes_->state(), lane, processor).post_places();
  next_.clear();
  for (const RecvFifo* const source : plan_->sources) next_.push_back(source->posted);
}

bool AdapterAccess::has_landed(const RecvFifo& source, const SlotHeader& slot, const Located& located) {
  if (source.landings == 1 || slot.region != kLocalAddress) return false;
  const Landing& place = source.landing[slot.sequence & (source.landings - 1)];
  return place.sequence == slot.sequence && place.target == located.data;
}

}  // namespace wreath

// Ranks share memory of the host, where segments and staging are, or memory of a device. A slot may name memory of
// either kind by reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "src/base/region.hpp"
#include "wreath/result.hpp"
#include "wreath/transport.hpp"

namespace wreath {

// Says where user memory is. A null region means that peers cannot map it.
struct UserMemory {
  std::shared_ptr<Region> region;
  std::uint64_t offset = 0;
};

// Makes and opens regions. Their addresses are valid for the side that runs the FIFOs: threads of this process, or a
// device's blocks. Any thread may call it.
class SegmentMemory {
 public:
  virtual ~SegmentMemory() = default;
  // Returns the device that has the memory, as slots name devices; 0 for the host.
  virtual std::uint64_t device() const = 0;
  // Returns whether other processes can map the memory.
  virtual bool shareable() const = 0;
  // Makes zero-filled memory. `what` names it in errors. A device's is present as a whole.
  virtual Result<std::shared_ptr<Region>> create(RegionSize size, std::string_view what) = 0;
  // Returns an offer by which peers open `region`; with `descriptors` peers in other processes can. Returns nullopt
  // when the memory was freed meanwhile.
  virtual Result<std::optional<Offer>> describe(const Region& region, bool descriptors) = 0;
  // Returns a peer's region, which is in this process or is mapped. Fails with Mismatch, which says what is wrong with
  // the offer: nothing is mapped then.
  virtual Result<std::shared_ptr<Region>> open(Offer theirs) = 0;
  // Finds the living user memory that holds [data, data + bytes). The region of freed memory is never found again.
  virtual UserMemory find_user_memory(const void* data, std::size_t bytes) = 0;
};

// Makes memory of the host with every page present. Shareable memory can be mapped by other processes (memfd); any
// other serves only this process.
std::unique_ptr<SegmentMemory> host_segment_memory(bool shareable);

// An offer of memory of a device begins with these bytes: "WREATHD1".
inline constexpr std::uint64_t kDeviceRegionMagic = 0x5752454154484431;
// Returns whether the offer begins with kDeviceRegionMagic. The offer may have any bytes.
bool is_device_offer(const Offer& offer);

// Adds a duplicate of the descriptor to the offer. Fails with System when it is refused.
Status add_descriptor(Offer& offer, int descriptor, std::string_view what);

}  // namespace wreath

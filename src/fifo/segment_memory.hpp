// Memory that ranks share: of the host, where segments and staging lie, or of a device. What slots name by reference
// lies in either.
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

// Where user memory is: null region: nowhere that peers could map.
struct UserMemory {
  std::shared_ptr<Region> region;
  std::uint64_t offset = 0;
};

// Regions of it have the addresses by which those who run the FIFOs reach them: this process's threads, or a device's
// blocks. Any thread may call it.
class SegmentMemory {
 public:
  virtual ~SegmentMemory() = default;
  // Whose memory it is, as slots name devices; 0: the host's.
  virtual std::uint64_t device() const = 0;
  // Whether other processes can map it.
  virtual bool shareable() const = 0;
  // Zero-filled. `what` names it in errors.
  virtual Result<std::shared_ptr<Region>> create(std::size_t bytes, std::string_view what) = 0;
  // What peers open `region` by; with `descriptors` peers in other processes. nullopt: its memory was freed meanwhile.
  virtual Result<std::optional<Offer>> describe(const Region& region, bool descriptors) = 0;
  // A peer's region: of this process, or mapped. Mismatch says what is wrong with the offer; nothing is mapped then.
  virtual Result<std::shared_ptr<Region>> open(Offer theirs) = 0;
  // The living user memory that holds [data, data + bytes). Of freed memory the region is never found again.
  virtual UserMemory find_user_memory(const void* data, std::size_t bytes) = 0;
};

// Shareable: other processes can map it (memfd); else only this one. All pages are present.
std::unique_ptr<SegmentMemory> host_segment_memory(bool shareable);

// The first bytes of an offer of memory of a device: "WREATHD1".
inline constexpr std::uint64_t kDeviceRegionMagic = 0x5752454154484431;
// Returns whether the offer begins in this way. It may have any bytes.
bool is_device_offer(const Offer& offer);

// Adds a duplicate to the offer. System when it is refused.
Status add_descriptor(Offer& offer, int descriptor, std::string_view what);

}  // namespace wreath

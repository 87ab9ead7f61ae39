// Makes memory of the host for segments: memfds that other processes map, or memory of this process alone.
#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/socket.hpp"
#include "src/fifo/segment.hpp"

namespace wreath {
namespace {

constexpr std::uint64_t kRegionMagic = 0x5752454154483153;  // "WREATH1S"

// Offer::bytes holds this for memory of the host.
struct RegionOffer {
  std::uint64_t magic;
  std::uint64_t id;
  std::uint64_t bytes;
};

class HostSegmentMemory final : public SegmentMemory {
 public:
  explicit HostSegmentMemory(bool shareable) : shareable_(shareable) {}
  std::uint64_t device() const override { return 0; }
  bool shareable() const override { return shareable_; }

  Result<std::shared_ptr<Region>> create(RegionSize size, std::string_view what) override {
    return Region::create(size, shareable_, what);
  }

  Result<std::optional<Offer>> describe(const Region& region, bool descriptors) override {
    const RegionOffer description{kRegionMagic, region.id(), region.bytes()};
    Offer offer;
    offer.bytes.resize(sizeof(description));
    std::memcpy(offer.bytes.data(), &description, sizeof(description));
    if (descriptors) WREATH_TRY(add_descriptor(offer, region.descriptor(), "telling a peer of a region"));
    if (descriptors && region.doorbell() >= 0) {
      WREATH_TRY(add_descriptor(offer, region.doorbell(), "offering the doorbell"));
    }
    return std::optional<Offer>(std::move(offer));
  }

  Result<std::shared_ptr<Region>> open(Offer theirs) override { return open_announced(std::move(theirs)); }

  UserMemory find_user_memory(const void* data, std::size_t bytes) override {
    std::shared_ptr<Region> region = find_containing(data, bytes);
    if (region == nullptr) return {};
    const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - region->data());
    return {std::move(region), offset};
  }

 private:
  bool shareable_;
};

}  // namespace

bool is_device_offer(const Offer& offer) {
  std::uint64_t magic = 0;
  if (offer.bytes.size() >= sizeof magic) std::memcpy(&magic, offer.bytes.data(), sizeof magic);
  return magic == kDeviceRegionMagic;
}

std::unique_ptr<SegmentMemory> host_segment_memory(bool shareable) {
  return std::make_unique<HostSegmentMemory>(shareable);
}

Result<std::shared_ptr<Region>> open_announced(Offer offer) {
  RegionOffer description;
  if (offer.bytes.size() != sizeof(description) || offer.descriptors.size() > 2) {
    return Error{ErrorCode::Mismatch, fmt::format("a peer's offer of memory has {} bytes and {} descriptors",
                                                  offer.bytes.size(), offer.descriptors.size())};
  }
  std::memcpy(&description, offer.bytes.data(), sizeof(description));
  if (description.magic != kRegionMagic)
    return Error{ErrorCode::Mismatch, "a peer's offer of memory has a wrong magic"};
  const auto take = [&offer](std::size_t i) {
    return i < offer.descriptors.size() ? Fd::of_process(std::exchange(offer.descriptors[i], -1)) : Fd();
  };
  return Region::open(description.id, description.bytes, take(0), take(1));
}

Status add_descriptor(Offer& offer, int descriptor, std::string_view what) {
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    Error error = os_error("fcntl(F_DUPFD_CLOEXEC)", errno);
    error.message = fmt::format("{}: {}", what, error.message);
    return error;
  }
  offer.descriptors.push_back(copy);
  return {};
}

}  // namespace wreath

// A region of a device is an allocation that was made here or imported. Its addresses are those that kernels use.
#include "src/device/runs/device_segment_memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "src/base/hash.hpp"

namespace wreath {
namespace {

// Offer::bytes holds this for memory of a device.
struct DeviceOffer {
  std::uint64_t magic;
  std::uint64_t id;
  std::uint64_t bytes;
  // It is 1 where the fields below count: in offers to peers in other processes.
  std::uint64_t exported;
  std::uint64_t exported_bytes;
  std::array<std::byte, 64> handle;
};

class DeviceRegion final : public RegionOwner {
 public:
  // Makes a region of memory that is freed with it.
  DeviceRegion(LibraryDevice& device, DeviceMemory memory)
      : device_(device), memory_(std::move(memory)), data_(memory_.data()) {}
  // Makes a region of a user's allocation.
  DeviceRegion(LibraryDevice& device, const PointerFacts& facts)
      : device_(device), data_(facts.begin), allocation_(facts.allocation) {}

  bool in_host() const override { return false; }
  LibraryDevice& device() const { return device_; }
  const std::byte* data() const { return data_; }
  bool is_alive() const { return allocation_ == 0 || facts_of(data_).allocation == allocation_; }

 private:
  LibraryDevice& device_;
  DeviceMemory memory_;
  const std::byte* data_;
  std::uint64_t allocation_ = 0;  // 0: the region holds the memory itself
};

Error wrong(std::string_view what) {
  return {ErrorCode::Mismatch, fmt::format("a peer's offer of device memory {}", what)};
}

// Returns the id of a user's allocation. It is equal for all communicators of this process, and differs in all other
// processes. A forked child has the same salt, but another process number.
std::uint64_t id_of(std::uint64_t allocation) {
  static const std::uint64_t salt = random_id();
  return mix(salt, static_cast<std::uint64_t>(::getpid()), allocation);
}

// Returns the lock that every import holds, so that a peer's memory is imported once for each device of this process.
std::mutex& importing() {
  static std::mutex mutex;
  return mutex;
}

class DeviceSegmentMemory final : public SegmentMemory {
 public:
  explicit DeviceSegmentMemory(LibraryDevice& device) : device_(device) {}
  std::uint64_t device() const override { return number_of(device_); }
  bool shareable() const override { return true; }

  Result<std::shared_ptr<Region>> create(RegionSize size, std::string_view what) override;
  Result<std::optional<Offer>> describe(const Region& region, bool descriptors) override;
  Result<std::shared_ptr<Region>> open(Offer theirs) override;
  UserMemory find_user_memory(const void* data, std::size_t bytes) override;

 private:
  std::shared_ptr<Region> hold(std::uint64_t id, std::size_t bytes, std::unique_ptr<DeviceRegion> owner) const {
    std::byte* const base = device_.address_in_kernels(owner->data());
    return Region::hold(id, base, bytes, std::move(owner));
  }
  Result<std::shared_ptr<Region>> use(std::shared_ptr<Region> region) const;
  Result<std::shared_ptr<Region>> import(const DeviceOffer& offer, Fd descriptor) const;

  LibraryDevice& device_;
};

Result<std::shared_ptr<Region>> DeviceSegmentMemory::create(RegionSize size, std::string_view what) {
  auto memory = device_.allocate(size.bytes, MemoryUse::Exportable);
  if (!memory) return Error{memory.error().code, fmt::format("{}: {}", what, memory.error().message)};
  return hold(random_id(), size.bytes, std::make_unique<DeviceRegion>(device_, *std::move(memory)));
}

Result<std::optional<Offer>> DeviceSegmentMemory::describe(const Region& region, bool descriptors) {
  const auto& owner = static_cast<const DeviceRegion&>(*region.owner());
  if (!owner.is_alive()) return std::optional<Offer>();
  DeviceOffer description{kDeviceRegionMagic, region.id(), region.bytes(), 0, 0, {}};
  Offer offer;
  if (descriptors) {
    auto exported = device_.export_memory(owner.data());
    if (!exported) return exported.error();
    description.exported = 1;
    description.exported_bytes = exported->bytes;
    description.handle = exported->handle;
    if (exported->descriptor) offer.descriptors.push_back(exported->descriptor.release());
  }
  offer.bytes.resize(sizeof description);
  std::memcpy(offer.bytes.data(), &description, sizeof description);
  return std::optional<Offer>(std::move(offer));
}

Result<std::shared_ptr<Region>> DeviceSegmentMemory::open(Offer theirs) {
  DeviceOffer offer;
  if (theirs.bytes.size() != sizeof offer || theirs.descriptors.size() > 1) {
    return wrong(fmt::format("has {} bytes and {} descriptors", theirs.bytes.size(), theirs.descriptors.size()));
  }
  std::memcpy(&offer, theirs.bytes.data(), sizeof offer);
  if (offer.magic != kDeviceRegionMagic) return wrong("has a wrong magic");
  Fd descriptor;
  if (!theirs.descriptors.empty()) descriptor = Fd::of_process(std::exchange(theirs.descriptors[0], -1));
  std::shared_ptr<Region> region = Region::find(offer.id);
  auto opened = region != nullptr ? use(std::move(region)) : import(offer, std::move(descriptor));
  if (opened && (*opened)->bytes() != offer.bytes) {
    return wrong(
        fmt::format("says {} bytes of region {:016x}, which has {}", offer.bytes, offer.id, (*opened)->bytes()));
  }
  return opened;
}

// Lets this device use a region of this process.
Result<std::shared_ptr<Region>> DeviceSegmentMemory::use(std::shared_ptr<Region> region) const {
  const auto* const owner = dynamic_cast<const DeviceRegion*>(region->owner());
  if (owner == nullptr) return wrong(fmt::format("names region {:016x}, which is memory of the host", region->id()));
  WREATH_TRY(owner->device().let_use(owner->data(), device_));
  return region;
}

Result<std::shared_ptr<Region>> DeviceSegmentMemory::import(const DeviceOffer& offer, Fd descriptor) const {
  if (offer.exported == 0) {
    return Error{ErrorCode::Unavailable, fmt::format("region {:016x} is not of this process", offer.id)};
  }
  if (offer.bytes > offer.exported_bytes) {
    return wrong(fmt::format("says {} bytes of an allocation of {}", offer.bytes, offer.exported_bytes));
  }
  const std::uint64_t id = mix(offer.id, reinterpret_cast<std::uintptr_t>(&device_));
  const std::lock_guard lock(importing());
  if (std::shared_ptr<Region> region = Region::find(id)) return region;
  MemoryExport exported{std::move(descriptor), offer.handle, offer.exported_bytes, 0};
  auto memory = device_.import_memory(exported);
  if (!memory) return memory.error();
  return hold(id, offer.bytes, std::make_unique<DeviceRegion>(device_, *std::move(memory)));
}

UserMemory DeviceSegmentMemory::find_user_memory(const void* data, std::size_t bytes) {
  const PointerFacts facts = facts_of(data);
  if (facts.kind != MemoryKind::Device || facts.device != &device_ || facts.allocation == 0) return {};
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - facts.begin);
  if (offset > facts.bytes || bytes > facts.bytes - offset) return {};
  if (!device_.is_exportable(facts.begin)) return {};
  const std::uint64_t id = id_of(facts.allocation);
  std::shared_ptr<Region> region = Region::find(id);
  if (region == nullptr) region = hold(id, facts.bytes, std::make_unique<DeviceRegion>(device_, facts));
  return {std::move(region), offset};
}

}  // namespace

std::unique_ptr<SegmentMemory> device_segment_memory(LibraryDevice& device) {
  return std::make_unique<DeviceSegmentMemory>(device);
}

}  // namespace wreath

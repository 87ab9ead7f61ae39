// Registers memory with an adapter, the host's and that of devices: see adapter.hpp.
#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "src/base/random.hpp"
#include "transports/ofi/adapter.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

constexpr int kKeyTries = 8;

// Returns a key of so many bytes that no stranger can guess.
std::uint64_t random_key(std::size_t bytes) {
  const std::uint64_t key = random_u64();
  return bytes >= sizeof key ? key : key & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

}  // namespace

// Registers what `memory` describes, whose first byte is at `first`.
Result<std::uint64_t> OfiAdapter::add_region(OfiNewer<fi_mr_attr>& memory, std::uint64_t flags, const std::byte* first,
                                             std::uint64_t access) {
  fi_mr_attr& attributes = memory.known;
  attributes.iov_count = 1;
  attributes.access = access;
  const std::size_t key_bytes = provider_.info->domain_attr->mr_key_size;
  fid_mr* region = nullptr;
  int rc = -FI_ENOKEY;
  for (int i = 0; i < kKeyTries && rc == -FI_ENOKEY; ++i) {
    attributes.requested_key = has_mode(FI_MR_PROV_KEY) ? 0 : random_key(key_bytes);
    rc = fi_mr_regattr(domain_.get(), &attributes, flags, &region);
  }
  auto made = std::make_unique<Registration>();
  made->region.reset(rc == 0 ? region : nullptr);
  if (rc == 0 && has_mode(FI_MR_ENDPOINT)) {
    rc = !is_open() ? -FI_EOPBADSTATE : fi_mr_bind(region, &endpoint_->fid, 0);
    if (rc == 0) rc = fi_mr_enable(region);
  }
  // A lost adapter holds up nobody who registers with the others, and stays lost: see reopen().
  const bool lost = rc != 0 && mends_ && blank_registration_ != 0 && (!is_open() || is_gone(rc));
  if (lost) {
    lose_all(provider_.library->explain("fi_mr_regattr", rc));
    made->region.reset();
  } else if (rc != 0) {
    return failed("fi_mr_regattr", rc);
  }
  made->remote.address = has_mode(FI_MR_VIRT_ADDR) ? reinterpret_cast<std::uintptr_t>(first) : 0;
  made->remote.key = lost ? 0 : fi_mr_key(region);
  const std::lock_guard lock(mutex_);
  registrations_.push_back(std::move(made));
  return reinterpret_cast<std::uint64_t>(registrations_.back().get());
}

Result<std::uint64_t> OfiAdapter::register_memory(std::span<std::byte> memory, bool remote) {
  const iovec piece{memory.data(), memory.size()};
  OfiNewer<fi_mr_attr> attributes;
  attributes.known.mr_iov = &piece;
  const auto made = add_region(attributes, 0, memory.data(), remote ? FI_WRITE | FI_REMOTE_WRITE : FI_WRITE);
  if (made) return made;
  return Error{made.error().code,
               fmt::format("{}; {} of memory were not registered: raise the limit of locked memory (ulimit -l)",
                           made.error().message, format_bytes(memory.size()))};
}

// Older libraries know memory of devices by its address alone, and find its dma-buf themselves.
Result<RegisteredMemory> OfiAdapter::register_device_memory(const DmaBuf& memory, std::byte* address, Flusher flusher) {
  if (!no_device_memory_.empty()) return Error{ErrorCode::Unavailable, no_device_memory_};
  const std::string obstacle = flusher == Flusher::Adapter ? OfiReadFlush::obstacle(*provider_.info) : "";
  if (!obstacle.empty()) return Error{ErrorCode::Unavailable, obstacle};
  const bool by_dma_buf = provider_.library->version() >= kOfiDmaBufVersion;
  const iovec piece{address, memory.bytes};
  const OfiDmaBuf buffer{memory.descriptor.get(), memory.offset, memory.bytes, address - memory.offset};
  OfiNewer<fi_mr_attr> attributes;
  attributes.known.mr_iov = by_dma_buf ? reinterpret_cast<const iovec*>(&buffer) : &piece;
  attributes.known.iface = FI_HMEM_CUDA;
  attributes.known.device.cuda = memory.device;
  const bool remote = flusher != Flusher::None;
  std::uint64_t access = FI_WRITE;
  if (remote) access |= FI_REMOTE_WRITE;
  if (flusher == Flusher::Adapter) access |= FI_REMOTE_READ;
  const auto made = add_region(attributes, by_dma_buf ? kOfiDmaBufFlag : 0, address, access);
  if (!made) return Error{ErrorCode::Unavailable, made.error().message};
  return RegisteredMemory{*made, remote ? std::optional(name(*made)) : std::nullopt, flusher};
}

Status OfiAdapter::flush(const RemoteMemory& memory) { return flush_->flush(memory); }

RemoteMemory OfiAdapter::name(std::uint64_t registration) const {
  return reinterpret_cast<const Registration*>(registration)->remote;
}

void OfiAdapter::deregister_memory(std::uint64_t registration) {
  const std::lock_guard lock(mutex_);
  std::erase_if(registrations_,
                [&](const auto& each) { return reinterpret_cast<std::uint64_t>(each.get()) == registration; });
}

void OfiAdapter::close_regions() {
  const std::lock_guard lock(mutex_);
  for (const auto& each : registrations_) each->region.reset();
}

}  // namespace wreath

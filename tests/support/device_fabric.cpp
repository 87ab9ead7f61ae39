// Keeps two regions of the real provider for each of a device's memory: see device_fabric.hpp.
#include "tests/support/device_fabric.hpp"

#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "tests/support/real_fabric.hpp"

namespace wreath::test {
namespace {

constexpr std::uint64_t kDmaBufFlag = std::uint64_t{1} << 40;
constexpr int kCudaApiPermitted = 10;

struct DeviceWrite {
  std::uint64_t offset;
  std::size_t bytes;
  std::uint64_t word;
  bool here;
  bool read = false;  // a read has begun after it
};

struct DeviceRegion {
  const fid* domain = nullptr;
  const std::byte* address = nullptr;  // as its user knows it
  std::span<std::byte> memory;
  bool mapped = false;
  std::vector<std::byte> beside;
  fid_mr* target = nullptr;  // of what lies beside, and known to the user
  fid_mr* source = nullptr;  // of the memory
  fi_ops* object = nullptr;  // the real functions of `target`
  bool readable = false;
  std::vector<DeviceWrite> writes;
};

struct DeviceRead {
  const fid* domain = nullptr;
  bool fails = false;
};

struct DeviceTables {
  std::mutex mutex;
  FabricDevices devices;
  std::map<fid*, std::unique_ptr<DeviceRegion>> regions;  // by the target
  std::map<const void*, DeviceRead> reads;                // by the context
  DeviceReads behaviour = DeviceReads::Work;
  std::size_t good_reads = 0;
  std::atomic<std::uint32_t> asked = 0;  // the version
};

DeviceTables& tables() {
  static DeviceTables* const all = new DeviceTables;  // NOLINT(cppcoreguidelines-owning-memory): never deleted
  return *all;
}

[[noreturn]] void refuse(const char* what) {
  std::fprintf(stderr, "the stand-in for libfabric: %s\n", what);
  std::abort();
}

// Returns the region into which such a write goes. The caller holds the lock.
DeviceRegion* target_of(const fi_rma_iov& target) {
  for (const auto& [object, each] : tables().regions) {
    if (fi_mr_key(each->target) == target.key && target.len > 0) return each.get();
  }
  return nullptr;
}

// Maps what the descriptor has, so that a wrong offset shows.
bool map(DeviceRegion& region, const fi_mr_attr& attributes) {
  struct DmaBuf {
    int descriptor;
    std::uint64_t offset;
    std::size_t bytes;
    const std::byte* base;
  };
  const auto& buffer = *reinterpret_cast<const DmaBuf*>(attributes.mr_iov);
  struct stat facts {};
  const bool whole = ::fstat(buffer.descriptor, &facts) == 0 &&
                     static_cast<std::uint64_t>(facts.st_size) >= buffer.offset + buffer.bytes;
  void* const mapped = !whole ? MAP_FAILED
                              : ::mmap(nullptr, buffer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffer.descriptor,
                                       static_cast<off_t>(buffer.offset));
  if (mapped == MAP_FAILED) return false;
  region.address = buffer.base + buffer.offset;
  region.memory = {static_cast<std::byte*>(mapped), buffer.bytes};
  region.mapped = true;
  return true;
}

int close_region(fid* object) {
  const std::lock_guard lock(tables().mutex);
  const auto found = tables().regions.find(object);
  const std::unique_ptr<DeviceRegion> region = std::move(found->second);
  tables().regions.erase(found);
  fi_close(&region->source->fid);
  const int returned = region->object->close(object);
  if (region->mapped) ::munmap(region->memory.data(), region->memory.size());
  return returned;
}

int register_piece(fi_ops_mr& real, fid* domain, const fi_mr_attr& wanted, std::span<std::byte> memory,
                   std::uint64_t access, fid_mr** region) {
  const iovec piece{memory.data(), memory.size()};
  fi_mr_attr attributes = wanted;
  attributes.mr_iov = &piece;
  attributes.iface = FI_HMEM_SYSTEM;
  attributes.device.reserved = 0;
  attributes.access = access;
  return real.regattr(domain, &attributes, 0, region);
}

void copy(const DeviceRegion& region, const DeviceWrite& write) {
  std::memcpy(region.memory.data() + write.offset, region.beside.data() + write.offset, write.bytes);
}

// Lets the device see writes that `goes` names. Returns how many those are.
template <typename Goes>
std::size_t flush(DeviceRegion& region, const Goes& goes) {
  for (const DeviceWrite& write : region.writes) {
    if (goes(write)) copy(region, write);
  }
  return std::erase_if(region.writes, goes);
}

}  // namespace

void take_devices(const FabricDevices& devices) {
  const std::lock_guard lock(tables().mutex);
  tables().devices = devices;
}

std::uint32_t version_of(std::uint32_t real_version) {
  const std::lock_guard lock(tables().mutex);
  return std::max(real_version, tables().devices.version);
}

DeviceQuestion::DeviceQuestion(std::uint32_t version) { tables().asked = version; }

void DeviceQuestion::hide(fi_info* hints) {
  const std::lock_guard lock(tables().mutex);
  asked_ = tables().devices.offered && (hints->caps & FI_HMEM) != 0;
  if (tables().devices.not_read && (hints->caps & FI_READ) != 0) asked_ = false;
  if (asked_ && (hints->domain_attr->mr_mode & FI_MR_HMEM) == 0) refuse("FI_HMEM without FI_MR_HMEM");
  if (!asked_) return;
  hints->caps &= ~FI_HMEM;
  hints->domain_attr->mr_mode &= ~FI_MR_HMEM;
}

void DeviceQuestion::add_to(fi_info* answers) const {
  for (fi_info* each = answers; asked_ && each != nullptr; each = each->next) {
    each->caps |= FI_HMEM;
    each->domain_attr->mr_mode |= FI_MR_HMEM;
  }
}

int set_new_option(int option, const void* value, bool& forbids_cuda) {
  if (option != kCudaApiPermitted) return -FI_ENOPROTOOPT;
  const std::lock_guard lock(tables().mutex);
  const bool permitted = *static_cast<const bool*>(value);
  if (!permitted && tables().devices.needs_cuda) return -FI_EOPNOTSUPP;
  forbids_cuda = !permitted;
  return 0;
}

void fill_behind(fi_cq_err_entry& entry) {
  if (tables().asked < FI_VERSION(1, 20)) return;
  constexpr std::uint64_t kSourceAddress = ~std::uint64_t{0};
  std::memcpy(&entry + 1, &kSourceAddress, sizeof kSourceAddress);
}

int register_device_memory(fi_ops_mr& real, fid* domain, const fi_mr_attr& attributes, std::uint64_t flags,
                           fid_mr** region) {
  const std::lock_guard lock(tables().mutex);
  const bool by_dma_buf = (flags & kDmaBufFlag) != 0;
  if (attributes.iface != FI_HMEM_CUDA || attributes.iov_count != 1)
    refuse("memory of a device is one piece of CUDA's");
  if (by_dma_buf && tables().asked < FI_VERSION(1, 20)) refuse("FI_MR_DMABUF, and no version that has it");
  // Newer providers know memory by its descriptor alone.
  const bool newer = tables().devices.version >= FI_VERSION(1, 20);
  if (tables().devices.refuses || by_dma_buf != newer) return -FI_ENOSYS;
  auto made = std::make_unique<DeviceRegion>();
  made->domain = domain;
  if (!by_dma_buf) {
    made->memory = {static_cast<std::byte*>(attributes.mr_iov->iov_base), attributes.mr_iov->iov_len};
    made->address = made->memory.data();
  } else if (!map(*made, attributes)) {
    return -FI_EINVAL;
  }
  made->beside.resize(made->memory.size());
  fi_mr_attr reads = attributes;
  reads.requested_key = ~attributes.requested_key;
  made->readable = (attributes.access & FI_REMOTE_READ) != 0;
  int returned = register_piece(real, domain, reads, made->memory, FI_WRITE, &made->source);
  if (returned == 0) {
    returned = register_piece(real, domain, attributes, made->beside, attributes.access, &made->target);
  }
  if (returned != 0) return returned;
  *region = made->target;
  made->object = made->target->fid.ops;
  replace(made->target->fid.ops, [](fi_ops& table) { table.close = &close_region; });
  tables().regions[&made->target->fid] = std::move(made);
  return 0;
}

void read_from_device(iovec& piece, void*& description, std::uint64_t flags) {
  const std::lock_guard lock(tables().mutex);
  for (const auto& [object, each] : tables().regions) {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(piece.iov_base) - each->address);
    if (piece.iov_len == 0 || description != fi_mr_desc(each->target)) continue;
    if (offset >= each->memory.size()) refuse("a description of other memory");
    if ((flags & FI_INJECT) != 0) refuse("memory of a device is injected");
    piece.iov_base = each->memory.data() + offset;
    description = fi_mr_desc(each->source);
    return;
  }
}

void begin_device_write(const fi_rma_iov& target, std::uint64_t word) {
  const std::lock_guard lock(tables().mutex);
  DeviceRegion* const region = target_of(target);
  if (region != nullptr) region->writes.push_back({target.addr, target.len, word, false});
}

void forget_device_write(const fi_rma_iov& target, std::uint64_t word) {
  const std::lock_guard lock(tables().mutex);
  DeviceRegion* const region = target_of(target);
  if (region == nullptr) return;
  const auto found =
      std::ranges::find_if(region->writes, [word](const DeviceWrite& each) { return each.word == word && !each.here; });
  if (found != region->writes.end()) region->writes.erase(found);
}

void end_device_write(const fid* domain, std::uint64_t word) {
  const std::lock_guard lock(tables().mutex);
  for (const auto& [object, each] : tables().regions) {
    if (each->domain != domain) continue;
    const auto found = std::ranges::find_if(
        each->writes, [word](const DeviceWrite& write) { return write.word == word && !write.here; });
    if (found == each->writes.end()) continue;
    found->here = true;
    if (tables().devices.holds_writes) return;
    copy(*each, *found);
    each->writes.erase(found);
    return;
  }
}

std::size_t flush_device_writes() {
  const std::lock_guard lock(tables().mutex);
  std::size_t flushed = 0;
  for (const auto& [object, each] : tables().regions) {
    flushed += flush(*each, [](const DeviceWrite& write) { return write.here; });
  }
  return flushed;
}

void behave_at_device_reads(DeviceReads reads) {
  const std::lock_guard lock(tables().mutex);
  tables().behaviour = reads;
}

std::size_t count_device_reads() {
  const std::lock_guard lock(tables().mutex);
  return tables().good_reads;
}

bool begin_device_read(const fid* domain, const fi_rma_iov& source, const void* context) {
  const std::lock_guard lock(tables().mutex);
  const DeviceRegion* const region = target_of(source);
  if (region == nullptr || region->domain != domain || !region->readable) refuse("a read of what may not be read");
  if (tables().behaviour == DeviceReads::Stall) return false;
  const bool fails = tables().behaviour != DeviceReads::Work;
  if (tables().behaviour == DeviceReads::FailOnce) tables().behaviour = DeviceReads::Work;
  tables().reads[context] = {domain, fails};
  for (const auto& [object, each] : tables().regions) {
    if (each->domain != domain) continue;
    for (DeviceWrite& write : each->writes) write.read = write.here;
  }
  return true;
}

bool end_device_read(const void* context) {
  const std::lock_guard lock(tables().mutex);
  const auto found = tables().reads.find(context);
  if (found == tables().reads.end()) return true;
  const DeviceRead read = found->second;
  tables().reads.erase(found);
  if (read.fails) return false;
  ++tables().good_reads;
  for (const auto& [object, each] : tables().regions) {
    if (each->domain == read.domain)
      static_cast<void>(flush(*each, [](const DeviceWrite& write) { return write.read; }));
  }
  return true;
}

}  // namespace wreath::test

// Implements memory regions of the fake libibverbs.so.1.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tests/support/fake_verbs/network.hpp"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

using namespace wreath::test;

namespace {

constexpr std::uint64_t kPage = 4096;

// Returns the error of a registration that no adapter would take, or 0.
int check(unsigned access) {
  constexpr unsigned kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                              static_cast<unsigned>(IBV_ACCESS_RELAXED_ORDERING);
  if (const int error = asked_for("ibv_reg_mr"); error != 0) return error;
  if ((access & ~kKnown) != 0) return EINVAL;
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return EINVAL;
  return network().regions.size() >= static_cast<std::size_t>(network().made.max_regions) ? ENOMEM : 0;
}

bool is_readable(const Region& region) { return (region.access & IBV_ACCESS_REMOTE_READ) != 0; }

ibv_mr* keep(ibv_pd* domain, Region made) {
  auto* const region = new Region(made);
  region->context = domain->context;
  region->pd = domain;
  region->lkey = region->rkey = network().next_key;
  network().next_key += 1 + static_cast<std::uint32_t>(network().below(0x100));
  network().regions[region->lkey] = region;
  ++static_cast<Domain*>(domain)->users;
  ++network().counters.registrations;
  ++network().counters.registered;
  network().counters.readable += is_readable(*region) ? 1U : 0U;
  ++network().counters.alive;
  return region;
}

// Maps the pages of shared memory once more, so that the region keeps them.
void pin(Region& region) {
  const auto address = reinterpret_cast<std::uintptr_t>(region.memory);
  const std::uintptr_t page = address / kPage * kPage;
  const std::size_t bytes = (address + region.length - page + kPage - 1) / kPage * kPage;
  void* const again = ::mremap(reinterpret_cast<void*>(page), 0, bytes, MREMAP_MAYMOVE);
  if (again == MAP_FAILED) return;
  region.mapping = again;
  region.mapped = bytes;
  region.memory = static_cast<std::byte*>(again) + (address - page);
}

}  // namespace

extern "C" {

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* memory, std::size_t bytes, std::uint64_t first, unsigned access) {
  const Hold hold;
  if (const int error = check(access); error != 0) return errno = error, nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  void* const page = reinterpret_cast<void*>(address / kPage * kPage);
  if (bytes == 0) return errno = EINVAL, nullptr;
  if (::msync(page, address % kPage + bytes, MS_ASYNC) != 0) return errno = EFAULT, nullptr;  // no pages are there
  Region made{};
  made.addr = memory;
  made.length = bytes;
  made.access = access;
  made.first = first;
  made.memory = static_cast<std::byte*>(memory);
  if (network().behaviour.pin_pages) pin(made);
  return keep(domain, made);
}
ibv_mr* ibv_reg_mr(ibv_pd* domain, void* memory, std::size_t bytes, int access) {
  return ibv_reg_mr_iova2(domain, memory, bytes, reinterpret_cast<std::uintptr_t>(memory),
                          static_cast<unsigned>(access));
}
ibv_mr* ibv_reg_mr_iova(ibv_pd* domain, void* memory, std::size_t bytes, std::uint64_t first, int access) {
  return ibv_reg_mr_iova2(domain, memory, bytes, first, static_cast<unsigned>(access));
}

// Stands for devices' memory by a descriptor that can be mapped.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes, std::uint64_t first, int descriptor,
                          int access) {
  const Hold hold;
  if (!network().made.dma_buf) return errno = EOPNOTSUPP, nullptr;
  if (const int error = check(static_cast<unsigned>(access)); error != 0) return errno = error, nullptr;
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) return nullptr;
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (bytes == 0 || offset > size || bytes > size - offset) return errno = EINVAL, nullptr;
  Region made{};
  made.mapped = offset % kPage + bytes;
  made.mapping = ::mmap(nullptr, made.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                        static_cast<off_t>(offset / kPage * kPage));
  if (made.mapping == MAP_FAILED) return nullptr;
  made.memory = static_cast<std::byte*>(made.mapping) + offset % kPage;
  made.length = bytes;
  made.access = static_cast<unsigned>(access);
  made.first = first;
  made.device = facts.st_ino;
  return keep(domain, made);
}

int ibv_dereg_mr(ibv_mr* memory) {
  const Hold hold;
  if (const int error = asked_for("ibv_dereg_mr"); error != 0) return error;
  auto* const region = static_cast<Region*>(memory);
  std::erase_if(network().held, [&](const HeldWrite& write) {
    return write.to >= region->memory && write.to < region->memory + region->length;
  });
  network().regions.erase(region->lkey);
  if (region->mapping != nullptr) ::munmap(region->mapping, region->mapped);
  --static_cast<Domain*>(region->pd)->users;
  --network().counters.registered;
  network().counters.readable -= is_readable(*region) ? 1U : 0U;
  --network().counters.alive;
  delete region;
  return 0;
}

}  // extern "C"

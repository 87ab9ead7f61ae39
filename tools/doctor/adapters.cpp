// Asks RDMA devices and libfabric, by the libraries that programs use, what no file of the kernel says. The
// declarations are those of the libraries, so that builds without their headers ask, too.
#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tools/doctor/probes.hpp"

namespace wreath {
namespace {

struct IbvDevice;
struct IbvContext;
struct IbvDomain;
struct IbvRegistration;

// These functions of libibverbs are symbols of it, not inline ones of its header.
struct Verbs {
  IbvDevice** (*get_device_list)(int* count) = nullptr;
  void (*free_device_list)(IbvDevice** list) = nullptr;
  const char* (*get_device_name)(IbvDevice* device) = nullptr;
  IbvContext* (*open_device)(IbvDevice* device) = nullptr;
  int (*close_device)(IbvContext* context) = nullptr;
  IbvDomain* (*alloc_pd)(IbvContext* context) = nullptr;
  int (*dealloc_pd)(IbvDomain* domain) = nullptr;
  // Libraries before version 34 lack it.
  IbvRegistration* (*reg_dmabuf_mr)(IbvDomain* domain, std::uint64_t offset, std::size_t bytes, std::uint64_t address,
                                    int descriptor, int access) = nullptr;
};

template <typename Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

// Returns whether the library has all that it needs.
bool find_all(void* library, Verbs& verbs) {
  find(library, "ibv_reg_dmabuf_mr", verbs.reg_dmabuf_mr);
  return find(library, "ibv_get_device_list", verbs.get_device_list) &&
         find(library, "ibv_free_device_list", verbs.free_device_list) &&
         find(library, "ibv_get_device_name", verbs.get_device_name) &&
         find(library, "ibv_open_device", verbs.open_device) && find(library, "ibv_close_device", verbs.close_device) &&
         find(library, "ibv_alloc_pd", verbs.alloc_pd) && find(library, "ibv_dealloc_pd", verbs.dealloc_pd);
}

// Offers a descriptor that is none. A driver that takes dma-bufs says so of the descriptor; another says that it takes
// none.
int dma_buf_error(const Verbs& verbs, IbvContext* context) {
  constexpr int kLocalWrite = 1;
  constexpr std::size_t kBytes = 4096;
  if (verbs.reg_dmabuf_mr == nullptr) return ENOSYS;
  const std::unique_ptr<IbvDomain, int (*)(IbvDomain*)> domain(verbs.alloc_pd(context), verbs.dealloc_pd);
  if (domain == nullptr) return errno;
  errno = 0;
  const bool registered = verbs.reg_dmabuf_mr(domain.get(), 0, kBytes, 0, -1, kLocalWrite) != nullptr;
  return registered || errno == EBADF ? 0 : errno;
}

AdapterProbe probe(const Verbs& verbs, IbvDevice* device) {
  AdapterProbe probe{verbs.get_device_name(device), 0, 0};
  errno = 0;
  const std::unique_ptr<IbvContext, int (*)(IbvContext*)> context(verbs.open_device(device), verbs.close_device);
  if (context == nullptr) {
    probe.open_error = errno == 0 ? EIO : errno;
  } else {
    probe.dma_buf_error = dma_buf_error(verbs, context.get());
  }
  return probe;
}

struct FabricAttributes {
  void* fabric;
  char* name;
  char* provider;
};
struct DomainAttributes {
  void* domain;
  char* name;
};
struct EndpointAttributes {
  int type;
};

// The beginning of fi_info, which is the same in all versions of libfabric.so.1.
struct FabricInfo {
  FabricInfo* next;
  std::uint64_t capabilities;
  std::uint64_t mode;
  std::uint32_t address_format;
  std::size_t source_length;
  std::size_t target_length;
  void* source;
  void* target;
  void* handle;
  void* transmit;
  void* receive;
  EndpointAttributes* endpoint;
  DomainAttributes* domain;
  FabricAttributes* fabric;
};

constexpr int kReliableDatagrams = 3;  // FI_EP_RDM

}  // namespace

std::vector<AdapterProbe> probe_adapters() {
  const std::unique_ptr<void, int (*)(void*)> library(
      ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE), &::dlclose);
  Verbs verbs;
  if (library == nullptr || !find_all(library.get(), verbs)) return {};
  int count = 0;
  const std::unique_ptr<IbvDevice*, void (*)(IbvDevice**)> list(verbs.get_device_list(&count), verbs.free_device_list);
  std::vector<AdapterProbe> probes;
  for (int i = 0; list != nullptr && i < count; ++i) probes.push_back(probe(verbs, list.get()[i]));
  return probes;
}

std::vector<FabricProbe> probe_fabrics() {
  const std::unique_ptr<void, int (*)(void*)> library(
      ::dlopen("libfabric.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE), &::dlclose);
  if (library == nullptr) return {};
  using Ask = int(std::uint32_t, const char*, const char*, std::uint64_t, const FabricInfo*, FabricInfo**);
  auto* const version = reinterpret_cast<std::uint32_t (*)()>(::dlsym(library.get(), "fi_version"));
  auto* const ask = reinterpret_cast<Ask*>(::dlsym(library.get(), "fi_getinfo"));
  auto* const free_list = reinterpret_cast<void (*)(FabricInfo*)>(::dlsym(library.get(), "fi_freeinfo"));
  FabricInfo* list = nullptr;
  if (version == nullptr || ask == nullptr || free_list == nullptr) return {};
  if (ask(version(), nullptr, nullptr, 0, nullptr, &list) != 0) return {};
  std::vector<FabricProbe> probes;
  for (const FabricInfo* info = list; info != nullptr; info = info->next) {
    if (info->endpoint->type != kReliableDatagrams || info->fabric->provider == nullptr) continue;
    const std::string domain = info->domain->name == nullptr ? "" : info->domain->name;
    auto known = std::ranges::find(probes, info->fabric->provider, &FabricProbe::provider);
    if (known == probes.end()) known = probes.insert(known, {info->fabric->provider, {}});
    if (std::ranges::find(known->domains, domain) == known->domains.end()) known->domains.push_back(domain);
  }
  free_list(list);
  return probes;
}

}  // namespace wreath

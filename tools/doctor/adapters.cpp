// Asks RDMA devices, by the library that programs use, what no file of the kernel says.
#include <dlfcn.h>

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

}  // namespace wreath

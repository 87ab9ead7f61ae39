// Asks libfabric which providers it has here. The declarations are its own, so that a build without its headers asks,
// too.
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tools/doctor/probes.hpp"

namespace wreath {
namespace {

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

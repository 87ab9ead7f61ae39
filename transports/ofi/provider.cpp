// Chooses a provider and an adapter: see provider.hpp.
#include "transports/ofi/provider.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "src/base/config.hpp"
#include "src/topology/kernel_files.hpp"
#include "src/topology/rdma_ports.hpp"
#include "transports/ofi/newer.hpp"

namespace wreath {
namespace {

Error no_provider(std::string words) { return {ErrorCode::Unavailable, std::move(words)}; }

// Providers that are not taken, as a layer of a name.
struct Refused {
  std::string_view layer;
  std::string_view reason;
};
constexpr Refused kRefused[] = {
    {";shm;",
     "libfabric's provider shm is not taken: it leaves files of 16 MiB in /dev/shm after a kill, and nobody can sleep "
     "until it has a message; take WREATH_TRANSPORT=shm"},
    {";cxi;", "libfabric's provider cxi is not taken: its fi_writemsg refuses to tell the peer of a write"},
    {";opx;", "libfabric's provider opx is not taken: its writes without bytes, which carry credit, never end"},
};

// A way to ask for remote writes. Later ones ask for less.
struct Ask {
  std::uint64_t caps;
  std::uint64_t mode;
  std::uint64_t completion;
};
constexpr std::uint64_t kWrites = FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
constexpr std::uint64_t kMessages = FI_MSG | FI_SEND | FI_RECV;
constexpr std::uint64_t kNotes = FI_CONTEXT | FI_CONTEXT2;  // providers keep notes in a request's context
constexpr Ask kAsks[] = {
    {kWrites, kNotes, FI_DELIVERY_COMPLETE},
    {kWrites, kNotes, FI_TRANSMIT_COMPLETE},
    // The told words take receives, which are messages.
    {kWrites | kMessages, kNotes | FI_RX_CQ_DATA, FI_DELIVERY_COMPLETE},
    {kWrites | kMessages, kNotes | FI_RX_CQ_DATA, FI_TRANSMIT_COMPLETE},
};
constexpr Ask kAskForMessages{kMessages, kNotes, 0};

// Behaviour of adapters that newer libraries have is asked for by this version (EFA: writes without the peer's help).
constexpr std::uint32_t kNewestVersion = FI_VERSION(1, 18);

// An adapter may have to read memory of devices to flush it.
constexpr std::uint64_t kAsksForDevices[] = {FI_HMEM | FI_READ | FI_REMOTE_READ, FI_HMEM};

// Returns the properties that the provider has, a list; null with `returned` where it has none. `devices` has FI_HMEM
// where memory of devices is asked for.
OfiInfo ask_for(const OfiLibrary& library, const std::string& provider, const Ask& what, std::uint64_t devices,
                int& returned) {
  OfiInfo hints(library.dupinfo(nullptr), library.freeinfo);
  returned = -FI_ENOMEM;
  if (hints == nullptr) return hints;
  hints->caps = what.caps | devices;
  hints->mode = what.mode;
  hints->ep_attr->type = FI_EP_RDM;
  hints->tx_attr->op_flags = what.completion;
  fi_domain_attr& domain = *hints->domain_attr;
  domain.mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  if (devices != 0) domain.mr_mode |= FI_MR_HMEM;
  domain.threading = FI_THREAD_SAFE;
  domain.resource_mgmt = FI_RM_ENABLED;
  domain.cq_data_size = (what.caps & FI_RMA) != 0 ? sizeof(std::uint32_t) : 0;
  hints->fabric_attr->prov_name = ::strdup(provider.c_str());  // freeinfo() frees it
  fi_info* list = nullptr;
  const std::uint32_t newest = devices == 0 ? kNewestVersion : kOfiDmaBufVersion;
  returned = library.getinfo(std::min(library.version(), newest), nullptr, nullptr, 0, hints.get(), &list);
  return {returned == 0 ? list : nullptr, library.freeinfo};
}

struct Offered {
  OfiInfo list;
  std::uint64_t completion = 0;
  int returned = 0;
};

// Asks for less and less, until the provider has it.
Offered ask_in_turn(const OfiLibrary& library, const std::string& provider, std::uint64_t devices) {
  Offered offered{{nullptr, library.freeinfo}};
  for (const Ask& each : kAsks) {
    offered.list = ask_for(library, provider, each, devices, offered.returned);
    offered.completion = each.completion;
    if (offered.list != nullptr) break;
  }
  return offered;
}

// Asks with memory of devices first, where the rank has one. `why_not` says why the answer is without.
Offered ask_all(const OfiLibrary& library, const std::string& provider, bool has_device, std::string& why_not) {
  if (!has_device) {
    why_not = "this rank has no device (CommunicatorOptions::device)";
  } else if (library.version() < kOfiCudaVersion) {
    why_not = fmt::format("libfabric {}.{} may call CUDA while kernels wait for messages; take 1.18 or later",
                          FI_MAJOR(library.version()), FI_MINOR(library.version()));
  } else {
    Offered offered{{nullptr, library.freeinfo}};
    for (const std::uint64_t devices : kAsksForDevices) {
      offered = ask_in_turn(library, provider, devices);
      if (offered.list != nullptr) return offered;
    }
    why_not = fmt::format("libfabric's provider {} takes none (FI_HMEM): {}", provider,
                          library.explain("fi_getinfo", offered.returned));
  }
  return ask_in_turn(library, provider, 0);
}

// Providers open adapters when they are asked first, and the kernel refuses what a child of a fork asks of them.
Status check_process() {
  static const pid_t first = ::getpid();
  if (first == ::getpid()) return {};
  return no_provider(
      fmt::format("process {}, of which this one is a fork, has asked libfabric for its adapters before, "
                  "and they do not work here: fork ranks first, or start them by exec",
                  first));
}

bool has_efa() {
  constexpr std::string_view kFolder = "/sys/class/infiniband";
  return std::ranges::any_of(entries_of(std::string(kFolder)), [&](const std::string& device) {
    return link_name(fmt::format("{}/{}/device/driver", kFolder, device)) == "efa";
  });
}

OfferedAdapter describe(const fi_info& info, const std::vector<Interface>& all) {
  const fid_nic* const adapter = info.nic;
  if (adapter != nullptr && adapter->device_attr != nullptr && adapter->device_attr->name != nullptr) {
    return {adapter->device_attr->name};
  }
  if (!is_socket_address(info.addr_format) || info.src_addr == nullptr) return {info.domain_attr->name};
  const SocketAddress address(static_cast<const sockaddr*>(info.src_addr), static_cast<socklen_t>(info.src_addrlen));
  const std::string name = interface_of(all, address);
  return {name.empty() ? info.domain_attr->name : name, true, address.is_loopback()};
}

Error nothing_found(const OfiLibrary& library, const std::string& provider, int returned) {
  int ignored = 0;
  if (ask_for(library, provider, kAskForMessages, 0, ignored) != nullptr) {
    return no_provider(
        fmt::format("libfabric's provider {} has no remote writes that tell 4 bytes, which this transport needs; "
                    "take another one by WREATH_OFI_PROVIDER",
                    provider));
  }
  return no_provider(fmt::format(
      "libfabric {}.{} has no provider {} with reliable datagrams (FI_EP_RDM) here: {}; "
      "`wreath doctor` lists what it has",
      FI_MAJOR(library.version()), FI_MINOR(library.version()), provider, library.explain("fi_getinfo", returned)));
}

}  // namespace

bool is_driven(const fi_info& info) {
  const char* const fabric = info.fabric_attr->name;
  return fabric == nullptr || std::string_view(fabric) != "efa-direct";
}

bool is_socket_address(std::uint32_t format) {
  return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

std::string OfiProvider::describe() const { return fmt::format("{} {}", name(), info->domain_attr->name); }

bool must_tell_apart(const fi_info& info) {
  const bool ordered = (info.tx_attr->msg_order & FI_ORDER_RMA_WAW) != 0;
  return ordered && info.fabric_attr->prov_name == std::string_view("tcp;ofi_rxm");
}

Result<std::string> wanted_provider(std::string_view named, std::string_view filter, bool has_efa) {
  const bool filter_names = filter.find_first_of("^,") == std::string_view::npos;
  std::string provider(!named.empty() ? named : filter_names ? filter : "");
  if (provider.empty() && has_efa) provider = "efa";
  if (provider.empty() && !filter_names) {
    return no_provider(fmt::format("FI_PROVIDER={} does not name one provider; set WREATH_OFI_PROVIDER", filter));
  }
  if (provider.empty()) {
    return no_provider("there is no EFA adapter, and WREATH_OFI_PROVIDER names no other provider of libfabric");
  }
  const std::string layers = ";" + provider + ";";
  for (const Refused& each : kRefused) {
    if (layers.find(each.layer) != std::string::npos) return no_provider(std::string(each.reason));
  }
  return provider;
}

Result<std::vector<OfiProvider>> find_providers(int rank, bool has_device) {
  const auto rails = setting_integer(Setting::Rails);
  if (!rails) return rails.error();
  const auto provider =
      wanted_provider(setting_text(Setting::OfiProvider), setting_text(Setting::FiProvider), has_efa());
  if (!provider) return provider.error();
  const auto library = OfiLibrary::get();
  if (!library) return library.error();
  WREATH_TRY(check_process());
  std::string no_device_memory;
  const Offered offered = ask_all(**library, *provider, has_device, no_device_memory);
  if (offered.list == nullptr) return nothing_found(**library, *provider, offered.returned);
  const std::vector<Interface> all = interfaces();
  std::vector<const fi_info*> infos;
  std::vector<OfferedAdapter> adapters;
  for (const fi_info* info = offered.list.get(); info != nullptr; info = info->next) {
    if (!is_driven(*info)) continue;
    infos.push_back(info);
    adapters.push_back(describe(*info, all));
  }
  if (infos.empty()) return nothing_found(**library, *provider, -FI_ENODATA);
  const auto chosen = choose_offered(adapters, setting_text(Setting::Hca), setting_text(Setting::SocketInterface), rank,
                                     static_cast<std::size_t>(*rails));
  if (!chosen) return Error{chosen.error().code, fmt::format("{}: {}", *provider, chosen.error().message)};
  std::vector<OfiProvider> found;
  for (const std::size_t each : *chosen) {
    found.push_back({*library, OfiInfo((*library)->dupinfo(infos[each]), (*library)->freeinfo), offered.completion,
                     no_device_memory, must_tell_apart(*infos[each])});
    if (found.back().info == nullptr) return Error{ErrorCode::System, "fi_dupinfo: out of memory"};
  }
  return found;
}

}  // namespace wreath

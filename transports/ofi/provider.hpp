// Chooses a provider of libfabric, and an adapter of that provider.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/network_interface.hpp"
#include "transports/ofi/library.hpp"
#include "wreath/result.hpp"

namespace wreath {

using OfiInfo = std::unique_ptr<fi_info, decltype(&::fi_freeinfo)>;

// A provider, with the properties that it has for this transport.
struct OfiProvider {
  const OfiLibrary* library = nullptr;
  OfiInfo info{nullptr, nullptr};
  std::uint64_t completion = 0;  // the flag by which a write completes when the peer's end has it
  std::string no_device_memory;  // why it takes no memory of devices; empty where it may
  bool tells_apart = false;      // a told word goes in a write of its own, after the bytes

  std::string name() const { return info->fabric_attr->prov_name; }
  std::string describe() const;  // "efa rdmap16s27-rdm"
};

// Returns whether this transport drives what libfabric offers. Libfabric 2.1 and later offer each adapter of EFA twice,
// and first by the fabric efa-direct, where told words need a receive, and which does not reach ends of the fabric efa.
bool is_driven(const fi_info& info);

// Returns whether words go in writes of their own. The layer ofi_rxm ends the process where an endpoint is closed over
// the provider tcp amid a peer's write that tells (seen in libfabric 1.17, and still so in its sources of 2026): that
// write has no context. Words may go apart only where the provider keeps the order of writes.
bool must_tell_apart(const fi_info& info);

// Returns whether addresses of that format are as sockets have them.
bool is_socket_address(std::uint32_t format);

// Returns the provider to ask for: the one that `named` (WREATH_OFI_PROVIDER) or `filter` (FI_PROVIDER) names, else efa
// where there is such an adapter. Unavailable says why there is none, or why this one is not taken.
Result<std::string> wanted_provider(std::string_view named, std::string_view filter, bool has_efa);

// Asks libfabric, and chooses for a rank: the provider with each of the rank's adapters. The error says in words why
// there is nothing, and what to do. Nothing is loaded where no provider is wanted. Memory of devices is asked for where
// `has_device` says so, since providers choose their ways by it. One that has none is taken all the same.
Result<std::vector<OfiProvider>> find_providers(int rank, bool has_device = false);

}  // namespace wreath

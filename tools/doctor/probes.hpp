// Probes what no file says: each property is tried.
#pragma once

#include <string>
#include <vector>

namespace wreath {

// A library that a transport, or a tool beside this one, would load at run time.
struct LibraryProbe {
  std::string name;  // "libibverbs.so.1"
  // The file that would be loaded; empty: there is none.
  std::string file;
  // The version that the library or its file name states; empty: it states none.
  std::string version;
};

// An RDMA device, as a program that opens it finds it.
struct AdapterProbe {
  std::string name;       // "mlx5_0"
  int open_error = 0;     // an errno value; 0: it can be opened
  int dma_buf_error = 0;  // an errno value; 0: it registers memory of other devices by their dma-bufs
};

// A provider of libfabric that has reliable datagrams, which the transport ofi needs.
struct FabricProbe {
  std::string provider;              // "efa", "tcp;ofi_rxm"
  std::vector<std::string> domains;  // its adapters or interfaces
};

struct Probes {
  int memfd_error = 0;  // an errno value; 0: it works
  int pidfd_error = 0;  // pidfd_open
  // An errno value of process_vm_readv on a process that is no child of the caller, and that the caller does not debug.
  int peer_memory_error = 0;
  std::vector<LibraryProbe> libraries;
  std::vector<AdapterProbe> adapters;
  std::vector<FabricProbe> fabrics;
};

Probes probe_system();
// Opens each device that libibverbs knows here. Returns nothing where there is no such library.
std::vector<AdapterProbe> probe_adapters();
// Asks libfabric. Returns nothing where there is no such library.
std::vector<FabricProbe> probe_fabrics();

}  // namespace wreath

// Gives an adapter of libfabric a name, as providers of devices do.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <cstring>

namespace wreath::test {

// Makes the properties of an adapter, which libfabric copies and frees.
fid_nic* named_adapter(const char* name);

inline int free_adapter(fid* object) {
  auto* const adapter = reinterpret_cast<fid_nic*>(object);
  std::free(adapter->device_attr->name);
  delete adapter->device_attr;  // NOLINT(cppcoreguidelines-owning-memory): libfabric owns it
  delete adapter;               // NOLINT(cppcoreguidelines-owning-memory)
  return 0;
}

inline int control_adapter(fid* object, int command, void* copy) {
  if (command != FI_DUP) return -FI_ENOSYS;
  *static_cast<fid_nic**>(copy) = named_adapter(reinterpret_cast<fid_nic*>(object)->device_attr->name);
  return 0;
}

inline fid_nic* named_adapter(const char* name) {
  static fi_ops operations = [] {
    fi_ops own{};
    own.size = sizeof own;
    own.close = &free_adapter;
    own.control = &control_adapter;
    return own;
  }();
  auto* const adapter = new fid_nic{};  // NOLINT(cppcoreguidelines-owning-memory)
  adapter->fid.fclass = FI_CLASS_NIC;
  adapter->fid.ops = &operations;
  adapter->device_attr = new fi_device_attr{};  // NOLINT(cppcoreguidelines-owning-memory)
  adapter->device_attr->name = ::strdup(name);
  return adapter;
}

}  // namespace wreath::test

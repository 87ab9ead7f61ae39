// Gives the parts of the stand-in for libfabric the real one.
#pragma once

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <cstdint>

namespace wreath::test {

// Returns the real library's function of that name.
template <typename Function>
Function* real(Function* /*own*/, const char* name) {
  static void* const library = ::dlopen(WREATH_REAL_LIBFABRIC, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

// Gives an object a table of its own, with some functions changed.
template <typename Operations, typename Change>
void replace(Operations*& table, Change change) {
  auto* const own = new Operations(*table);  // NOLINT(cppcoreguidelines-owning-memory): stays as long as the process
  change(*own);
  table = own;
}

// Returns the real name of the adapter that is offered several times; null where none is.
char* offered_adapter();

// Gives functions of the real library the properties of an adapter that they know, its name and no memory of devices,
// as long as this lives.
class RealProperties {
 public:
  explicit RealProperties(fi_info& info)
      : info_(info),
        name_(info.domain_attr->name),
        caps_(info.caps),
        mode_(info.domain_attr->mr_mode),
        all_(info.domain_attr->caps) {
    if (char* const real_name = offered_adapter()) info_.domain_attr->name = real_name;
    info_.caps &= ~FI_HMEM;
    info_.domain_attr->caps &= ~FI_HMEM;
    info_.domain_attr->mr_mode &= ~FI_MR_HMEM;
  }
  RealProperties(const RealProperties&) = delete;
  RealProperties& operator=(const RealProperties&) = delete;
  ~RealProperties() {
    info_.domain_attr->name = name_;
    info_.caps = caps_;
    info_.domain_attr->caps = all_;
    info_.domain_attr->mr_mode = mode_;
  }

 private:
  fi_info& info_;
  char* const name_;
  const std::uint64_t caps_;
  const int mode_;
  const std::uint64_t all_;
};

}  // namespace wreath::test

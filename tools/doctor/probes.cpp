// Tries what the system supports. Each probe leaves nothing behind.
#include "tools/doctor/probes.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <system_error>

namespace wreath {
namespace {

// Closes the descriptor and returns 0, or returns errno where the descriptor was refused.
int close_or_error(long descriptor) {
  if (descriptor < 0) return errno;
  ::close(static_cast<int>(descriptor));
  return 0;
}

// Lets a child read the memory of its parent. One rank of a job reads another in the same way, without being its
// parent.
int try_peer_memory() {
  int secret = 4711;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) {
    int seen = 0;
    const iovec here{&seen, sizeof seen};
    const iovec there{&secret, sizeof secret};
    const bool read = ::process_vm_readv(parent, &here, 1, &there, 1, 0) == sizeof seen && seen == secret;
    ::_exit(read ? 0 : errno == 0 ? EIO : errno);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : ECANCELED;
}

std::string parts(unsigned long version, unsigned long major, unsigned long minor) {
  return fmt::format("{}.{}", version / major, version % major / minor);
}

template <typename Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

std::string cuda_version(void* library) {
  const auto ask = symbol<int (*)(int*)>(library, "cuDriverGetVersion");
  int version = 0;
  return ask != nullptr && ask(&version) == 0 ? parts(static_cast<unsigned long>(version), 1000, 10) : "";
}

std::string libfabric_version(void* library) {
  const auto ask = symbol<std::uint32_t (*)()>(library, "fi_version");
  return ask != nullptr ? parts(ask(), 1UL << 16, 1) : "";
}

std::string hwloc_version(void* library) {
  const auto ask = symbol<unsigned (*)()>(library, "hwloc_get_api_version");
  // The library does not report its own version.
  return ask != nullptr ? "API " + parts(ask(), 1UL << 16, 1UL << 8) : "";
}

// Returns 4.2.2 of a text such as "OpenPMIx 4.2.2 (PMIx Standard: 4.1, ...)".
std::string pmix_version(void* library) {
  const auto ask = symbol<const char* (*)()>(library, "PMIx_Get_version");
  const std::string_view text = ask != nullptr ? ask() : "";
  const std::size_t first = text.find_first_of("0123456789");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, text.find(' ', first) - first));
}

// Returns "file 1.14.44.0" for libibverbs.so.1.14.44.0. This number may differ from the version of the product.
std::string version_of_file(const std::string& file) {
  const std::size_t at = file.rfind(".so.");
  return at == std::string::npos ? "" : "file " + file.substr(at + 4);
}

struct LibraryRow {
  const char* name;
  // Asks the library for its version; null: the name of its file has the version.
  std::string (*version)(void* library);
};
constexpr LibraryRow kLibraries[] = {
    {"libcuda.so.1", &cuda_version},        {"libnvidia-ml.so.1", nullptr},     {"libibverbs.so.1", nullptr},
    {"libfabric.so.1", &libfabric_version}, {"libhwloc.so.15", &hwloc_version}, {"libpmix.so.2", &pmix_version},
};

LibraryProbe try_library(const LibraryRow& row) {
  LibraryProbe probe{row.name, "", ""};
  const std::unique_ptr<void, int (*)(void*)> library(::dlopen(row.name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE),
                                                      &::dlclose);
  if (library == nullptr) return probe;
  link_map* map = nullptr;
  if (::dlinfo(library.get(), RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) probe.file = map->l_name;
  std::error_code gone;
  const std::filesystem::path real = std::filesystem::canonical(probe.file, gone);
  if (!gone) probe.file = real.string();
  probe.version = row.version != nullptr ? row.version(library.get()) : version_of_file(probe.file);
  return probe;
}

}  // namespace

Probes probe_system() {
  Probes probes;
  probes.memfd_error = close_or_error(::memfd_create("wreath-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  probes.pidfd_error = close_or_error(::syscall(SYS_pidfd_open, ::getpid(), 0));
  probes.peer_memory_error = try_peer_memory();
  for (const LibraryRow& row : kLibraries) probes.libraries.push_back(try_library(row));
  probes.adapters = probe_adapters();
  probes.fabrics = probe_fabrics();
  return probes;
}

}  // namespace wreath

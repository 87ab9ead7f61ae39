// Identifies this process to other ranks: see host.hpp.
#include "src/bootstrap/host.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>

#include "src/base/config.hpp"
#include "src/base/random.hpp"
#include "src/base/socket.hpp"
#include "src/bootstrap/key.hpp"

namespace wreath {
namespace {

constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";

std::string boot_id() {
  std::ifstream file(kBootId);
  std::string text;
  std::getline(file, text);
  return text.empty() ? host_name() : text;
}

std::string file_identity(const char* path) {
  struct stat status {};
  return ::stat(path, &status) == 0 ? fmt::format("{}:{}", status.st_dev, status.st_ino) : "none";
}

}  // namespace

std::uint64_t host_id() {
  struct stat memory {};
  const bool has_memory = ::stat("/dev/shm", &memory) == 0;
  const std::string text =
      fmt::format("{}/{}/{}{}", boot_id(), file_identity("/proc/self/ns/net"),
                  has_memory ? fmt::format("{}", memory.st_dev) : "none", setting_text(Setting::NcclHostId));
  const auto hash = Key::none()->tag(std::as_bytes(std::span(text)));
  std::uint64_t id = 0;
  std::memcpy(&id, hash.data(), sizeof id);
  return id;
}

Status tell_hosts_apart() {
  const Fd file(::open(kBootId, O_RDONLY | O_CLOEXEC));
  if (!file && out_of_descriptors(errno)) return os_error("tell this host from others", errno);
  return {};
}

std::uint64_t process_id() {
  static std::mutex mutex;
  static pid_t owner = 0;
  static std::uint64_t id = 0;
  const std::lock_guard lock(mutex);
  if (owner != ::getpid()) {
    owner = ::getpid();
    id = random_u64();
  }
  return id;
}

std::string host_name() {
  std::array<char, 256> text{};
  return ::gethostname(text.data(), text.size() - 1) == 0 && text[0] != 0 ? text.data() : "unknown";
}

}  // namespace wreath

// Implements the job's key: see key.hpp. libsodium does the cryptography and the wiping.
#include "src/bootstrap/key.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "src/base/config.hpp"
#include "src/base/fd.hpp"
#include "src/base/random.hpp"
#include "src/base/socket.hpp"
#include "wreath/key.hpp"

namespace wreath {
namespace {

static_assert(crypto_auth_hmacsha256_KEYBYTES == kKeyBytes && crypto_auth_hmacsha256_BYTES == kTagBytes);

constexpr std::size_t kHexDigits = 2 * kKeyBytes;

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw_out(std::span<std::byte> bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

// Holds bytes on the stack, which are wiped at its end.
template <std::size_t kSize>
struct Wiped {
  std::array<std::byte, kSize> bytes{};
  ~Wiped() { sodium_memzero(bytes.data(), bytes.size()); }
};

Status check_owner(const struct stat& status, const std::string& path) {
  if (!S_ISREG(status.st_mode))
    return Error{ErrorCode::StartupFailed, fmt::format("key file {}: not a regular file", path)};
  if (status.st_uid != ::geteuid()) {
    return Error{ErrorCode::StartupFailed, fmt::format("key file {}: owned by user {}, not by user {} who runs this",
                                                       path, status.st_uid, ::geteuid())};
  }
  if ((status.st_mode & 077U) != 0) {
    return Error{ErrorCode::StartupFailed,
                 fmt::format("key file {}: mode {:04o} lets others read or write it; run: chmod 600 {}", path,
                             status.st_mode & 07777U, path)};
  }
  return {};
}

}  // namespace

Key::~Key() { sodium_memzero(bytes_.data(), bytes_.size()); }

std::shared_ptr<const Key> Key::none() { return std::make_shared<const Key>(); }

std::shared_ptr<const Key> Key::from_bytes(std::span<const std::byte, kKeyBytes> bytes) {
  auto key = std::make_shared<Key>();
  std::memcpy(key->bytes_.data(), bytes.data(), bytes.size());
  return key;
}

Result<std::shared_ptr<const Key>> Key::parse(std::string_view text, std::string_view where) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  Wiped<kKeyBytes> bytes;
  std::size_t length = 0;
  const bool good = text.size() == kHexDigits && sodium_hex2bin(raw_out(bytes.bytes), kKeyBytes, text.data(),
                                                                text.size(), nullptr, &length, nullptr) == 0;
  if (!good || length != kKeyBytes) {
    return Error{ErrorCode::StartupFailed, fmt::format("{}: a key is {} hexadecimal digits (it has {} characters)",
                                                       where, kHexDigits, text.size())};
  }
  return from_bytes(bytes.bytes);
}

Result<std::shared_ptr<const Key>> Key::load(const std::string& path) {
  // With O_NONBLOCK a FIFO does not hang the start.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    return Error{ErrorCode::StartupFailed,
                 fmt::format("key file {}: {}", path, std::generic_category().message(errno))};
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return os_error("inspect key file " + path, errno);
  WREATH_TRY(check_owner(status, path));
  Wiped<kHexDigits + 8> text;
  std::size_t size = 0;
  while (size < text.bytes.size()) {
    const ssize_t moved = ::read(fd.get(), text.bytes.data() + size, text.bytes.size() - size);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return os_error("read key file " + path, errno);
    if (moved == 0) break;
    size += static_cast<std::size_t>(moved);
  }
  return parse({reinterpret_cast<const char*>(text.bytes.data()), size}, "key file " + path);
}

std::shared_ptr<const Key> Key::derive(std::string_view label, std::span<const std::byte> data) const {
  std::vector<std::byte> input(label.size() + 1 + data.size());
  std::memcpy(input.data(), label.data(), label.size());
  if (!data.empty()) std::memcpy(input.data() + label.size() + 1, data.data(), data.size());
  Wiped<kTagBytes> derived{tag(input)};
  sodium_memzero(input.data(), input.size());
  return from_bytes(derived.bytes);
}

std::array<std::byte, kTagBytes> Key::tag(std::span<const std::byte> data) const {
  std::array<std::byte, kTagBytes> result{};
  crypto_auth_hmacsha256(raw_out(result), raw(data), data.size(), raw(bytes_));
  return result;
}

bool Key::verify(std::span<const std::byte, kTagBytes> tag, std::span<const std::byte> data) const {
  return crypto_auth_hmacsha256_verify(raw(tag), raw(data), data.size(), raw(bytes_)) == 0;
}

std::string default_key_path() {
  const std::string home = home_directory();
  return home.empty() ? std::string() : home + "/.config/wreath/key";
}

Result<FoundKey> find_key() {
  if (const std::string path = setting_text(Setting::KeyFile); !path.empty()) {
    auto key = Key::load(path);
    if (!key) return Error{ErrorCode::StartupFailed, "WREATH_KEY_FILE: " + key.error().message};
    return FoundKey{std::move(*key), "WREATH_KEY_FILE"};
  }
  if (std::string text = setting_text(Setting::Key); !text.empty()) {
    auto key = Key::parse(text, "WREATH_KEY");
    sodium_memzero(text.data(), text.size());
    if (!key) return key.error();
    return FoundKey{std::move(*key), "WREATH_KEY"};
  }
  const std::string path = default_key_path();
  if (path.empty() || (::access(path.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)))
    return FoundKey{nullptr, "none"};
  auto key = Key::load(path);
  if (!key) return key.error();
  return FoundKey{std::move(*key), path};
}

std::string_view key_remedies() {
  return "give every rank the same key: run `wreath key` once and copy ~/.config/wreath/key to each host (mode 0600), "
         "or set WREATH_KEY_FILE to such a file, or set WREATH_KEY to 64 hexadecimal digits; "
         "WREATH_INSECURE=1 starts without a key and lets anyone who reaches the port join";
}

Result<std::string> make_key_folder(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(default_key_path()).parent_path();
  if (folder.empty()) return Error{ErrorCode::System, "cannot make a file: there is no home directory"};
  std::error_code failure;
  if (!std::filesystem::exists(folder, failure)) {
    std::filesystem::create_directories(folder, failure);
    if (failure) return os_error("make folder " + folder.string(), failure.value());
    (void)::chmod(folder.c_str(), 0700);
  }
  return (folder / file).string();
}

Result<std::string> create_key_file(bool replace) {
  const std::string path = default_key_path();
  if (path.empty()) return Error{ErrorCode::System, "cannot make a key file: there is no home directory"};
  if (const auto folder = make_key_folder(""); !folder) return folder.error();
  const std::string draft = fmt::format("{}.{:016x}", path, random_u64());
  const Fd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return os_error("make key file " + draft, errno);
  Wiped<kKeyBytes> bytes;
  fill_random(bytes.bytes);
  Wiped<kHexDigits + 1> text;
  sodium_bin2hex(reinterpret_cast<char*>(text.bytes.data()), text.bytes.size(), raw(bytes.bytes), kKeyBytes);
  text.bytes[kHexDigits] = std::byte{'\n'};
  const bool written =
      ::write(fd.get(), text.bytes.data(), text.bytes.size()) == ssize_t{kHexDigits + 1} && ::fsync(fd.get()) == 0;
  // link() refuses an existing name, rename() replaces it; either way the file appears whole.
  const bool placed =
      written && (replace ? ::rename(draft.c_str(), path.c_str()) == 0 : ::link(draft.c_str(), path.c_str()) == 0);
  const int reason = errno;
  (void)::unlink(draft.c_str());
  if (placed) return path;
  if (reason == EEXIST) {
    return Error{ErrorCode::InvalidUsage,
                 fmt::format("{} exists; --force replaces it (jobs that use it must restart)", path)};
  }
  return os_error("write key file " + path, reason);
}

}  // namespace wreath

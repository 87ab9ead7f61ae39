// /etc/ld.so.cache, in the format "glibc-ld.so.cache1.1", alone or behind the older one.
#include <cstdint>
#include <cstring>
#include <string_view>

#include "src/base/text_file.hpp"
#include "tools/doctor/nccl/loader.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMostBytes = 64 << 20;
constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr std::string_view kOldMagic = "ld.so-1.7.0";

#if defined(__x86_64__)
constexpr std::int32_t kFlags = 0x0303;  // of the C library's version 6, for x86-64
#elif defined(__aarch64__)
constexpr std::int32_t kFlags = 0x0a03;
#else
constexpr std::int32_t kFlags = -1;
#endif

struct Header {
  char magic[20];
  std::uint32_t count;
  std::uint32_t text_bytes;
  std::uint32_t unused[5];
};
struct Entry {
  std::int32_t flags;
  std::uint32_t key;
  std::uint32_t value;
  std::uint32_t system;
  std::uint64_t processor;  // 0: any
};
static_assert(sizeof(Header) == 48 && sizeof(Entry) == 24);

// Where the newer format begins: behind the older one, whose entries are of 12 bytes, at a multiple of 8.
std::string_view newer(std::string_view cache) {
  if (!cache.starts_with(kOldMagic) || cache.size() < 16) return cache;
  std::uint32_t count = 0;
  std::memcpy(&count, cache.data() + 12, sizeof count);
  const std::size_t end = (16 + std::size_t{12} * count + 7) / 8 * 8;
  return end < cache.size() ? cache.substr(end) : std::string_view();
}

std::string text_at(std::string_view cache, std::uint32_t at) {
  if (at >= cache.size()) return {};
  const std::string_view rest = cache.substr(at);
  return std::string(rest.substr(0, rest.find('\0')));
}

}  // namespace

std::multimap<std::string, std::string> read_loader_cache(const std::string& root) {
  std::multimap<std::string, std::string> found;
  const auto file = read_file(root + "/etc/ld.so.cache", kMostBytes);
  if (!file) return found;
  const std::string_view cache = newer(*file);
  Header header{};
  if (!cache.starts_with(kMagic) || cache.size() < sizeof header) return found;
  std::memcpy(&header, cache.data(), sizeof header);
  for (std::size_t i = 0; i < header.count; ++i) {
    Entry entry{};
    const std::size_t at = sizeof header + i * sizeof entry;
    if (at + sizeof entry > cache.size()) break;
    std::memcpy(&entry, cache.data() + at, sizeof entry);
    if (entry.flags == kFlags && entry.processor == 0)
      found.emplace(text_at(cache, entry.key), text_at(cache, entry.value));
  }
  return found;
}

}  // namespace wreath

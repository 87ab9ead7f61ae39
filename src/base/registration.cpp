// Finds which memory of the caller can be registered, and registers it (include/wreath/memory.hpp).
#include <fmt/format.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "src/base/region.hpp"
#include "wreath/memory.hpp"

namespace wreath {
namespace {

struct Range {
  std::uintptr_t begin;
  std::uintptr_t end;
};

// Holds a line of /proc/self/maps.
struct Mapping {
  Range range{};
  std::string access;  // "rw-p"
  std::uint64_t inode = 0;
  std::string name;
};

bool parse(const std::string& line, Mapping& mapping) {
  char access[5] = {};
  int name_at = 0;
  if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %" SCNu64 " %n", &mapping.range.begin,
                  &mapping.range.end, access, &mapping.inode, &name_at) != 4) {
    return false;
  }
  mapping.access = access;
  mapping.name = line.substr(static_cast<std::size_t>(name_at));
  return true;
}

bool replaceable(const Mapping& mapping) {
  const bool plain = mapping.name.empty() || mapping.name == "[heap]" || mapping.name.starts_with("[anon");
  return mapping.access == "rw-p" && mapping.inode == 0 && plain;
}

Error invalid(std::string text) { return {ErrorCode::InvalidArgument, "register_memory: " + std::move(text), -1}; }

// Fails unless every page belongs to a mapping that may be replaced.
Status check_mapped(Range pages) {
  std::ifstream maps("/proc/self/maps");
  if (!maps) return Error{ErrorCode::Unavailable, "register_memory: /proc/self/maps cannot be read", -1};
  std::uintptr_t known = pages.begin;
  std::string line;
  while (known < pages.end && std::getline(maps, line)) {
    Mapping mapping;
    if (!parse(line, mapping) || mapping.range.end <= known) continue;
    if (mapping.range.begin > known) break;
    if (!replaceable(mapping)) {
      return invalid(
          fmt::format("{:#x} lies in a mapping '{}{}{}': only private, anonymous, writable memory can be "
                      "registered, once",
                      known, mapping.access, mapping.name.empty() ? "" : " ", mapping.name));
    }
    known = mapping.range.end;
  }
  if (known < pages.end) return invalid(fmt::format("{:#x} is not mapped", known));
  return {};
}

}  // namespace

Result<Registration> register_memory(void* data, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  if (data == nullptr || bytes > UINTPTR_MAX - page - first) {
    return invalid(fmt::format("data = {:#x}, bytes = {}", first, bytes));
  }
  const Range pages{(first + page - 1) / page * page, (first + bytes) / page * page};
  if (pages.begin >= pages.end) {
    return invalid(fmt::format("{} bytes at {:#x} hold no whole page of {} bytes", bytes, first, page));
  }
  const auto stack = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (stack >= pages.begin && stack < pages.end) return invalid("the range holds the calling thread's stack");
  WREATH_TRY(check_mapped(pages));
  auto* const base = reinterpret_cast<std::byte*>(pages.begin);
  auto region = Region::take_over(base, pages.end - pages.begin);
  if (!region) return region.error();
  keep_user_memory(*std::move(region));
  return Registration({base, pages.end - pages.begin});
}

Registration::~Registration() {
  if (pages_.empty()) return;
  if (const std::shared_ptr<Region> region = take_user_memory(pages_.data())) region->give_back();
}

}  // namespace wreath

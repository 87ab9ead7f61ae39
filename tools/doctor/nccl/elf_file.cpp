// Reads headers one by one and checks every offset against the file. A file that is no ELF file is refused, whatever it
// holds.
#include "tools/doctor/nccl/elf_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "src/base/fd.hpp"

namespace wreath {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
constexpr Elf64_Half kMachine = EM_NONE;
#endif
constexpr std::size_t kMostHeaders = 512;
constexpr std::size_t kLongestPath = 4096;

Error refused(const std::string& why) { return {ErrorCode::InvalidArgument, why}; }

bool read_at(const Fd& file, void* to, std::size_t count, std::uint64_t at) {
  return ::pread(file.get(), to, count, static_cast<off_t>(at)) == static_cast<ssize_t>(count);
}

Result<Elf64_Ehdr> read_header(const Fd& file) {
  Elf64_Ehdr header{};
  if (!read_at(file, &header, sizeof header, 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return refused("is no program and no library");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine)
    return refused("is for another kind of machine");
  if ((header.e_type != ET_EXEC && header.e_type != ET_DYN) || header.e_phentsize != sizeof(Elf64_Phdr) ||
      header.e_phnum == 0 || header.e_phnum > kMostHeaders)
    return refused("is no program and no library");
  return header;
}

bool is_digit(char each) { return std::isdigit(static_cast<unsigned char>(each)) != 0; }

// Reads the identity from the text behind the words, such as "2.28.9+cuda13.0" or "2.28.9 by Wreath 0.1.0".
std::optional<NcclIdentity> identity_in(std::string_view rest) {
  constexpr std::string_view kOurs = " by Wreath ";
  if (rest.empty() || !is_digit(rest.front())) return std::nullopt;
  const std::size_t length = rest.find_first_not_of("0123456789.");
  if (length == std::string_view::npos || rest.size() - length < kOurs.size()) return std::nullopt;
  const bool ours = rest.substr(length).starts_with(kOurs);
  return NcclIdentity{ours ? "Wreath" : "NCCL", std::string(rest.substr(0, length))};
}

}  // namespace

std::vector<std::string> split_path(const std::string& text, std::string_view separators) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Result<ElfFile> read_elf(const std::string& root, const std::string& path) {
  const Fd descriptor(::open((root + path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat about {};
  if (!descriptor || ::fstat(descriptor.get(), &about) != 0) return Error{ErrorCode::System, std::strerror(errno)};
  if (!S_ISREG(about.st_mode)) return refused("is no file");
  const auto header = read_header(descriptor);
  if (!header) return header.error();
  std::vector<Elf64_Phdr> headers(header->e_phnum);
  if (!read_at(descriptor, headers.data(), headers.size() * sizeof(Elf64_Phdr), header->e_phoff))
    return refused("ends too early");
  ElfFile file;
  for (const Elf64_Phdr& each : headers) {
    if (each.p_type == PT_DYNAMIC) file.dynamic = true;
    if (each.p_type != PT_INTERP || each.p_filesz > kLongestPath) continue;
    file.interpreter.resize(each.p_filesz);
    if (!read_at(descriptor, file.interpreter.data(), each.p_filesz, each.p_offset)) return refused("ends too early");
    file.interpreter.resize(std::strlen(file.interpreter.c_str()));
  }
  return file;
}

NcclIdentity identify_nccl(const std::string& file) {
  constexpr std::string_view kWords = "NCCL version ";
  constexpr std::size_t kBlock = 1 << 20;
  // The bytes of one block that are read again with the next block.
  constexpr std::size_t kTail = 128;
  const Fd descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  std::string block;
  while (descriptor) {
    const std::size_t kept = std::min(block.size(), kTail);
    block.erase(0, block.size() - kept);
    block.resize(kept + kBlock);
    const ssize_t got = ::read(descriptor.get(), block.data() + kept, kBlock);
    if (got <= 0) break;
    block.resize(kept + static_cast<std::size_t>(got));
    for (std::size_t at = block.find(kWords); at != std::string::npos; at = block.find(kWords, at + 1)) {
      const auto found = identity_in(std::string_view(block).substr(at + kWords.size()));
      if (found) return *found;
    }
  }
  return {"unknown", ""};
}

}  // namespace wreath

// Headers are read one by one, and every offset is held to the file: what is no ELF file is refused, whatever it holds.
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
constexpr std::size_t kMostEntries = 4096;  // of the dynamic section
constexpr std::size_t kMostText = 64 << 10;

Error refused(const std::string& why) { return {ErrorCode::InvalidArgument, why}; }

class Reader {
 public:
  explicit Reader(const Fd& file) : file_(file) {}

  bool bytes(void* to, std::size_t count, std::uint64_t at) const {
    return count == 0 || ::pread(file_.get(), to, count, static_cast<off_t>(at)) == static_cast<ssize_t>(count);
  }
  template <typename Entry>
  std::optional<std::vector<Entry>> table(std::uint64_t at, std::size_t count) const {
    std::vector<Entry> entries(count);
    if (!bytes(entries.data(), count * sizeof(Entry), at)) return std::nullopt;
    return entries;
  }
  // Up to a null byte, which stands before `end`; empty where it does not.
  std::string text(std::uint64_t at, std::uint64_t end) const {
    if (at >= end) return {};
    std::string buffer(std::min<std::uint64_t>(end - at, kMostText), '\0');
    const ssize_t got = ::pread(file_.get(), buffer.data(), buffer.size(), static_cast<off_t>(at));
    if (got <= 0) return {};
    const std::size_t length = buffer.find('\0');
    return length < static_cast<std::size_t>(got) ? buffer.substr(0, length) : std::string();
  }

 private:
  const Fd& file_;
};

Result<Elf64_Ehdr> read_header(const Reader& reader) {
  Elf64_Ehdr header{};
  if (!reader.bytes(&header, sizeof header, 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return refused("is no program and no library");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine)
    return refused("is for another kind of machine");
  if ((header.e_type != ET_EXEC && header.e_type != ET_DYN) || header.e_phentsize != sizeof(Elf64_Phdr) ||
      header.e_phnum == 0 || header.e_phnum > kMostHeaders)
    return refused("is no program and no library");
  return header;
}

// Where in the file the address is that `headers` load; nullopt: nowhere.
std::optional<std::uint64_t> offset_of(const std::vector<Elf64_Phdr>& headers, std::uint64_t address) {
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type == PT_LOAD && address >= header.p_vaddr && address - header.p_vaddr < header.p_filesz)
      return header.p_offset + (address - header.p_vaddr);
  }
  return std::nullopt;
}

std::uint64_t value_of(const std::vector<Elf64_Dyn>& entries, Elf64_Sxword tag) {
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == tag) return entry.d_un.d_val;
  }
  return 0;
}

Status read_dynamic(const Reader& reader, const std::vector<Elf64_Phdr>& headers, const Elf64_Phdr& section,
                    ElfFile& file) {
  const std::size_t most = std::min<std::uint64_t>(section.p_filesz / sizeof(Elf64_Dyn), kMostEntries);
  auto entries = reader.table<Elf64_Dyn>(section.p_offset, most);
  if (!entries) return refused("ends too early");
  entries->erase(
      std::find_if(entries->begin(), entries->end(), [](const auto& entry) { return entry.d_tag == DT_NULL; }),
      entries->end());
  const auto strings = offset_of(headers, value_of(*entries, DT_STRTAB));
  if (!strings) return refused("has no strings that can be read");
  const std::uint64_t end = *strings + std::min<std::uint64_t>(value_of(*entries, DT_STRSZ), UINT32_MAX);
  file.dynamic = true;
  for (const Elf64_Dyn& entry : *entries) {
    const auto text = [&] {
      return entry.d_un.d_val > UINT32_MAX ? std::string() : reader.text(*strings + entry.d_un.d_val, end);
    };
    switch (entry.d_tag) {
      case DT_NEEDED: file.needed.push_back(text()); break;
      case DT_SONAME: file.soname = text(); break;
      case DT_RPATH: file.rpath = split_path(text(), ":"); break;
      case DT_RUNPATH:
        file.runpath = split_path(text(), ":");
        file.has_runpath = true;
        break;
      case DT_FLAGS_1: file.default_folders = (entry.d_un.d_val & DF_1_NODEFLIB) == 0; break;
      default: break;
    }
  }
  if (file.has_runpath) file.rpath.clear();
  return {};
}

bool is_digit(char each) { return std::isdigit(static_cast<unsigned char>(each)) != 0; }

// Of what follows the words: "2.28.9+cuda13.0", or "2.28.9 by Wreath 0.1.0".
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
  const Reader reader(descriptor);
  const auto header = read_header(reader);
  if (!header) return header.error();
  const auto headers = reader.table<Elf64_Phdr>(header->e_phoff, header->e_phnum);
  if (!headers) return refused("ends too early");
  ElfFile file;
  file.path = path;
  file.device = about.st_dev;
  file.inode = about.st_ino;
  for (const Elf64_Phdr& each : *headers) {
    if (each.p_type == PT_INTERP && each.p_filesz < kMostText)
      file.interpreter = reader.text(each.p_offset, each.p_offset + each.p_filesz);
    if (each.p_type == PT_DYNAMIC) WREATH_TRY(read_dynamic(reader, *headers, each, file));
  }
  return file;
}

NcclIdentity identify_nccl(const std::string& file) {
  constexpr std::string_view kWords = "NCCL version ";
  constexpr std::size_t kBlock = 1 << 20;
  constexpr std::size_t kTail = 128;  // of one block that is looked at again with the next
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

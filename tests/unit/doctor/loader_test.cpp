// Tests the loader's rules that only another machine's files can show, damaged files, and the loader itself beside
// ours.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/surroundings.hpp"
#include "tools/doctor/nccl/report.hpp"
#include "tools/doctor/nccl/trace_reader.hpp"

namespace wreath {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void write(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

template <typename Value>
std::string raw(const Value& value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

struct CacheEntry {
  std::string name;
  std::string path;
  std::int32_t flags;
  std::uint64_t processor;
};

#if defined(__aarch64__)
constexpr std::int32_t kNative = 0x0a03;
constexpr std::int32_t kForeign = 0x0303;
#else
constexpr std::int32_t kNative = 0x0303;
constexpr std::int32_t kForeign = 0x0a03;
#endif

// No processor has this ability.
constexpr std::uint64_t kNoProcessor = std::uint64_t{1} << 40;

// Returns a cache in the format "glibc-ld.so.cache1.1". The entries come in descending order of their names.
std::string cache_of(const std::vector<CacheEntry>& entries) {
  std::string table;
  std::string texts;
  const auto base = static_cast<std::uint32_t>(48 + 24 * entries.size());
  const auto keep = [&](const std::string& text) {
    const auto at = base + static_cast<std::uint32_t>(texts.size());
    texts += text + '\0';
    return raw(at);
  };
  for (const CacheEntry& entry : entries) {
    table += raw(entry.flags) + keep(entry.name) + keep(entry.path) + raw(std::uint32_t{0}) + raw(entry.processor);
  }
  const std::string counts =
      raw(static_cast<std::uint32_t>(entries.size())) + raw(static_cast<std::uint32_t>(texts.size()));
  return "glibc-ld.so.cache1.1" + counts + std::string(20, '\0') + table + texts;
}

// Makes a machine with one program. Its libraries are this machine's C library, under other names.
class OtherMachine : public testing::Test {
 protected:
  OtherMachine() {
    const LoaderTrace here = trace_loader({"", "/", "", "", {}, ""}, "/proc/self/exe").value();
    for (const AskedObject& each : here.asked) {
      if (each.name == "libc.so.6") library_ = bytes_of(each.file);
    }
    write(root() + "/program", bytes_of("/bin/sh"));
    const std::string loader = read_elf("", "/bin/sh").value().interpreter;
    write(root() + loader, bytes_of(loader));
  }
  std::string root() const { return folder_.path(); }
  void add(const std::string& path) const { write(root() + path, library_); }
  // Returns how the program finds libnccl.so.2, which it opens by name, as "rule: file", or "none".
  std::string found(const std::string& library_path = "") const {
    const NcclUse use =
        use_of({root(), "/", library_path, "", {}, ""}, {.by = "program", .program = "/program"}).value();
    return use.file.empty() ? "none" : use.place.rule + ": " + use.file;
  }

  test::Folder folder_;
  std::string library_;
};

TEST_F(OtherMachine, HasTheCacheBeforeTheDefaultFolders) {
  EXPECT_EQ(found(), "none");
  add("/usr/lib/libnccl.so.2");
  EXPECT_EQ(found(), "default folder: /usr/lib/libnccl.so.2");
  add("/opt/nccl/libnccl.so.2");
  write(root() + "/etc/ld.so.cache", cache_of({{"libnccl.so.2", "/opt/foreign", kForeign, 0},
                                               {"libnccl.so.2", "/opt/newer", kNative, kNoProcessor},
                                               {"libnccl.so.2", "/opt/nccl/libnccl.so.2", kNative, 0},
                                               {"libnccl.so.1", "/opt/one", kNative, 0}}));
  EXPECT_EQ(found(), "/etc/ld.so.cache: /opt/nccl/libnccl.so.2");
  add("/mine/libnccl.so.2");
  EXPECT_EQ(found("/nowhere:/mine"), "LD_LIBRARY_PATH: /mine/libnccl.so.2");
}

TEST_F(OtherMachine, MayHaveACacheOfTwoFormats) {
  add("/opt/nccl/libnccl.so.2");
  const std::string newer = cache_of({{"libnccl.so.2", "/opt/nccl/libnccl.so.2", kNative, 0}});
  write(root() + "/etc/ld.so.cache", std::string("ld.so-1.7.0") + '\0' + raw(std::uint32_t{3}) +
                                         std::string(3 * 12, 'x') + std::string(4, '\0') + newer);
  EXPECT_EQ(found(), "/etc/ld.so.cache: /opt/nccl/libnccl.so.2");
}

TEST_F(OtherMachine, WithADamagedCacheHasTheRest) {
  const std::string whole = cache_of({{"libnccl.so.2", "/opt/nccl/libnccl.so.2", kNative, 0}});
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    write(root() + "/etc/ld.so.cache", whole.substr(0, length));
    EXPECT_EQ(found(), "none") << length;
  }
}

TEST_F(OtherMachine, PreloadsWhatItsFileSays) {
  add("/opt/libnccl.so.2");
  write(root() + "/etc/ld.so.preload", "/opt/none.so /opt/libnccl.so.2\n");
  EXPECT_EQ(found(), "/etc/ld.so.preload: /opt/libnccl.so.2");
}

TEST_F(OtherMachine, PassesDamagedLibraries) {
  for (std::size_t at = 0; at < 1024; ++at) {
    std::string damaged = library_.substr(0, 8192);
    damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
    write(root() + "/damaged", damaged);
    // The reader may take the file for anything.
    static_cast<void>(read_elf(root(), "/damaged"));
  }
  for (std::size_t length = 0; length < 4096; length += 512) {
    write(root() + "/usr/lib/libnccl.so.2", library_.substr(0, length));
    EXPECT_EQ(found(), "none") << length;
  }
}

// Returns the files that ld.so itself prints for a program.
std::set<std::string> listed_by_loader(const std::string& program) {
  std::set<std::string> files;
  std::FILE* const output = ::popen(("LD_TRACE_LOADED_OBJECTS=1 " + program).c_str(), "r");
  std::array<char, 4096> line{};
  while (output != nullptr && std::fgets(line.data(), line.size(), output) != nullptr) {
    const std::string text = line.data();
    const std::size_t path = text.find('/');
    if (path != std::string::npos) files.insert(fs::canonical(text.substr(path, text.find(' ', path) - path)).string());
  }
  if (output != nullptr) ::pclose(output);
  return files;
}

TEST(Loader, FindsWhatTheSystemsOwnDoes) {
  for (const std::string& program : {std::string("/bin/sh"), fs::read_symlink("/proc/self/exe").string()}) {
    const LoaderTrace trace = trace_loader({"", "/", "", "", {}, ""}, program).value();
    std::set<std::string> files;
    for (const AskedObject& each : trace.asked) {
      EXPECT_NE(each.file, "") << each.name;
      if (!each.file.empty()) files.insert(fs::canonical(each.file).string());
    }
    files.insert(fs::canonical(read_elf("", program).value().interpreter).string());
    EXPECT_EQ(files, listed_by_loader(program)) << program;
  }
}

TEST(Loader, IsNotAskedForNamesThatItsListWouldCut) {
  const auto trace = trace_loader({"", "/", "", "", {}, ""}, "/bin/sh", {"/folder with blanks/libnccl.so.2"});
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(trace.error().message.find("a blank or a colon"), std::string::npos) << trace.error().message;
}

TEST(Loader, ReadsItsVariables) {
  const LoaderEnvironment environment = loader_environment(
      {"LD_LIBRARY_PATH=/a::/b;/c", "LD_PRELOAD=x.so  y.so:z.so", "LD_AUDIT=/d/one.so:two.so", "LD_AUDITOR=no"});
  EXPECT_EQ(environment.library_path, "/a::/b;/c");
  EXPECT_THAT(preload_words(environment.preload), testing::ElementsAre("x.so", "y.so", "z.so"));
  EXPECT_THAT(environment.audit, testing::ElementsAre("/d/one.so", "two.so"));
}

TEST(Loader, KnowsAnNcclByItsName) {
  for (const char* name : {"libnccl.so", "libnccl.so.2", "/a/libnccl.so.2.28.9"})
    EXPECT_TRUE(is_nccl_name(name)) << name;
  for (const char* name : {"libnccl.so.1", "libnccl-net.so", "libnccl.so.20", "/libnccl.so.2/x", ""})
    EXPECT_FALSE(is_nccl_name(name)) << name;
}

}  // namespace
}  // namespace wreath

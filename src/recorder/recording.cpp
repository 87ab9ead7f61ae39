// Makes the texts of recordings, and reads recordings from living processes.
#include "wreath/recording.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "src/base/fd.hpp"
#include "src/recorder/layout.hpp"

namespace wreath {
namespace {

struct Unmap {
  void operator()(const RecorderMemory* memory) const {
    munmap(const_cast<RecorderMemory*>(memory), sizeof(RecorderMemory));
  }
};

// Maps a recorder of another process. It must have this program's size and be sealed, so that no access can fault.
std::unique_ptr<const RecorderMemory, Unmap> map_recorder(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0 || status.st_size != sizeof(RecorderMemory)) return nullptr;
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return nullptr;
  void* const base = mmap(nullptr, sizeof(RecorderMemory), PROT_READ, MAP_SHARED, file.get(), 0);
  if (base == MAP_FAILED) return nullptr;
  return std::unique_ptr<const RecorderMemory, Unmap>(static_cast<const RecorderMemory*>(base));
}

bool is_recorder(const std::string& link) {
  std::array<char, 256> target{};
  if (readlink(link.c_str(), target.data(), target.size() - 1) <= 0) return false;
  return std::string_view(target.data()).starts_with(fmt::format("/memfd:{}", kRecorderFileName));
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

std::vector<std::string> entries_of(DIR* folder) {
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

}  // namespace

std::string_view name(CallState state) noexcept {
  switch (state) {
    case CallState::Entered: return "entered";
    case CallState::Running: return "running";
    case CallState::Done: return "done";
    case CallState::Failed: return "failed";
  }
  return "unknown state";
}

std::string describe(const CallRecord& call) {
  return fmt::format("{} #{} {} x {}", name(call.collective, call.varying), call.number, name(call.dtype), call.count);
}

std::string describe(const MessageRecord& message) {
  return fmt::format("{} #{} {} rank {} {} x {}", message.sent ? "send" : "recv", message.number,
                     message.sent ? "to" : "from", message.peer, name(message.dtype), message.count);
}

bool same_call(const CallRecord& a, const CallRecord& b) noexcept {
  return a.collective == b.collective && a.varying == b.varying && a.dtype == b.dtype && a.op == b.op &&
         a.root == b.root && (a.count == b.count || !counts_agree(a.collective, a.varying));
}

const CallRecord* Recording::find(std::uint64_t number) const noexcept {
  const auto found = std::lower_bound(calls.begin(), calls.end(), number,
                                      [](const CallRecord& call, std::uint64_t n) { return call.number < n; });
  return found != calls.end() && found->number == number ? &*found : nullptr;
}

Result<std::vector<Recording>> read_process(std::int32_t pid) {
  const std::string path = fmt::format("/proc/{}/fd", pid);
  const auto unavailable = [&](std::string_view reason) {
    return Error{ErrorCode::Unavailable, fmt::format("pid {}: {}", pid, reason)};
  };
  const std::unique_ptr<DIR, CloseFolder> folder(opendir(path.c_str()));
  if (!folder) {
    return unavailable(errno == ENOENT ? "no such process"
                                       : fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  }
  std::vector<Recording> recordings;
  for (const std::string& entry : entries_of(folder.get())) {
    const std::string link = fmt::format("{}/{}", path, entry);
    if (!is_recorder(link)) continue;
    const auto memory = map_recorder(link);
    if (!memory) continue;
    Result<Recording> recording = view(*memory, fmt::format("pid {}", pid));
    if (recording) recordings.push_back(std::move(*recording));
  }
  if (recordings.empty()) return unavailable("it has no communicator");
  return recordings;
}

}  // namespace wreath

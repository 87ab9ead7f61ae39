// Joins ranks that meet through a file: see meeting_file.hpp.
#include "src/bootstrap/meeting_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/base/random.hpp"
#include "src/bootstrap/interfaces.hpp"
#include "src/bootstrap/key.hpp"
#include "src/bootstrap/meeting.hpp"

namespace wreath {
namespace {

constexpr int kLookMs = 50;
// Lists the numbers by which kernels know NFS, Lustre, GPFS, CephFS, BeeGFS, SMB 2, CIFS, AFS, PanFS, OrangeFS, GFS2
// and OCFS2.
constexpr std::array<std::uint32_t, 12> kSharedKinds{0x6969,     0x0BD00BD0, 0x47504653, 0x00C36400,
                                                     0x19830326, 0xFE534D42, 0xFF534D42, 0x5346414F,
                                                     0xAAD7AAEA, 0x20030528, 0x01161970, 0x7461636F};

Error file_error(const std::string& path, std::string_view what) {
  return {ErrorCode::StartupFailed,
          fmt::format("{}{}: {}", path == setting_text(Setting::MeetingFile) ? "WREATH_FILE=" : "meeting file ", path,
                      what)};
}

Error file_error(const std::string& path, int error) {
  return file_error(path, std::generic_category().message(error));
}

// Returns rank 0's address for the id; empty where it has none, and only ranks of its host can come.
Result<std::string> address_of_rank_0() {
  const auto chosen = chosen_addresses(interfaces(), AF_INET);
  if (!chosen) return chosen.error();
  return chosen->empty() ? std::string() : chosen->front().ip_text();
}

// Writes under another name first, so that no rank reads half of the text.
Status write_id(const std::string& path, const std::string& text) {
  const std::string draft = fmt::format("{}.{:016x}", path, random_u64());
  const Fd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return file_error(draft, errno);
  // A network's storage may tell at the end alone that it has no room.
  errno = ENOSPC;
  const bool written =
      ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(fd.get()) == 0;
  if (written && ::rename(draft.c_str(), path.c_str()) == 0) return {};
  const Error error = file_error(path, errno);
  (void)::unlink(draft.c_str());
  return error;
}

// Returns the text that the file holds; empty where there is no file yet. Only this user's own file is believed.
Result<std::string> read_id(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && (errno == ENOENT || errno == ESTALE)) return std::string();
  if (!fd) return file_error(path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return file_error(path, errno);
  if (!S_ISREG(status.st_mode)) return file_error(path, "not a regular file");
  if (status.st_uid != ::geteuid() || (status.st_mode & 077U) != 0)
    return file_error(path, "others may read or write it, or own it; rank 0 makes it with mode 0600");
  std::array<char, 1024> text{};
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  return got <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(got));
}

bool has_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos || ::access(path.substr(0, slash + 1).c_str(), F_OK) == 0;
}

Result<Membership> make_and_join(const std::string& path, const BootstrapRequest& request) {
  const auto address = address_of_rank_0();
  if (!address) return address.error();
  const auto id = UniqueId::create(*address);
  if (!id) return id.error();
  const std::string text = id->to_string();
  WREATH_TRY(write_id(path, text));
  log_info("rank 0 waits for {} ranks, who find it through {}{}{}", request.ranks, path, address->empty() ? "" : " at ",
           *address);
  auto joined = join(*id, request);
  const auto left = read_id(path);
  if (left && *left == text) (void)::unlink(path.c_str());
  return joined;
}

}  // namespace

bool is_shared_kind(std::uint32_t kind) {
  return std::find(kSharedKinds.begin(), kSharedKinds.end(), kind) != kSharedKinds.end();
}

bool is_shared_storage(const std::string& path) {
  struct statfs status {};
  return ::statfs(path.c_str(), &status) == 0 && is_shared_kind(static_cast<std::uint32_t>(status.f_type));
}

Result<Membership> join_file(const std::string& path, const BootstrapRequest& request) {
  if (request.rank == 0) return make_and_join(path, request);
  const Deadline deadline = Deadline::after_ms(request.timeout_ms);
  std::string last = "rank 0 has not made it";
  for (;;) {
    const auto text = read_id(path);
    if (!text) return text.error();
    const auto id = UniqueId::parse(*text);
    if (id && leads_to_a_meeting(*id)) return join(*id, rest_of(request, deadline));
    if (text->empty() && !has_folder(path)) last = "there is no such folder on this rank's host";
    if (!text->empty()) last = "what it holds leads to no meeting: it is old, or rank 0 cannot be reached";
    if (deadline.passed())
      return file_error(path, fmt::format("rank {} waited {} ms: {}", request.rank, request.timeout_ms, last));
    const bool interrupted = request.interrupt >= 0 && wait_for(request.interrupt, POLLIN, Deadline::after_ms(kLookMs));
    if (interrupted) return Error{ErrorCode::NotReady, "interrupted"};
    if (request.interrupt < 0) sleep_ms(kLookMs);
  }
}

}  // namespace wreath

// This file reads and writes the files of an elastic job's folder.
#include "training/elastic/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "training/checkpoint/file.hpp"

namespace wreath::training {

namespace {

constexpr std::uint64_t kMostBytes = 4096;

// A descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Status write_at_once(const std::string& path, int flags, const std::string& text) {
  const Descriptor file(::open(path.c_str(), flags | O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) return system_error(path, "written");
  if (::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return system_error(path, "written");
  }
  return {};
}

// Writes under a temporary name first, so that nobody reads half of the text.
Status write_and_rename(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}.{}.new", path, ::getpid());
  WREATH_TRY(write_at_once(temporary, O_TRUNC, text));
  if (::rename(temporary.c_str(), path.c_str()) != 0) return system_error(path, "made");
  return {};
}

// Returns the text at one fixed length, so that writing in place leaves no rest of the former text.
std::string announcement(const std::string& text) { return fmt::format("{:<31}\n", text); }

bool gone(const Joiner& joiner) { return joiner.host == own_host() && ::kill(joiner.pid, 0) != 0 && errno == ESRCH; }

// Returns 12 for "join-12".
std::optional<int> number_of(const std::string& name) {
  constexpr std::string_view kJoinPrefix = "join-";
  if (!name.starts_with(kJoinPrefix) || name.size() > kJoinPrefix.size() + 9) return std::nullopt;
  const std::string digits = name.substr(kJoinPrefix.size());
  if (digits.empty() || !std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  return std::stoi(digits);
}

}  // namespace

Status ElasticFolder::announce(std::int64_t generation) const {
  return write_at_once(file("pool"), 0, announcement(fmt::format("generation {}", generation)));
}

Status ElasticFolder::announce_over(int code) const {
  return write_at_once(file("pool"), 0, announcement(fmt::format("over {}", code)));
}

ElasticFolder::Announcement ElasticFolder::announced() const {
  Announcement announcement;
  const Result<std::string> text = read_text(file("pool"), kMostBytes);
  if (!text) {
    std::error_code ignored;
    announcement.over = !std::filesystem::exists(path_, ignored);
    return announcement;
  }
  std::istringstream words(*text);
  std::string word;
  words >> word;
  announcement.over = word == "over";
  if (word == "generation") words >> announcement.generation;
  if (announcement.over) words >> announcement.code;
  return announcement;
}

Status ElasticFolder::ask(const Joiner& self) const {
  return write_and_rename(file(fmt::format("join-{}", self.number)), fmt::format("{} {}\n", self.pid, self.host));
}

std::optional<Invitation> ElasticFolder::take_invitation(int number) const {
  const std::string path = file(fmt::format("invite-{}", number));
  const Result<std::string> text = read_text(path, kMostBytes);
  if (!text) return std::nullopt;
  static_cast<void>(::unlink(path.c_str()));
  Invitation invitation;
  std::string id;
  std::istringstream words(*text);
  words >> id >> invitation.rank >> invitation.ranks >> invitation.generation;
  const Result<UniqueId> parsed = UniqueId::parse(id);
  if (!words || !parsed) return std::nullopt;
  invitation.id = *parsed;
  return invitation;
}

Status ElasticFolder::note_joined(int number) const {
  return write_at_once(file(fmt::format("joined-{}", number)), 0, "");
}

std::vector<Joiner> ElasticFolder::joiners() const {
  std::vector<Joiner> all;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(path_, failed)) {
    const std::optional<int> number = number_of(entry.path().filename().string());
    if (!number) continue;
    const Result<std::string> text = read_text(entry.path().string(), kMostBytes);
    if (!text) continue;
    Joiner joiner{*number, 0, {}};
    std::istringstream words(*text);
    words >> joiner.pid >> joiner.host;
    if (!words || gone(joiner)) {
      dismiss(*number);
    } else {
      all.push_back(joiner);
    }
  }
  std::ranges::sort(all, {}, &Joiner::number);
  return all;
}

Status ElasticFolder::invite(int number, const Invitation& invitation) const {
  return write_and_rename(file(fmt::format("invite-{}", number)),
                          fmt::format("{} {} {} {}\n", invitation.id.to_string(), invitation.rank, invitation.ranks,
                                      invitation.generation));
}

void ElasticFolder::dismiss(int number) const {
  for (const char* kind : {"join", "invite"}) {
    static_cast<void>(::unlink(file(fmt::format("{}-{}", kind, number)).c_str()));
  }
}

std::string own_host() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace wreath::training

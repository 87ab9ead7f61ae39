// Speaks PMI-1 and PMI-2: see pmi.hpp.
#include "src/bootstrap/pmi.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/printable.hpp"
#include "src/base/shared_library.hpp"
#include "src/base/socket.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMostAnswerBytes = 16'384;
constexpr std::size_t kLengthCharacters = 6;
constexpr std::string_view kCarriedName = "wreath-place";
// The MPI libraries that take the same socket.
constexpr std::array kRivals{"libmpi.so.12", "libmpich.so.12"};

using PmiPairs = std::vector<std::pair<std::string, std::string>>;

// Returns the value of `name`; nothing where there is no such pair.
std::optional<std::string> value_of(const PmiPairs& pairs, std::string_view name) {
  for (const auto& [each, value] : pairs) {
    if (each == name) return value;
  }
  return std::nullopt;
}

// Reads pairs such as "cmd=put_result rc=0". A value reaches to the next separator, and two semicolons are one of the
// value.
std::optional<PmiPairs> read_pairs(std::string_view text, char separator) {
  PmiPairs pairs;
  while (!text.empty()) {
    const std::size_t equals = text.find('=');
    if (text.front() == separator && separator == ' ') {
      text.remove_prefix(1);
      continue;
    }
    if (equals == std::string_view::npos || text.find(separator) < equals) return std::nullopt;
    std::string name(text.substr(0, equals));
    text.remove_prefix(equals + 1);
    std::string value;
    while (!text.empty()) {
      const bool doubled = separator == ';' && text.starts_with(";;");
      if (text.front() == separator && !doubled) break;
      value += text.front();
      text.remove_prefix(doubled ? 2 : 1);
    }
    if (!text.empty()) text.remove_prefix(1);
    pairs.emplace_back(std::move(name), std::move(value));
  }
  return pairs;
}

std::optional<int> number_in(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  int number = 0;
  const char* const end = text->data() + text->size();
  const auto read = std::from_chars(text->data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

// Talks with the launcher: one question, one answer.
class PmiTalk {
 public:
  PmiTalk(int socket, const PmiVersion& version, const Carriage& carriage)
      : socket_(socket), version_(version), carriage_(carriage) {}

  Result<std::string> carry() {
    int type = 0;
    socklen_t length = sizeof(type);
    if (::getsockopt(socket_, SOL_SOCKET, SO_TYPE, &type, &length) != 0)
      return failed("it is no socket of this process: a program between the launcher and this one has closed it");
    WREATH_TRY(agree());
    WREATH_TRY(introduce());
    if (carriage_.rank == 0) {
      const auto put = ask(version_.put, in_space({{"value", carriage_.text}}));
      if (!put) return put.error();
    }
    if (const auto fence = ask(version_.fence, {}); !fence) return fence.error();
    auto text = carriage_.rank == 0 ? Result<std::string>(carriage_.text) : get();
    if (!text) return text;
    if (const auto end = ask(version_.end, {}); !end) return end.error();
    return text;
  }

 private:
  Error failed(std::string_view what, ErrorCode code = ErrorCode::StartupFailed) const {
    return {code, fmt::format("rank {}, at the launcher's PMI-{} (PMI_FD={}): {}", carriage_.rank, version_.version,
                              socket_, what)};
  }

  // Both versions begin with a line of PMI-1.
  Status agree() {
    WREATH_TRY(send(fmt::format("cmd=init pmi_version={} pmi_subversion={}\n", version_.version, version_.subversion)));
    const auto line = receive_line("response_to_init");
    if (!line) return line.error();
    const auto answer = read_pairs(*line, ' ');
    if (!answer || value_of(*answer, "cmd") != "response_to_init") return unexpected("response_to_init", *line);
    if (number_in(value_of(*answer, "rc")).value_or(0) == 0) return {};
    return failed(fmt::format("it speaks version {}.{} only", printable(value_of(*answer, "pmi_version").value_or("?")),
                              printable(value_of(*answer, "pmi_subversion").value_or("?"))));
  }

  Status introduce() {
    PmiPairs who;
    if (version_.counted) {
      who = {{"pmijobid", "0"}, {"pmirank", std::to_string(carriage_.rank)}, {"threaded", "FALSE"}};
    }
    const auto answer = ask(version_.begin, who);
    if (!answer) return answer.error();
    if (!version_.name_asked.empty()) {
      const auto space = value_of(*answer, version_.name_asked);
      if (!space || space->empty()) return failed("it names no key-value space");
      space_ = {{std::string(version_.name_asked), *space}};
      return {};
    }
    const auto rank = number_in(value_of(*answer, "rank"));
    const auto ranks = number_in(value_of(*answer, "size"));
    if (rank == carriage_.rank && ranks == carriage_.ranks) return {};
    return failed(fmt::format("it calls this process rank {} of {}, and the variables rank {} of {}", rank.value_or(-1),
                              ranks.value_or(-1), carriage_.rank, carriage_.ranks));
  }

  Result<std::string> get() {
    const auto answer = ask(version_.get, in_space({}));
    if (!answer) return answer.error();
    auto value = value_of(*answer, "value");
    if (!value || value_of(*answer, "found").value_or("TRUE") != "TRUE")
      return failed(fmt::format("it has no {}, which rank 0 gave it", kCarriedName));
    return *std::move(value);
  }

  // Returns pairs that name what is carried, and then `more`.
  PmiPairs in_space(const PmiPairs& more) const {
    PmiPairs pairs = space_;
    pairs.emplace_back("key", kCarriedName);
    pairs.insert(pairs.end(), more.begin(), more.end());
    return pairs;
  }

  // Asks, and returns the answer where that is no refusal.
  Result<PmiPairs> ask(const PmiVerb& verb, const PmiPairs& arguments) {
    std::string text = fmt::format("cmd={}{}", verb.ask, version_.separator);
    for (const auto& [name, value] : arguments) text += fmt::format("{}={}{}", name, value, version_.separator);
    if (version_.counted) {
      text = fmt::format("{:<{}}{}", text.size(), kLengthCharacters, text);
    } else {
      text.back() = '\n';
    }
    WREATH_TRY(send(text));
    const auto received = version_.counted ? receive_counted(verb.answer) : receive_line(verb.answer);
    if (!received) return received.error();
    auto answer = read_pairs(*received, version_.separator);
    if (!answer || value_of(*answer, "cmd") != verb.answer) return unexpected(verb.answer, *received);
    const auto code = value_of(*answer, "rc");
    if (number_in(code).value_or(code ? -1 : 0) == 0) return *std::move(answer);
    const std::string reason = value_of(*answer, "errmsg").value_or(value_of(*answer, "msg").value_or("no reason"));
    return failed(fmt::format("it refuses '{}': rc={}, {}", verb.ask, printable(*code), printable(reason)));
  }

  // The text may have the key, so it is not shown.
  Error unexpected(std::string_view expected, std::string_view text) const {
    return failed(fmt::format("{} was expected, but {} bytes came that are none", expected, text.size()));
  }

  Status send(std::string_view text) {
    const Status sent = send_all(socket_, std::as_bytes(std::span(text)), carriage_.deadline);
    if (sent) return {};
    return sent.error().code == ErrorCode::Timeout ? late("it takes nothing") : gone();
  }

  Error gone() const { return failed("the launcher has ended, or has given this job up", ErrorCode::PeerLost); }
  Error late(std::string_view what) const {
    return failed(fmt::format("{} within the start's time: ranks are missing, or the launcher is stopped", what),
                  ErrorCode::Timeout);
  }

  // Receives until `received_` has `least` bytes.
  Status receive(std::size_t least, std::string_view expected) {
    if (least > kMostAnswerBytes) return failed(fmt::format("an answer is longer than {} bytes", kMostAnswerBytes));
    std::array<std::byte, 1024> bytes;
    while (received_.size() < least) {
      const std::ptrdiff_t got = try_recv(socket_, bytes);
      if (got < 0) return gone();
      received_.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(got));
      if (got > 0 || wait_for(socket_, POLLIN, carriage_.deadline, carriage_.interrupt)) continue;
      if (!carriage_.deadline.passed()) return Error{ErrorCode::NotReady, "interrupted"};
      return late(fmt::format("no {} came", expected));
    }
    return {};
  }

  // Takes `bytes` of what was received.
  std::string take(std::size_t bytes) {
    std::string taken = received_.substr(0, bytes);
    received_.erase(0, bytes);
    return taken;
  }

  Result<std::string> receive_line(std::string_view expected) {
    std::size_t end = received_.find('\n');
    for (; end == std::string::npos; end = received_.find('\n')) WREATH_TRY(receive(received_.size() + 1, expected));
    std::string line = take(end + 1);
    line.pop_back();
    return line;
  }

  Result<std::string> receive_counted(std::string_view expected) {
    WREATH_TRY(receive(kLengthCharacters, expected));
    std::string digits = take(kLengthCharacters);
    std::erase(digits, ' ');
    const auto length = number_in(digits);
    if (!length || *length < 0) return unexpected(expected, digits);
    WREATH_TRY(receive(static_cast<std::size_t>(*length), expected));
    return take(static_cast<std::size_t>(*length));
  }

  int socket_;
  const PmiVersion& version_;
  const Carriage& carriage_;
  // Names the key-value space in the requests of PMI-1.
  PmiPairs space_;
  std::string received_;
};

}  // namespace

Result<std::string> carry_by_pmi(int socket, const PmiVersion& version, const Carriage& carriage) {
  for (const char* const rival : kRivals) {
    if (!SharedLibrary::is_loaded(rival)) continue;
    return Error{ErrorCode::StartupFailed,
                 fmt::format("this program has loaded MPI ({}), which needs PMI_FD for itself: make a UniqueId on rank "
                             "0, give it to all ranks by MPI_Bcast, and call Communicator::create with it",
                             rival)};
  }
  return PmiTalk(socket, version, carriage).carry();
}

}  // namespace wreath

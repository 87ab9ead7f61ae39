// Runs the meeting point's side of a start: see meeting.hpp. One thread goes through four phases in one poll loop. It
// sends the first error to all ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

#include "src/base/log.hpp"
#include "src/base/random.hpp"
#include "src/base/signals.hpp"
#include "src/bootstrap/acceptor.hpp"
#include "src/bootstrap/frame.hpp"
#include "src/bootstrap/host.hpp"
#include "src/bootstrap/meeting.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kNobodyCameMs = 600'000;
// Limits the wait for a guest that does not read.
constexpr std::int64_t kSendMs = 5000;
// After a failure newcomers still get the reason for so long.
constexpr std::int64_t kAfterwordsMs = 1000;

enum class Phase { Gathering, Opening, Linking, Met, Failed };

struct Guest {
  Connection connection;
  Greeting greeting;
  MessageReader reader;
  std::optional<Hello> hello;
  std::vector<NetAddress> tcp;
  // Is the last phase whose answer arrived.
  Phase answered = Phase::Gathering;
};

std::string describe(const Hello& hello) {
  return fmt::format("rank {} (host {}, pid {})", hello.rank, hello.host_name, hello.pid);
}

// Describes a guest. Before its first message, its proof has said which rank it is.
std::string describe(const Guest& guest) {
  if (guest.hello) return describe(*guest.hello);
  return fmt::format("rank {} ({})", guest.greeting.rank, peer_address(guest.connection.get()).text());
}

std::string seconds(std::int64_t milliseconds) {
  return milliseconds % 1000 == 0 ? fmt::format("{} s", milliseconds / 1000) : fmt::format("{} ms", milliseconds);
}

class Meeting {
 public:
  Meeting(std::vector<Fd> listeners, Identity self)
      : acceptor_(std::move(listeners), std::move(self)), deadline_(Deadline::after_ms(kNobodyCameMs)) {}

  void run() {
    while (phase_ != Phase::Met && phase_ != Phase::Failed) {
      wait(deadline_);
      for (Proved& proved : acceptor_.service()) admit(std::move(proved));
      for (const auto& guest : guests_) listen_to(*guest);
      std::erase_if(guests_, [](const auto& guest) { return !guest->connection; });
      advance();
      if (deadline_.passed()) time_out();
      if (phase_ == Phase::Gathering && acceptor_.starves()) starve();
    }
    if (phase_ == Phase::Met) return farewell();
    afterwords();
  }

 private:
  void wait(Deadline deadline) {
    std::vector<pollfd> set;
    acceptor_.add_to(set);
    for (const auto& guest : guests_) set.push_back({guest->connection.get(), POLLIN, 0});
    (void)::poll(set.data(), set.size(), acceptor_.wait_ms(deadline));
  }

  void fail(int rank, std::string text, ErrorCode code = ErrorCode::StartupFailed) {
    if (phase_ == Phase::Failed) return;
    phase_ = Phase::Failed;
    failure_ = {code, rank, std::move(text)};
  }

  void lose(const Guest& guest, std::string_view what, ErrorCode code) {
    fail(guest.hello->rank, fmt::format("{} {} during start-up", describe(guest), what), code);
  }

  // Looks for processes that have ended: complaints of other ranks about their links to them follow from that.
  void look_for_leavers() {
    for (const auto& [rank, guest] : by_rank_) {
      if (wait_for(guest->connection.get(), POLLRDHUP, Deadline::after_ms(0)))
        return lose(*guest, "left", ErrorCode::PeerLost);
    }
  }

  void admit(Proved proved) {
    if (proved.peer.purpose != Purpose::Meet) return;
    auto guest = std::make_unique<Guest>();
    guest->connection = std::move(proved.connection);
    guest->greeting = std::move(proved.peer);
    set_keepalive(guest->connection.get());
    if (guest->greeting.protocol != kProtocol) {
      fail(guest->greeting.rank,
           fmt::format("library versions differ: rank {} runs wreath {} (protocol {}), the meeting "
                       "point wreath {} (protocol {})",
                       guest->greeting.rank, guest->greeting.version, guest->greeting.protocol, library_version(),
                       kProtocol));
    }
    guests_.push_back(std::move(guest));
  }

  // Reads a guest's messages. A guest that leaves before its Hello is forgotten.
  void listen_to(Guest& guest) {
    while (guest.connection && phase_ != Phase::Failed) {
      auto message = guest.reader.poll(guest.connection);
      if (message && !*message) return;
      const bool understood = message && std::visit([&](auto& content) { return handle(guest, content); }, **message);
      if (understood) continue;
      const bool left = !message && message.error().code == ErrorCode::PeerLost;
      if (!message && !left) {
        fail(guest.greeting.rank, fmt::format("from {}: {}", describe(guest), message.error().message));
      } else if (guest.hello) {
        lose(guest, message ? "sent what it should not" : "left",
             left ? ErrorCode::PeerLost : ErrorCode::StartupFailed);
      }
      guest.connection = Connection();
    }
  }

  bool handle(Guest& guest, Hello& hello) {
    if (guest.hello || hello.rank != guest.greeting.rank) return false;
    guest.hello = std::move(hello);
    const Hello& mine = *guest.hello;
    if (first_ == nullptr) {
      first_ = &guest;
      timeout_ms_ = mine.timeout_ms;
      deadline_ = Deadline::after_ms(timeout_ms_);
    }
    if (const std::string problem = find_problem(mine); !problem.empty()) {
      fail(mine.rank, problem);
    } else {
      by_rank_[mine.rank] = &guest;
    }
    return true;
  }

  // Returns what is wrong with this rank among the ranks that came before; empty where nothing is.
  std::string find_problem(const Hello& mine) const {
    const Hello& first = *first_->hello;
    if (mine.ranks != first.ranks) {
      return fmt::format("the number of ranks differs: {} was started with {}, {} with {}", describe(mine), mine.ranks,
                         describe(first), first.ranks);
    }
    if (mine.library_version != first.library_version) {
      return fmt::format("library versions differ: {} runs wreath {}, {} wreath {}", describe(mine),
                         mine.library_version, describe(first), first.library_version);
    }
    if (mine.ranks < 1 || mine.ranks > kMaximumRanks || mine.rank < 0 || mine.rank >= mine.ranks) {
      return fmt::format("{} is not a rank of a job of {} ranks (0 .. {})", describe(mine), mine.ranks, mine.ranks - 1);
    }
    if (const auto twin = by_rank_.find(mine.rank); twin != by_rank_.end()) {
      return fmt::format("two processes claim rank {}: pid {} on host {} and pid {} on host {}", mine.rank,
                         twin->second->hello->pid, twin->second->hello->host_name, mine.pid, mine.host_name);
    }
    return {};
  }

  bool handle(Guest& guest, Listening& listening) {
    if (phase_ != Phase::Opening || guest.answered != Phase::Gathering) return false;
    guest.answered = Phase::Opening;
    guest.tcp = std::move(listening.tcp);
    if (!listening.error.empty())
      fail(guest.hello->rank, fmt::format("{}: {}", describe(*guest.hello), listening.error));
    return true;
  }

  bool handle(Guest& guest, Ready& ready) {
    if (phase_ != Phase::Linking || guest.answered != Phase::Opening) return false;
    guest.answered = Phase::Linking;
    if (!ready.error.empty()) look_for_leavers();
    if (!ready.error.empty()) fail(guest.hello->rank, fmt::format("{}: {}", describe(*guest.hello), ready.error));
    return true;
  }

  // Refuses any other message: only the meeting point sends those.
  template <typename Other>
  bool handle(Guest&, Other&) {
    return false;
  }

  bool complete() const {
    const bool all_here = first_ != nullptr && by_rank_.size() == static_cast<std::size_t>(first_->hello->ranks);
    return all_here &&
           std::ranges::all_of(by_rank_, [&](const auto& entry) { return entry.second->answered == phase_; });
  }

  // Goes to the next phase when every rank has answered this one.
  void advance() {
    if (phase_ == Phase::Failed || !complete()) return;
    if (phase_ == Phase::Gathering) {
      phase_ = Phase::Opening;
      tell_all(make_summons());
    } else if (phase_ == Phase::Opening) {
      phase_ = Phase::Linking;
      if (timeout_ms_ >= 0 && deadline_.left_ms() < kLeastLinkMs) deadline_ = Deadline::after_ms(kLeastLinkMs);
      tell_all(make_table());
    } else {
      phase_ = Phase::Met;
    }
  }

  Summons make_summons() const {
    Summons summons;
    summons.loopback = true;
    for (const auto& [rank, guest] : by_rank_) {
      if (guest->hello->host != first_->hello->host) summons.loopback = false;
      if (guest->hello->need_streams) summons.open_tcp = true;
    }
    if (!summons.loopback) summons.open_tcp = true;
    return summons;
  }

  Table make_table() const {
    Table table;
    table.communicator = random_u64();
    fill_random(table.salt);
    table.settings = by_rank_.at(0)->hello->settings;
    table.link_ms = deadline_.left_ms();
    std::map<std::uint64_t, CoreSet> cores;
    for (const auto& [rank, guest] : by_rank_) add_cores(cores[guest->hello->host], guest->hello->cores);
    for (const auto& [rank, guest] : by_rank_) {
      const Hello& hello = *guest->hello;
      table.rows.push_back({hello.pid, hello.process, hello.host, hello.host_name, hello.library_version,
                            hello.unix_name, hello.device, guest->tcp, count_cores(cores[hello.host])});
    }
    return table;
  }

  void tell_all(const Message& message) {
    const Content content(encode(message));
    for (const auto& [rank, guest] : by_rank_) {
      const Status sent = send_content(guest->connection, content, Deadline::after_ms(kSendMs));
      if (sent) continue;
      const bool left = sent.error().code == ErrorCode::PeerLost;
      lose(*guest, left ? "left" : "does not read", left ? ErrorCode::PeerLost : ErrorCode::StartupFailed);
    }
  }

  void time_out() {
    if (phase_ == Phase::Failed || phase_ == Phase::Met) return;
    if (first_ == nullptr) return fail(-1, "no rank arrived at the meeting point within 10 minutes");
    std::vector<int> late;
    for (int rank = 0; rank < first_->hello->ranks; ++rank) {
      const auto found = by_rank_.find(rank);
      if (found == by_rank_.end() || found->second->answered != phase_) late.push_back(rank);
    }
    std::string text =
        fmt::format("rank{} {} of {} did not {} within {}", late.size() == 1 ? "" : "s", fmt::join(late, ", "),
                    first_->hello->ranks, phase_ == Phase::Gathering ? "arrive" : "answer", seconds(timeout_ms_));
    if (acceptor_.refused().total() > 0) text += fmt::format(" ({})", acceptor_.refused().text());
    if (phase_ == Phase::Gathering && acceptor_.only_unix())
      text +=
          " (only ranks of this host can come: for others each rank needs a key, which `wreath key` makes, and "
          "WREATH_ADDRESS)";
    if (acceptor_.trouble().empty()) return fail(late.empty() ? -1 : late.front(), text);
    // Those who are late are not to blame where they could not be let in.
    fail(-1, fmt::format("{}: {}", acceptor_.trouble(), text), ErrorCode::System);
  }

  // Fails the meeting: ranks that have not arrived may wait for a connection that cannot be accepted.
  void starve() {
    const std::string came =
        first_ == nullptr ? "no rank" : fmt::format("{} of {} ranks", by_rank_.size(), first_->hello->ranks);
    fail(-1, fmt::format("the meeting point {}; {} could be let in", acceptor_.trouble(), came), ErrorCode::System);
  }

  // Moves guests of this process to the end. This process may end as soon as its own rank knows the outcome, so that
  // rank gets it last.
  void own_process_last() {
    // This is not std::ranges: clang 14 builds the fuzzers and cannot compile libstdc++'s subrange.
    std::stable_partition(guests_.begin(), guests_.end(),
                          [](const auto& guest) { return !guest->hello || guest->hello->process != process_id(); });
  }

  void farewell() {
    acceptor_.close_listeners();
    own_process_last();
    for (const auto& guest : guests_) (void)send_message(guest->connection, Go{}, Deadline::after_ms(kSendMs));
  }

  void refuse(Guest& guest) const {
    (void)send_message(guest.connection, failure_, Deadline::after_ms(kAfterwordsMs));
    (void)::shutdown(guest.connection.get(), SHUT_WR);
  }

  // Sends the failure to all guests and, for a moment, to late ones. Guests are read until they close: closing with
  // unread bytes could destroy the message on its way.
  void afterwords() {
    log_info("start-up failed: {}", failure_.text);
    own_process_last();
    for (const auto& guest : guests_) refuse(*guest);
    const Deadline end = Deadline::after_ms(kAfterwordsMs);
    while (!end.passed()) {
      wait(end);
      for (Proved& proved : acceptor_.service()) {
        guests_.push_back(std::make_unique<Guest>());
        guests_.back()->connection = std::move(proved.connection);
        refuse(*guests_.back());
      }
      std::erase_if(guests_, [](const auto& guest) {
        std::array<std::byte, 4096> ignored{};
        return try_recv(guest->connection.get(), ignored) < 0;
      });
    }
  }

  Acceptor acceptor_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::map<int, Guest*> by_rank_;
  Guest* first_ = nullptr;
  Phase phase_ = Phase::Gathering;
  Deadline deadline_;
  std::int64_t timeout_ms_ = -1;
  Refusal failure_;
};

}  // namespace

void run_meeting(std::vector<Fd> listeners, Identity self) { Meeting(std::move(listeners), std::move(self)).run(); }

Status serve_meeting(std::vector<Fd> listeners, Identity self) {
  const BlockedSignals blocked;
  try {
    std::thread([listeners = std::move(listeners), self = std::move(self)]() mutable {
      (void)::pthread_setname_np(::pthread_self(), "wreath-meet");
      run_meeting(std::move(listeners), std::move(self));
    }).detach();
  } catch (const std::system_error& failure) {
    return os_error("start the meeting thread", failure.code().value());
  }
  return {};
}

}  // namespace wreath

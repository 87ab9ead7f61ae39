// The double puts an adapter's behaviour around a tcp wire.
#include "tests/unit/wires/double.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "src/base/fd.hpp"

namespace wreath {

Result<std::unique_ptr<Transport>> make_tcp(const TransportContext& context);

namespace test {
namespace {

constexpr int kMostRanks = 4;
using Adapters = std::array<std::shared_ptr<DoubleAdapter>, kMostRanks>;

Adapters& adapters() {
  static Adapters all = [] {
    Adapters made;
    for (auto& each : made) each = std::make_shared<DoubleAdapter>();
    return made;
  }();
  return all;
}

bool is_readable(int descriptor) {
  pollfd polled{descriptor, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

// Rings an eventfd when something comes over a socket, after a random delay, and only if it was armed before.
class Bell {
 public:
  Bell(int socket, std::shared_ptr<DoubleAdapter> adapter)
      : adapter_(std::move(adapter)),
        socket_(socket),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        end_(::eventfd(0, EFD_CLOEXEC)) {
    epoll_event watched{};
    watched.events = EPOLLIN | EPOLLET;
    watched.data.fd = socket;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &watched);
    watched.events = EPOLLIN;
    watched.data.fd = end_.get();
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, end_.get(), &watched);
    thread_ = std::jthread([this] { run(); });
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  ~Bell() {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(end_.get(), &one, sizeof one));
  }

  int descriptor() const { return event_.get(); }
  bool arm() {
    std::uint64_t count = 0;
    static_cast<void>(!::read(event_.get(), &count, sizeof count));
    // Now and then the adapter says that something may be there, and asks for another round. It is not armed then.
    constexpr int kSeldom = 8;
    if (++asked_ % kSeldom == 0) return armed_ = false;
    armed_ = true;
    if (is_readable(socket_)) return armed_ = false;
    ++adapter_->sleeps;
    return true;
  }

 private:
  void run() {
    std::mt19937 random(7);
    epoll_event event{};
    while (::epoll_wait(epoll_.get(), &event, 1, -1) >= 0) {
      if (event.data.fd == end_.get()) return;
      const int most_us = adapter_->ring_delay_us;
      if (most_us > 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(most_us)));
      if (!armed_.exchange(false)) continue;
      ++adapter_->rings;
      const std::uint64_t one = 1;
      static_cast<void>(!::write(event_.get(), &one, sizeof one));
    }
  }

  std::shared_ptr<DoubleAdapter> adapter_;
  int socket_;
  Fd epoll_;
  Fd event_;
  Fd end_;
  std::atomic<bool> armed_{false};
  int asked_ = 0;
  std::jthread thread_;
};

class DoubleWire final : public Wire {
 public:
  DoubleWire(std::unique_ptr<Link> inner, std::shared_ptr<DoubleAdapter> adapter)
      : inner_(std::move(inner)),
        wire_(*inner_->wire()),
        adapter_(std::move(adapter)),
        bell_(wire_.descriptor(), adapter_) {}

  SendFifo& send_fifo(std::uint16_t lane) override { return inner_->send_fifo(lane); }
  RecvFifo& recv_fifo(std::uint16_t lane) override { return inner_->recv_fifo(lane); }
  Status prepare(std::uint16_t lane) override { return inner_->prepare(lane); }
  bool closing_loses_data() const override { return inner_->closing_loses_data(); }
  Result<std::size_t> progress(bool expecting) override {
    ++adapter_->rounds;
    if (adapter_->blocked_rounds > 0) --adapter_->blocked_rounds;
    if (adapter_->needed_rounds > 0) --adapter_->needed_rounds;
    if (adapter_->ended) return Error{ErrorCode::PeerLost, "the peer has closed the double adapter's wire"};
    return wire_.progress(expecting);
  }
  int descriptor() const override { return bell_.descriptor(); }
  bool send_blocked() const override { return adapter_->blocked_rounds > 0 || wire_.send_blocked(); }
  std::size_t in_flight() const override { return wire_.in_flight(); }
  bool arm() override { return bell_.arm(); }
  bool stop() override { return adapter_->stop(); }
  std::string held_by() const override { return "double adapter"; }
  bool needs_progress() const override {
    ++adapter_->questions;
    return adapter_->needed_rounds > 0;
  }
  bool has_words() const override { return adapter_->speaks; }
  std::optional<Offer> take_word() override { return adapter_->take_word(); }
  Status on_word(Offer word) override { return adapter_->hear(word); }
  std::string path() const override { return "double adapter port 1"; }

 private:
  std::unique_ptr<Link> inner_;
  Wire& wire_;
  std::shared_ptr<DoubleAdapter> adapter_;
  Bell bell_;
};

class DoubleTransport final : public Transport {
 public:
  DoubleTransport(std::unique_ptr<Transport> inner, Rank self)
      : inner_(std::move(inner)), adapter_(adapters().at(static_cast<std::size_t>(self))) {}
  Status reachable(const Endpoint& self, const Endpoint& peer) const override { return inner_->reachable(self, peer); }
  Result<Offer> offer(const Endpoint& peer) override { return inner_->offer(peer); }
  Result<std::unique_ptr<Link>> connect(const Endpoint& peer, Offer theirs) override {
    auto link = inner_->connect(peer, std::move(theirs));
    if (!link) return link;
    return std::unique_ptr<Link>(std::make_unique<DoubleWire>(std::move(*link), adapter_));
  }

 private:
  std::unique_ptr<Transport> inner_;
  std::shared_ptr<DoubleAdapter> adapter_;
};

}  // namespace

bool DoubleAdapter::stop() {
  std::int64_t first = 0;
  stop_asked_ns_.compare_exchange_strong(first, now_ns());
  const std::int64_t after_ms = stop_after_ms_;
  if (after_ms == kNever || now_ns() - stop_asked_ns_ < after_ms * kNsPerMs) return false;
  stopped_ = true;
  return true;
}

void DoubleAdapter::say(const std::string& text) {
  const std::lock_guard lock(mutex_);
  to_say_.push_back(text);
}

std::optional<Offer> DoubleAdapter::take_word() {
  const std::lock_guard lock(mutex_);
  if (to_say_.empty()) return std::nullopt;
  Offer word;
  const auto* const text = reinterpret_cast<const std::byte*>(to_say_.front().data());
  word.bytes.assign(text, text + to_say_.front().size());
  to_say_.pop_front();
  return word;
}

void DoubleAdapter::on_word(std::function<Status(const std::string& text)> answer) {
  const std::lock_guard lock(mutex_);
  answer_ = std::move(answer);
}

Status DoubleAdapter::hear(const Offer& word) {
  std::string text(reinterpret_cast<const char*>(word.bytes.data()), word.bytes.size());
  std::function<Status(const std::string& text)> answer;
  {
    const std::lock_guard lock(mutex_);
    heard_.push_back(text);
    answer = answer_;
  }
  return answer ? answer(text) : Status();
}

std::vector<std::string> DoubleAdapter::heard() const {
  const std::lock_guard lock(mutex_);
  return heard_;
}

bool DoubleAdapter::has_heard(std::size_t count) const {
  const Deadline deadline = Deadline::after_ms(10'000);
  while (heard().size() < count && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return heard().size() >= count;
}

DoubleAdapter& adapter_of(int rank) { return *adapters().at(static_cast<std::size_t>(rank)); }

void reset_adapters() {
  for (auto& each : adapters()) each = std::make_shared<DoubleAdapter>();
}

Result<std::unique_ptr<Transport>> make_double(const TransportContext& context) {
  auto inner = make_tcp(context);
  if (!inner) return inner;
  return std::unique_ptr<Transport>(std::make_unique<DoubleTransport>(std::move(*inner), context.self.rank));
}

}  // namespace test
}  // namespace wreath

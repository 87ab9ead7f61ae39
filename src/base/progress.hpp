// The one progress thread of a process: it reads control connections and drives what nobody waits for.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/fd.hpp"
#include "wreath/result.hpp"

namespace wreath {

class Progress {
 public:
  // The thread serves clients. It alone calls them, one call at a time.
  class Client {
   public:
    virtual ~Client() = default;
    virtual void on_event(std::uint64_t token, std::uint32_t events) = 0;
    // One bounded round of work that nobody waits for. After Later, drive() is called again within kLaterMs.
    enum class Driven : std::uint8_t { Nothing, Later, Waiting, Moved };
    virtual Driven drive() = 0;
    // Prepares for a wait of all clients: drive() is called once more, and then `descriptors` end the wait. Returns how
    // many milliseconds the wait may last; 0 where there is something to do already. Undone by end_wait().
    virtual int begin_wait(std::vector<int>& descriptors) = 0;
    virtual void end_wait() = 0;
  };

  // The wait of a client that looks again now and then lasts so long.
  static constexpr int kWaitMs = 20;
  static constexpr int kLaterMs = 250;
  // The wait of a client for which only its descriptors matter.
  static constexpr int kForever = std::numeric_limits<int>::max();

  // The process's instance, made at the first call; its thread ends when the last holder lets go. System
  // when descriptors or threads are refused.
  static Result<std::shared_ptr<Progress>> instance();
  ~Progress();

  void add(Client& client);
  // Afterwards the thread is not in `client` and will not enter it again.
  void remove(Client& client);
  // `events` of epoll on `descriptor` call client.on_event(token, events). Level-triggered.
  void watch(int descriptor, std::uint32_t events, Client& client, std::uint64_t token);
  // The caller is within on_event.
  void watch_within(int descriptor, std::uint32_t events, Client& client, std::uint64_t token);
  void unwatch(int descriptor);
  // Has the process registered for peers' fences, which takes a while, when there is nothing else to do.
  void want_fences() {
    wants_fences_ = true;
    kick();
  }
  // There may be something to drive. Cheap when the thread is awake.
  void kick();

 private:
  Progress();
  Status start();
  void run();
  void dispatch(int timeout_ms);
  Client::Driven drive_all();
  void wait_driving();

  struct Watch {
    int descriptor;
    Client* client;
    std::uint64_t token;
  };

  Fd epoll_;
  Fd wake_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> kicked_{false};
  std::atomic<bool> wants_fences_{false};
  std::mutex mutex_;  // held while clients are called
  std::vector<Client*> clients_;
  std::vector<std::unique_ptr<Watch>> watches_;
  std::vector<std::unique_ptr<Watch>> removed_;  // until no returned event can name them
  std::thread thread_;
};

}  // namespace wreath

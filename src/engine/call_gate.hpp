// CallGate holds the two locks of an engine, one for calls and one for driving. A quick call takes both as one.
#pragma once

#include <atomic>
#include <cstdint>

namespace wreath {

class CallGate {
 public:
  // Takes the drive token, and returns false where another thread holds it.
  bool try_drive() noexcept { return take(Holder::Driver); }
  void end_drive() noexcept { holder_.store(Holder::Nobody, std::memory_order_release); }

  // A thread that waits to drive has a wish. Meanwhile the progress thread leaves the driving to that thread.
  class Wish {
   public:
    explicit Wish(CallGate& gate) : gate_(gate) { gate_.wishes_.fetch_add(1, std::memory_order_relaxed); }
    Wish(const Wish&) = delete;
    Wish& operator=(const Wish&) = delete;
    ~Wish() { gate_.wishes_.fetch_sub(1, std::memory_order_relaxed); }

   private:
    CallGate& gate_;
  };
  bool is_wanted() const noexcept { return wishes_.load(std::memory_order_relaxed) > 0; }

  // Begins a call, and returns false where another thread is in one. A thread that holds the token of a quick call must
  // not use it. A std::unique_lock holds the gate for a call.
  bool try_lock() noexcept {
    // The atomic operations here and in try_quick() have one order. Of two threads that begin at once, at least one
    // sees the other.
    if (in_call_.exchange(true, std::memory_order_seq_cst)) return false;
    if (holder_.load(std::memory_order_seq_cst) != Holder::QuickCall) return true;
    unlock();
    return false;
  }
  void unlock() noexcept { in_call_.store(false, std::memory_order_release); }

  // Begins a call and its driving together; end_drive() ends both. Returns false where another thread drives or is in a
  // call.
  bool try_quick() noexcept {
    if (!take(Holder::QuickCall)) return false;
    if (!in_call_.load(std::memory_order_seq_cst)) return true;
    end_drive();
    return false;
  }

 private:
  enum class Holder : std::uint8_t { Nobody, Driver, QuickCall };

  bool take(Holder holder) noexcept {
    Holder nobody = Holder::Nobody;
    return holder_.compare_exchange_strong(nobody, holder, std::memory_order_seq_cst, std::memory_order_relaxed);
  }

  std::atomic<Holder> holder_{Holder::Nobody};
  std::atomic<bool> in_call_{false};
  std::atomic<int> wishes_{0};
};

}  // namespace wreath

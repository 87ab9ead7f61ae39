// A rank has children of several kinds, which hold its resources. The rank's death is known at once nevertheless, and
// nothing of the children is touched.
#include <fcntl.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>

#include "tests/support/processes.hpp"
#include "tests/support/resources.hpp"
#include "wreath/memory.hpp"

namespace wreath::testing_support::children {
namespace {

// Lives, as a child, until its test is over.
[[noreturn]] void live_on() {
  ::alarm(60);
  for (;;) ::pause();
}

// Returns the kind of a descriptor of the library that this process has; empty where it has none. Such are an eventfd,
// shared memory, an epoll set, or a second socket beside the one of commands.
std::string left_of_library() {
  for (const std::string kind : {"socket:", "anon_inode:", "memfd:wreath"}) {
    if (descriptors_of(::getpid(), kind.c_str()) > (kind == "socket:" ? 1 : 0)) return kind;
  }
  return "";
}

// Forks without fork()'s handlers, as runtimes of other languages do.
pid_t clone_without_handlers() {
  return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

// Opens descriptors in the child, at the numbers of descriptors that it has released, and checks their contents.
struct OwnFiles {
  std::vector<std::array<int, 2>> pipes{40};
  OwnFiles() {
    for (auto& pipe : pipes) {
      if (::pipe(pipe.data()) != 0) std::abort();
    }
  }
  // Returns whether each pipe is open, empty, and carries a byte.
  bool untouched() const {
    return std::all_of(pipes.begin(), pipes.end(), [](const auto& pipe) {
      pollfd polled{pipe[0], POLLIN, 0};
      char byte = 'x';
      return ::poll(&polled, 1, 0) == 0 && ::write(pipe[1], &byte, 1) == 1 && ::read(pipe[0], &byte, 1) == 1;
    });
  }
};

// Acts like a data loader's worker: opens files, uses and destroys inherited objects, and makes a child itself. Returns
// 0 where all is well.
int work(Communicator& communicator, Work& pending, std::span<std::byte> shared) {
  if (!left_of_library().empty()) return 1;
  const OwnFiles files;
  std::vector<float> buffer(10);
  if (communicator.all_reduce(std::span<float>(buffer))) return 2;
  if (communicator.abort() || pending.wait(0)) return 3;
  { const Communicator gone = std::move(communicator); }
  if (shared[0] != std::byte{7} || shared.back() != std::byte{7}) return 4;
  const pid_t grandchild = ::fork();
  if (grandchild == 0) ::_exit(files.untouched() ? 0 : 5);
  int status = 0;
  ::waitpid(grandchild, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return 5;
  return files.untouched() ? 0 : 6;
}

// Starts ranks as on two hosts: ranks 0 and 1 on one, the others on the other. Only a name distinguishes the hosts.
Result<Communicator> create_on_hosts(const Child& child) {
  const auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
  set("NCCL_HOSTID", std::to_string(child.rank() / 2));
  set("RANK", std::to_string(child.rank()));
  set("WORLD_SIZE", std::to_string(child.ranks()));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", child.text("port"));
  set("WREATH_KEY", std::string(64, 'c'));
  return Communicator::create_from_environment(child.options());
}

// Goes on with the survivors. All of them, on other hosts, too, know which rank is dead.
int go_on(const Child& child, Communicator& communicator, const Error& error) {
  const int code = child.failed(error);
  auto rest = communicator.shrink(10'000);
  if (!rest) return child.failed(rest.error());
  std::vector<float> ones(1000, 1);
  if (const Status status = rest->all_reduce(std::span<float>(ones)); !status) return child.failed(status.error());
  child.report("rest " + std::to_string(static_cast<int>(ones.back())));
  return code;
}

// Makes calls until the communicator fails. Rank 0 first does the following, by its argument `child`:
//   worker    forks, and the child works and ends: everything goes on; then it forks one that lives on
//   server    forks a server, which forks and ends its communicator, and whose children live on
//   busy      forks while another thread is in a call
//   clone     makes a child that runs no handlers
WREATH_ROLE(with_child) {
  auto made = child.number("port") == 0 ? child.create() : create_on_hosts(child);
  if (!made) return child.failed(made.error());
  Communicator communicator = std::move(*made);
  Memory memory = std::move(allocate(4096)).value();
  const std::span<std::byte> shared(memory.data(), memory.size());
  std::fill(shared.begin(), shared.end(), std::byte{7});
  const std::string kind = child.rank() == 0 ? child.text("child") : "";
  std::atomic<bool> forked{kind.empty()};
  std::atomic<bool> calling{false};
  std::vector<float> buffer(static_cast<std::size_t>(child.number("count", 1000)), 1);
  Work pending = communicator.all_reduce_async(buffer.data(), buffer.data(), buffer.size(), DataType::Float32).value();
  const auto make_child = [&] {
    while (kind == "busy" && !calling) std::this_thread::yield();
    if (kind == "worker") {
      const pid_t worker = ::fork();
      if (worker == 0) ::_exit(work(communicator, pending, shared));
      int status = 0;
      ::waitpid(worker, &status, 0);
      child.report("worker " + std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status)));
    }
    const pid_t lives = kind == "clone" ? clone_without_handlers() : ::fork();
    ::setpgid(lives, lives);  // both processes call it; the test ends the group
    if (lives == 0) {
      if (kind == "server" && ::fork() != 0) {
        const Communicator gone = std::move(communicator);
      }
      live_on();
    }
    child.report("child " + std::to_string(lives));
    forked = true;
  };
  std::thread forking;
  if (kind == "busy") forking = std::thread(make_child);
  if (kind != "busy" && !kind.empty()) make_child();
  if (const Status done = pending.wait(); !done) return child.failed(done.error());
  for (std::int64_t round = 0;; round += forked ? 1 : 0) {
    calling = true;
    if (const Status status = communicator.all_reduce(std::span<float>(buffer)); !status)
      return go_on(child, communicator, status.error());
    if (round == 20) child.report("running");
    if (round == 40 && child.number("idle") != 0) {
      child.report("idle");
      eventually(30'000, [&] { return !communicator.error(); });
      return go_on(child, communicator, communicator.error().error());
    }
  }
}

struct Case {
  std::string child;
  std::string transport = "shm";
  int ranks = 3;
  int port = 0;  // not 0: on two hosts
  bool idle = false;
};

// Kills rank 0, whose children live on.
void kill_parent(const Case& given) {
  SCOPED_TRACE(given.child + " " + given.transport);
  Job job("with_child", given.ranks,
          {{"child", given.child},
           {"transport", given.transport},
           {"port", std::to_string(given.port)},
           {"idle", given.idle ? "1" : "0"},
           {"stall_ms", "20000"},
           {"arrival_ms", "20000"},
           {"late_ms", "20000"}});
  ASSERT_TRUE(given.port != 0 || job.share_id()) << job.logs();
  ASSERT_TRUE(job[0].wait_for("child ", 20'000 * kSlower)) << job.logs();
  const auto last = static_cast<pid_t>(std::stol(job[0].lines().back().substr(6)));
  ASSERT_TRUE(job.all_report(given.idle ? "idle" : "running", 20'000 * kSlower)) << job.logs();
  for (const std::string& line : job[0].lines()) {
    EXPECT_TRUE(!line.starts_with("worker ") || line == "worker 0") << line;
  }
  job[0].signal(SIGKILL);
  const std::int64_t most_ms = given.port != 0 ? 3'000 : 1'000;
  const Deadline deadline = Deadline::after_ms(most_ms * kSlower);
  for (int rank = 1; rank < given.ranks; ++rank) {
    EXPECT_TRUE(job[rank].wait_for("error ", deadline.left_ms())) << "rank " << rank << "\n" << job.logs();
    const auto failure = job[rank].failure();
    ASSERT_TRUE(failure.has_value()) << job.logs();
    EXPECT_EQ(failure->code, ErrorCode::PeerLost) << failure->message;
    EXPECT_EQ(failure->failed_rank, 0) << failure->message;
  }
  for (int rank = 1; rank < given.ranks; ++rank) {
    EXPECT_TRUE(job[rank].wait_for("rest " + std::to_string(given.ranks - 1), 5'000 * kSlower)) << job.logs();
  }
  EXPECT_EQ(::kill(last, 0), 0) << "the child was to live on";
  ::kill(-last, SIGKILL);
}

// A child that allocates may wait for ever for a sanitizer's lock, which another thread held at the fork.
TEST(Children, OfForkDoNotHideTheirParentsDeath) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's locks do not survive the fork: run it in the preset dev";
  for (const std::string transport : {"shm", "tcp"}) {
    kill_parent({"worker", transport});
    kill_parent({"server", transport});
    kill_parent({"busy", transport});
  }
}

TEST(Children, OfForkDoNotHideTheDeathOfAnIdleParent) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's locks do not survive the fork: run it in the preset dev";
  kill_parent({.child = "worker", .idle = true});
}

TEST(Children, WithoutHandlersDoNotHideTheirParentsDeath) {
  kill_parent({"clone", "shm"});
  kill_parent({"clone", "tcp"});
  kill_parent({.child = "clone", .ranks = 7, .idle = true});  // not all ranks watch its process
}

TEST(Children, DoNotHideTheirParentsDeathFromOtherHosts) {
  int port = 29'917;
  for (const std::string child : {"clone", "worker"}) {
    if (kSanitized && child == "worker") continue;
    for (const bool idle : {false, true}) {
      kill_parent({.child = child, .transport = "tcp", .ranks = 4, .port = port++, .idle = idle});
    }
  }
}

}  // namespace
}  // namespace wreath::testing_support::children

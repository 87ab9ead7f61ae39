// Tests the client of PMI-1 and PMI-2: with a launcher of the test's own, and with scripts of launchers that go wrong.
#include "src/bootstrap/pmi.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "src/bootstrap/launched.hpp"
#include "src/bootstrap/meeting_file.hpp"
#include "tests/unit/bootstrap/helpers.hpp"

namespace wreath {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string read_bytes(int socket, std::size_t count) {
  std::string text(count, '\0');
  std::size_t got = 0;
  while (got < count) {
    const ssize_t moved = ::read(socket, text.data() + got, count - got);
    if (moved <= 0) return {};
    got += static_cast<std::size_t>(moved);
  }
  return text;
}

// Returns a line without its end; empty where the other end has closed.
std::string read_line(int socket) {
  std::string line;
  for (std::string one = read_bytes(socket, 1); !one.empty() && one != "\n"; one = read_bytes(socket, 1)) line += one;
  return line;
}

std::string read_request(int socket, const PmiVersion& version) {
  if (!version.counted) return read_line(socket);
  const std::string length = read_bytes(socket, 6);
  return length.empty() ? std::string() : read_bytes(socket, std::stoul(length));
}

std::string counted(const std::string& text) {
  std::string length = std::to_string(text.size());
  length.resize(6, ' ');
  return length + text;
}

void write_text(int socket, const std::string& text) {
  (void)send_all(socket, std::as_bytes(std::span(text)), Deadline::after_ms(2000));
}

// Is a launcher that serves all ranks of a job, each in a thread, as Hydra (PMI-1) and Slurm (PMI-2) do.
class TestLauncher {
 public:
  TestLauncher(const PmiVersion& version, int ranks) : version_(version), ranks_(ranks), fence_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto pair = socket_pair();
      clients_.push_back(std::move(pair->first));
      threads_.emplace_back([this, rank, end = std::move(pair->second)] { serve(rank, end.get()); });
    }
  }
  ~TestLauncher() {
    clients_.clear();
    for (std::thread& thread : threads_) thread.join();
  }
  int client(int rank) const { return clients_[static_cast<std::size_t>(rank)].get(); }
  int said_goodbye() const { return said_goodbye_; }

 private:
  static std::string value(const std::string& request, const std::string& name, char separator) {
    const std::size_t at = request.find(name + "=");
    const std::size_t begin = at + name.size() + 1;
    return at == std::string::npos ? std::string() : request.substr(begin, request.find(separator, begin) - begin);
  }
  std::string answer(int rank, const std::string& request) {
    const char mark = version_.separator;
    const std::string word = value(request, "cmd", mark);
    const std::lock_guard lock(mutex_);
    if (word == "get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_1_0\n";
    if (word == "fullinit")
      return "cmd=fullinit-response;rc=0;pmi-version=2;rank=" + std::to_string(rank) +
             ";size=" + std::to_string(ranks_) + ";appnum=-1;debugged=FALSE;";
    if (word == "put" || word == "kvs-put") {
      EXPECT_EQ(value(request, "kvsname", mark), word == "put" ? "kvs_1_0" : "");
      texts_[value(request, "key", mark)] = value(request, "value", mark);
      return word == "put" ? "cmd=put_result rc=0 msg=success\n" : "cmd=kvs-put-response;rc=0;";
    }
    const std::string text = texts_[value(request, "key", mark)];
    if (word == "get") return "cmd=get_result rc=0 msg=success value=" + text + "\n";
    if (word == "kvs-get") return "cmd=kvs-get-response;rc=0;found=TRUE;value=" + text + ";";
    if (word == "finalize") ++said_goodbye_;
    if (word == "barrier_in") return "cmd=barrier_out\n";
    if (word == "kvs-fence") return "cmd=kvs-fence-response;rc=0;";
    return version_.counted ? "cmd=finalize-response;rc=0;" : "cmd=finalize_ack\n";
  }
  void serve(int rank, int socket) {
    EXPECT_EQ(read_line(socket), "cmd=init pmi_version=" + std::to_string(version_.version) +
                                     " pmi_subversion=" + std::to_string(version_.subversion));
    write_text(socket, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n");
    for (std::string request; request.find("cmd=finalize") == std::string::npos;) {
      request = read_request(socket, version_);
      if (request.empty()) return;
      const std::string reply = answer(rank, request);
      if (reply.find("barrier_out") != std::string::npos || reply.find("fence") != std::string::npos)
        fence_.arrive_and_wait();
      write_text(socket, version_.counted ? counted(reply) : reply);
    }
  }

  const PmiVersion& version_;
  int ranks_;
  std::barrier<> fence_;
  std::mutex mutex_;
  std::map<std::string, std::string> texts_;
  std::atomic<int> said_goodbye_ = 0;
  std::vector<Fd> clients_;
  std::vector<std::thread> threads_;
};

TEST(Pmi, CarriesRank0sTextToAllRanks) {
  for (const PmiVersion* version : {&kPmi1, &kPmi2}) {
    constexpr int kRanks = 5;
    std::vector<std::string> got(kRanks);
    int said_goodbye = 0;
    {
      TestLauncher launcher(*version, kRanks);
      std::vector<std::thread> ranks;
      for (int rank = 0; rank < kRanks; ++rank) {
        ranks.emplace_back([&, rank] {
          const Carriage carriage{rank, kRanks, rank == 0 ? "the/text,of-0" : "", Deadline::after_ms(10'000)};
          got[static_cast<std::size_t>(rank)] = carry_by_pmi(launcher.client(rank), *version, carriage).value();
        });
      }
      for (std::thread& rank : ranks) rank.join();
      said_goodbye = launcher.said_goodbye();
    }
    EXPECT_THAT(got, ::testing::Each("the/text,of-0"));
    EXPECT_EQ(said_goodbye, kRanks) << "launchers take a process that goes without a word for a failure";
  }
}

const std::string kBegun = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n";
const std::string kSpace = "cmd=my_kvsname kvsname=s\n";
const std::string kRank1 = counted("cmd=fullinit-response;rc=0;rank=1;size=2;");

// Runs rank 1 of 2 beside a launcher that answers each request with the next of `answers`, whatever it asks, and closes
// the connection after the last. An empty answer never comes.
Result<std::string> talk(const PmiVersion& version, const std::vector<std::string>& answers, int timeout_ms = 5000) {
  auto pair = socket_pair();
  std::thread launcher([&, end = std::move(pair->second)]() mutable {
    bool first = true;
    for (const std::string& answer : answers) {
      const std::string request = first ? read_line(end.get()) : read_request(end.get(), version);
      first = false;
      if (answer.empty()) (void)read_line(end.get());
      write_text(end.get(), answer);
    }
    end = Fd();
  });
  auto got = carry_by_pmi(pair->first.get(), version, {1, 2, {}, Deadline::after_ms(timeout_ms)});
  pair->first = Fd();
  launcher.join();
  return got;
}

TEST(Pmi, TakesTheAnswersOfRealLaunchers) {
  EXPECT_EQ(talk(kPmi1, {kBegun, kSpace, "cmd=barrier_out  rc=0 \n", "cmd=get_result rc=0 msg=success value=v/1\n",
                         "cmd=finalize_ack rc=0\n"})
                .value(),
            "v/1");
  EXPECT_EQ(talk(kPmi2, {kBegun, kRank1, counted("cmd=kvs-fence-response;rc=0;errmsg=a;;b;"),
                         counted("cmd=kvs-get-response;rc=0;found=TRUE;value=v/1;"), counted("cmd=finalize-response;")})
                .value(),
            "v/1");
}

TEST(Pmi, NamesWhatTheLauncherRefuses) {
  struct Situation {
    const PmiVersion& version;
    std::vector<std::string> answers;
    std::string words;
  };
  const std::string fence = "cmd=barrier_out\n";
  const std::string fence2 = counted("cmd=kvs-fence-response;rc=0;");
  const std::vector<Situation> situations{
      {kPmi2, {"cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n"}, "it speaks version 1.1 only"},
      {kPmi1, {"HTTP/1.1 400 Bad Request\n"}, "response_to_init was expected, but 24 bytes came that are none"},
      {kPmi1, {kBegun, "cmd=put_result rc=0\n"}, "my_kvsname was expected"},
      {kPmi1, {kBegun, "cmd=my_kvsname kvsname=\n"}, "it names no key-value space"},
      {kPmi1, {kBegun, kSpace, fence, "cmd=get_result rc=-1 msg=key_not_found\n"}, "'get': rc=-1, key_not_found"},
      {kPmi1, {kBegun, kSpace, fence, "cmd=get_result rc=x value=v\n"}, "'get': rc=x"},
      {kPmi1, {kBegun, kSpace, fence, "cmd=get_result rc=0\n"}, "it has no wreath-place"},
      {kPmi2,
       {kBegun, counted("cmd=fullinit-response;rc=0;rank=0;size=2;")},
       "rank 0 of 2, and the variables rank 1 of 2"},
      {kPmi2, {kBegun, counted("cmd=fullinit-response;rc=0;rank=1;size=two;")}, "rank 1 of -1"},
      {kPmi2, {kBegun, kRank1, counted("cmd=kvs-fence-response;rc=14;errmsg=no\33[1m way;")}, "rc=14, no?[1m way"},
      {kPmi2, {kBegun, kRank1, fence2, counted("cmd=kvs-get-response;rc=0;found=FALSE;")}, "it has no wreath-place"},
      {kPmi2,
       {kBegun, kRank1, fence2, counted("cmd=kvs-get-response;rc=0;found=FALSE;value=v/1;")},
       "it has no wreath-place"},
      {kPmi2, {kBegun, "-1    cmd=x;"}, "fullinit-response was expected"},
      {kPmi2, {kBegun, "99999 cmd=x;"}, "longer than 16384 bytes"},
      {kPmi2, {kBegun, "length"}, "fullinit-response was expected"},
      {kPmi2, {kBegun, counted("cmd;=")}, "fullinit-response was expected"},
      {kPmi1, {std::string(20'000, 'x')}, "longer than 16384 bytes"}};
  for (const Situation& each : situations) {
    const auto got = talk(each.version, each.answers);
    ASSERT_FALSE(got) << each.words;
    EXPECT_EQ(got.error().code, ErrorCode::StartupFailed) << each.words;
    EXPECT_THAT(got.error().message, AllOf(HasSubstr(each.words), HasSubstr("rank 1, at the launcher's PMI-"),
                                           HasSubstr("PMI_FD="), Not(HasSubstr("\33"))));
  }
}

TEST(Pmi, SaysThatTheLauncherHasEnded) {
  for (const std::vector<std::string>& answers : {std::vector{kBegun}, {kBegun, kSpace}, {kBegun, "cmd=my_kv"}}) {
    const auto got = talk(kPmi1, answers);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::PeerLost);
    EXPECT_THAT(got.error().message, HasSubstr("the launcher has ended"));
  }
}

TEST(Pmi, WaitsNoLongerThanTheStart) {
  const auto got = talk(kPmi1, {kBegun, kSpace, ""}, 200);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::Timeout);
  EXPECT_THAT(got.error().message, HasSubstr("no barrier_out came within the start's time: ranks are missing"));
}

// Returns what a rank says that finds no others at a place, which a file brings it after a second.
std::string through_a_late_file() {
  const Folder folder;
  const std::string path = folder / "meeting";
  std::thread late([&] {
    sleep_ms(1100);
    const std::string draft = path + ".draft";
    std::ofstream(draft) << UniqueId::create().value().to_string();
    ::chmod(draft.c_str(), 0600);
    std::filesystem::rename(draft, path);
  });
  const auto result = join_file(path, request(1, 2, 6000));
  late.join();
  return result ? "met" : result.error().message;
}

// Does the same where a launcher brings the place. The caller has set its variables.
std::string through_a_late_launcher(const TestLauncher& launcher) {
  std::thread late([&] {
    sleep_ms(1100);
    const std::string text = make_carried_text(false, {"127.0.0.1"});
    (void)carry_by_pmi(launcher.client(0), kPmi1, {0, 2, text, Deadline::after_ms(10'000)});
  });
  const auto result = join_environment(environment_job().value(), request(1, 2, 6000));
  late.join();
  return result ? "met" : result.error().message;
}

// Five seconds are left at least.
TEST(StartsTime, CoversTheWaitForThePlaceAndThatForTheOthers) {
  static bool brought = false;
  if (std::exchange(brought, true)) GTEST_SKIP() << "a launcher brings a process its place once: run it alone";
  TestLauncher launcher(kPmi1, 2);
  const Environment mpiexec{{{"PMI_RANK", "1"},
                             {"PMI_SIZE", "2"},
                             {"PMI_FD", std::to_string(launcher.client(1))},
                             {"WREATH_KEY", std::string(64, '7')}}};
  std::string by_file;
  std::thread other([&] { by_file = through_a_late_file(); });
  EXPECT_THAT(through_a_late_launcher(launcher),
              AllOf(HasSubstr("found no meeting point"), HasSubstr("within 5000 ms")));
  other.join();
  EXPECT_THAT(by_file, HasSubstr("did not arrive within 5 s"));
}

TEST(Pmi, EndsItsWaitWhenInterrupted) {
  auto pair = socket_pair();
  auto interrupt = socket_pair();
  write_text(interrupt->second.get(), "x");
  const auto got =
      carry_by_pmi(pair->first.get(), kPmi1, {1, 2, {}, Deadline::after_ms(20'000), interrupt->first.get()});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::NotReady);
}

TEST(Pmi, NeedsASocket) {
  const Fd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int descriptor : {file.get(), 9999}) {
    const auto got = carry_by_pmi(descriptor, kPmi1, {0, 2, "text", Deadline::after_ms(1000)});
    ASSERT_FALSE(got);
    EXPECT_THAT(got.error().message, HasSubstr("it is no socket of this process"));
  }
}

}  // namespace
}  // namespace wreath

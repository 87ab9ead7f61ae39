// `wreath run` as a user runs it: how ranks start, speak and end, and that nothing is left of them.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <sstream>

#include "tests/support/processes.hpp"

namespace wreath::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The command lines of processes that hold `part`, but for this process.
std::vector<pid_t> processes_with(const std::string& part) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(::getpid())) continue;
    if (text_of("/proc/" + name + "/cmdline").find(part) != std::string::npos)
      found.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return found;
}

// A `wreath run` in the background; its output goes to files of a folder.
class Launcher {
 public:
  explicit Launcher(const std::vector<std::string>& arguments, const Arguments& environment = {}) {
    std::vector<std::string> words{WREATH_BINARY_DIR "/wreath", "run"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(::open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    ::dup2(::open((folder_ / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    for (const char* name : {"WREATH_KEY", "WREATH_KEY_FILE", "WREATH_SSH", "WREATH_PORT"}) ::unsetenv(name);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execv(argv[0], argv.data());
    ::_exit(97);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  std::string out() const { return text_of(folder_ / "out"); }
  std::string err() const { return text_of(folder_ / "err"); }
  const Folder& folder() const { return folder_; }
  // Its exit code, or 1000 and the signal that ended it; -1: it did not end in time.
  int join(std::int64_t ms = 20'000 * kSlower) {
    int status = 0;
    if (!eventually(ms, [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; })) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

 private:
  Folder folder_;
  pid_t pid_ = -1;
};

std::vector<std::string> shell(std::vector<std::string> options, const std::string& script) {
  options.insert(options.end(), {"sh", "-c", script});
  return options;
}

// A word that only processes of this test have on their command line: an unlikely number of seconds.
std::string unlikely_number() {
  static int next = 0;
  return std::to_string(100'000 + ::getpid() % 30'000 * 30 + ++next) + ".25";
}

// An `ssh` that stays on this host: it says something, as login shells do, and runs the command.
std::string fake_ssh(const Folder& folder) {
  const std::string path = folder / "ssh";
  std::ofstream(path) << "#!/bin/sh\necho \"Welcome to $1\"\n[ \"$1\" != down ] || exit 255\nexec sh -c \"$2\"\n";
  ::chmod(path.c_str(), 0700);
  return path;
}

TEST(Run, NumbersItsRanks) {
  Launcher run(
      shell({"-n", "3"}, "echo \"$WREATH_RANK/$WREATH_RANKS $RANK/$WORLD_SIZE $LOCAL_RANK $WREATH_LOCAL_RANK\""));
  EXPECT_EQ(run.join(), 0) << run.err();
  for (const char* line : {"[0] 0/3 0/3 0 0\n", "[1] 1/3 1/3 1 1\n", "[2] 2/3 2/3 2 2\n"})
    EXPECT_THAT(run.out(), HasSubstr(line));
  EXPECT_EQ(run.err(), "");
}

TEST(Run, KeepsLinesWholeAndStreamsApart) {
  Launcher run(
      shell({"-n", "4"},
            "i=0; while [ $i -lt 200 ]; do printf 'from %s ' $RANK; printf 'line %s\\n' $i; i=$((i + 1)); done; "
            "echo trouble >&2; printf last"));
  EXPECT_EQ(run.join(), 0);
  std::istringstream lines(run.out());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_GE(line.size(), 8u);
    const std::string rank = line.substr(1, 1);
    EXPECT_TRUE(line == "[" + rank + "] last" || line.starts_with("[" + rank + "] from " + rank + " line ")) << line;
  }
  EXPECT_EQ(count, 4 * 201) << "the last line has no end, but is there";
  EXPECT_EQ(run.err().size(), 4 * std::string("[0] trouble\n").size());
}

TEST(Run, CanLeavePrefixesOutAndWriteFiles) {
  const Folder folder;
  Launcher run(shell({"-n", "2", "--no-prefix", "--output", folder / "logs"}, "echo out; echo err >&2"));
  EXPECT_EQ(run.join(), 0);
  EXPECT_EQ(run.out(), "out\nout\n");
  EXPECT_EQ(text_of(folder / "logs/rank-1.out"), "out\n");
  EXPECT_EQ(text_of(folder / "logs/rank-0.err"), "err\n");
}

TEST(Run, EndsAllWithTheFirstFailure) {
  const std::string number = unlikely_number();
  Launcher run(shell({"-n", "4"}, "[ $RANK = 2 ] && exit 7; sleep " + number));
  EXPECT_EQ(run.join(), 7);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("wreath: error: rank 2 (host "), HasSubstr("ended with exit code 7")));
  EXPECT_TRUE(processes_with(number).empty());
}

TEST(Run, EndsAllWhenASignalEndsARank) {
  Launcher run(shell({"-n", "2"}, "[ $RANK = 1 ] && kill -SEGV $$; sleep 100"));
  EXPECT_EQ(run.join(), 128 + SIGSEGV);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("rank 1"), HasSubstr("signal 11")));
}

TEST(Run, KillsWhoDoesNotEnd) {
  Launcher run(
      shell({"-n", "2", "--grace", "0.2"}, "trap '' TERM; [ $RANK = 0 ] && exit 4; while :; do sleep 0.05; done"));
  EXPECT_EQ(run.join(), 4);
}

TEST(Run, SaysWhatCannotBeRun) {
  Launcher missing({"-n", "2", "./no-such-program"});
  EXPECT_EQ(missing.join(), 6);
  EXPECT_THAT(missing.err(), HasSubstr("cannot run './no-such-program': No such file or directory"));
}

TEST(Run, PassesSignalsOn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Launcher run(shell({"-n", "2"}, "trap 'echo got it; exit 0' INT TERM; echo ready; while :; do sleep 0.05; done"));
    ASSERT_TRUE(eventually(10'000 * kSlower, [&] {
      return run.out() == "[0] ready\n[1] ready\n" || run.out() == "[1] ready\n[0] ready\n";
    }));
    run.signal(signal);
    EXPECT_EQ(run.join(), 128 + signal);
    EXPECT_THAT(run.out(), AllOf(HasSubstr("[0] got it"), HasSubstr("[1] got it")));
  }
}

TEST(Run, EndsWhenNobodyReadsItsOutput) {
  const std::string command =
      "timeout 20 " WREATH_BINARY_DIR "/wreath run -n 2 yes 2>&1 | head -n 1; exit ${PIPESTATUS[0]}";
  EXPECT_EQ(::system(("bash -c '" + command + "' >/dev/null").c_str()) >> 8, 128 + SIGPIPE);  // NOLINT(cert-env33-c)
}

// Whatever ranks have started: in their group, in a session of its own, and by a process that is gone.
constexpr const char* kFamily = "sleep N & setsid sleep N & (setsid sleep N &) ; echo ready; sleep N";

std::string family(const std::string& number) {
  std::string script = kFamily;
  for (std::size_t at = script.find('N'); at != std::string::npos; at = script.find('N')) script.replace(at, 1, number);
  return script;
}

void expect_nothing_left(Launcher& run, const std::string& number, std::size_t processes, int signal) {
  ASSERT_TRUE(eventually(10'000 * kSlower, [&] {
    return processes_with("sleep" + std::string(1, '\0') + number).size() == processes;
  })) << run.err();
  run.signal(signal);
  EXPECT_NE(run.join(), -1);
  EXPECT_TRUE(eventually(10'000 * kSlower, [&] { return processes_with(number).empty(); }))
      << "left: " << processes_with(number).size();
}

TEST(Run, LeavesNoProcessWhenItIsKilled) {
  const std::string number = unlikely_number();
  Launcher run(shell({"-n", "2"}, family(number)));
  expect_nothing_left(run, number, 8, SIGKILL);
}

TEST(Run, LeavesNoProcessOfOtherHostsWhenItIsKilled) {
  const Folder folder;
  const std::string number = unlikely_number();
  Launcher run(
      shell({"-n", "2", "--hosts", "h1,h2", "--ssh", fake_ssh(folder), "--address", "127.0.0.1"}, family(number)));
  expect_nothing_left(run, number, 8, SIGKILL);
}

TEST(Run, LeavesNoProcessWhenItsAgentIsKilled) {
  const std::string number = unlikely_number();
  Launcher run(shell({"-n", "1"}, family(number)));
  ASSERT_TRUE(eventually(10'000 * kSlower, [&] { return run.out() == "[0] ready\n"; }));
  for (const pid_t pid : processes_with(number)) {
    std::istringstream status(text_of("/proc/" + std::to_string(pid) + "/stat"));
    std::string word;
    pid_t parent = 0;
    status >> word >> word >> word >> parent;
    if (parent == run.pid()) ::kill(pid, SIGKILL);
  }
  EXPECT_EQ(run.join(), 6);
  EXPECT_THAT(run.err(), HasSubstr("agent ended by signal 9"));
  EXPECT_TRUE(eventually(10'000 * kSlower, [&] { return processes_with(number).empty(); }));
}

// Neither in any command line nor in what is printed, here and through ssh; but the ranks have it.
TEST(Run, KeepsTheKeyOutOfCommandLines) {
  const Folder folder;
  const std::string number = unlikely_number();
  Launcher run(shell({"-n", "2", "--verbose", "--hosts", "h1,h2", "--ssh", fake_ssh(folder), "--address", "127.0.0.1"},
                     "echo $WREATH_KEY >" + (folder / "key-$RANK") + "; sleep " + number));
  ASSERT_TRUE(eventually(10'000 * kSlower, [&] {
    return text_of(folder / "key-0").size() == 65 && text_of(folder / "key-1").size() == 65;
  })) << run.err();
  const std::string key = text_of(folder / "key-0").substr(0, 64);
  EXPECT_EQ(text_of(folder / "key-1"), key + "\n");
  EXPECT_TRUE(processes_with(key).empty());
  run.signal(SIGTERM);
  run.join();
  EXPECT_EQ((run.out() + run.err()).find(key), std::string::npos);
}

TEST(Run, SaysWhichHostIsDown) {
  const Folder folder;
  Launcher run(
      shell({"-n", "2", "--hosts", "h1,down", "--ssh", fake_ssh(folder), "--address", "127.0.0.1"}, "sleep 100"));
  EXPECT_EQ(run.join(), 6);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("host down: no agent came up there"), HasSubstr("exit code 255"),
                               HasSubstr("[down] Welcome to down")));
}

TEST(Run, NamesTheHostOfAFailure) {
  const Folder folder;
  Launcher run(shell({"--hosts", "h1:2,h2:1", "--address", "127.0.0.1"}, "[ $RANK = 2 ] && exit 9; sleep 100"),
               {{"WREATH_SSH", fake_ssh(folder)}});
  EXPECT_EQ(run.join(), 9);
  EXPECT_THAT(run.err(), HasSubstr("rank 2 (host h2, pid "));
}

WREATH_ROLE(sum) {
  const std::string victim = child.text("victim", "-1");
  auto communicator = Communicator::create_from_environment(child.options());
  if (!communicator) return exit_code(communicator.error().code);
  if (std::to_string(communicator->rank()) == victim) ::raise(SIGKILL);
  std::vector<float> buffer(1000, static_cast<float>(communicator->rank() + 1));
  if (const Status status = communicator->all_reduce(std::span<float>(buffer)); !status) {
    std::cerr << status.error().message << "\n";
    return exit_code(status.error().code);
  }
  const auto n = static_cast<float>(communicator->ranks());
  std::cout << "to a neighbour: " << communicator->transport_to(communicator->rank() == 0 ? 1 : 0) << std::endl;
  return buffer[999] == n * (n + 1) / 2 ? 0 : 1;
}

std::vector<std::string> sum(std::vector<std::string> options, const std::string& argument = "victim=-1") {
  options.insert(options.end(), {std::filesystem::read_symlink("/proc/self/exe").string(), "--role=sum", argument});
  return options;
}

TEST(Run, BringsRanksTogether) {
  const Folder folder;
  const Arguments quiet{{"WREATH_RECORDER_DIR", folder.path()}};
  for (const char* transport : {"", "tcp"}) {
    Launcher run(sum({"-n", "3"}), {{"WREATH_TRANSPORT", transport}});
    EXPECT_EQ(run.join(), 0) << run.err();
    EXPECT_THAT(run.out(), HasSubstr("[2] to a neighbour: "));
  }
  Launcher hosts(sum({"-n", "3", "--hosts", "h1,h2", "--ssh", fake_ssh(folder), "--address", "127.0.0.1"}), quiet);
  EXPECT_EQ(hosts.join(), 0) << hosts.err();
}

// The others end with code 3, for they lost a peer; the job's end is the peer's.
TEST(Run, NamesTheRankThatTheOthersLost) {
  const Folder folder;
  Launcher run(sum({"-n", "3"}, "victim=1"), {{"WREATH_RECORDER_DIR", folder.path()}});
  EXPECT_EQ(run.join(), 128 + SIGKILL) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 1 (host "));
}

TEST(Run, SharesCoresOut) {
  Launcher one(shell({"-n", "1", "--verbose"}, "grep Cpus_allowed_list /proc/self/status"));
  EXPECT_EQ(one.join(), 0);
  EXPECT_THAT(one.err(), HasSubstr("): cores "));
  Launcher none(shell({"-n", "1", "--bind", "none"}, "echo \"[$WREATH_HOST_CORES]\""));
  EXPECT_EQ(none.join(), 0);
  EXPECT_THAT(none.out(), HasSubstr("[0] []\n"));
}

TEST(Run, RefusesWhatItDoesNotUnderstand) {
  for (const auto& [arguments, words] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{}, "which program?"},
           {{"-n", "2"}, "which program?"},
           {{"-n", "0", "true"}, "not in range"},
           {{"-n", "two", "true"}, "two"},
           {{"--bogus", "true"}, "--bogus: `wreath run` has no such option"},
           {{"--hosts", "a,b", "true"}, "-n: how many ranks?"},
           {{"--hosts", "a:x", "true"}, "a:x"},
           {{"--hosts", "a", "--hostfile", "b", "true"}, "give one of them"},
           {{"--hostfile", "no/such/file", "true"}, "no/such/file"},
           {{"--bind", "sockets", "true"}, "sockets"},
           {{"--env", "=x", "true"}, "--env '=x'"},
           {{"--ssh", "a 'b", "true"}, "--ssh"}}) {
    Launcher run(arguments);
    EXPECT_EQ(run.join(), 2) << run.err();
    EXPECT_THAT(run.err(), HasSubstr(words));
  }
}

TEST(Run, LeavesWhatStandsAfterTheProgramAlone) {
  Launcher run({"-n", "1", "--", "echo", "-n", "--hosts", "--", "x"});
  EXPECT_EQ(run.join(), 0);
  EXPECT_EQ(run.out(), "[0] --hosts -- x\n");
}

}  // namespace
}  // namespace wreath::testing_support

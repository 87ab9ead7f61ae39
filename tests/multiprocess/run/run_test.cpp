// Tests `wreath run` as a user runs it: how ranks start, print and end. Nothing of them may be left.
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "tests/multiprocess/run/launcher.hpp"

namespace wreath::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

// A sandbox may hide /proc. One child of a rank is in the rank's group, the other is not.
TEST(Run, LeavesNoProcessWhereThereIsNoProc) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer reads /proc: run it in the preset dev";
  const std::string hidden = "unshare -rm sh -c 'mount -t tmpfs none /proc && ";
  if (std::system((hidden + "true' 2>/dev/null").c_str()) != 0) {  // NOLINT(cert-env33-c)
    GTEST_SKIP() << "needs a kernel that lets this user make namespaces of users and mounts; run it as root";
  }
  const std::string number = unlikely_number();
  const std::string ranks = "sleep " + number + " & setsid sleep " + number + " & sleep 0.3";
  const std::string command = hidden + "exec timeout 60 " WREATH_BINARY_DIR "/wreath run -n 2 sh -c \"" + ranks + "\"'";
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(cert-env33-c)
  EXPECT_TRUE(processes_with(number).empty());
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

// The key is in no command line and in no output, here and through ssh, but the ranks have it.
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

// The other hosts, this one among them, are there a second before the last host is known to be missing.
TEST(Run, StartsNoRankUntilAllHostsHaveAnswered) {
  const Folder folder;
  const std::string ssh = folder / "slow-ssh";
  std::ofstream(ssh) << "#!/bin/sh\n[ $1 != down ] || { sleep 1; exit 255; }\nexec sh -c \"$2\"\n";
  ::chmod(ssh.c_str(), 0700);
  Launcher run(shell({"-n", "3", "--hosts", "localhost,h1,down", "--ssh", ssh, "--address", "127.0.0.1"},
                     "touch " + (folder / "ran-$RANK")));
  EXPECT_EQ(run.join(), 6);
  EXPECT_THAT(run.err(), HasSubstr("wreath: error: host down: no agent came up there"));
  const std::string said = run.err();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  for (const char* rank : {"ran-0", "ran-1", "ran-2"}) EXPECT_FALSE(std::filesystem::exists(folder / rank)) << rank;
}

TEST(Run, EndsBeforeAllHostsHaveAnswered) {
  const Folder folder;
  const std::string number = unlikely_number();
  const std::string ssh = folder / "no-ssh";
  const std::string waits = "cat >/dev/null; :";  // like ssh, until its input ends
  std::ofstream(ssh) << "#!/bin/sh\n[ $1 != mute ] || exec sh -c '" << waits << "' " << number
                     << "\nexec sh -c \"$2\"\n";
  ::chmod(ssh.c_str(), 0700);
  const auto on = [&](const std::string& hosts) {
    return shell({"-n", "3", "--hosts", hosts, "--ssh", ssh, "--address", "127.0.0.1"}, "exec sleep " + number);
  };
  for (const int signal : {SIGTERM, SIGKILL}) {
    Launcher run(on("localhost,h1,mute"));
    ASSERT_TRUE(eventually(10'000 * kSlower, [&] {
      return processes_with(waits + std::string(1, '\0') + number).size() == 1;
    })) << run.err();
    run.signal(signal);
    EXPECT_EQ(run.join(), signal == SIGKILL ? 1000 + SIGKILL : 128 + signal);
    EXPECT_TRUE(eventually(10'000 * kSlower, [&] { return processes_with(number).empty(); })) << "signal " << signal;
    EXPECT_EQ(run.err(), "");
  }
  Launcher late(on("localhost,mute"), {{"WREATH_BOOTSTRAP_TIMEOUT_MS", "500"}});
  EXPECT_EQ(late.join(), 6);
  EXPECT_THAT(late.err(), HasSubstr("host mute: no agent came up there in time (WREATH_BOOTSTRAP_TIMEOUT_MS)"));
  EXPECT_TRUE(processes_with(number).empty());
}

TEST(Run, NamesTheHostOfAFailure) {
  const Folder folder;
  Launcher run(shell({"--hosts", "h1:2,h2:1", "--address", "127.0.0.1"}, "[ $RANK = 2 ] && exit 9; sleep 100"),
               {{"WREATH_SSH", fake_ssh(folder)}});
  EXPECT_EQ(run.join(), 9);
  EXPECT_THAT(run.err(), HasSubstr("rank 2 (host h2, pid "));
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

// Runs the real torchrun, where it is installed; tests/unit/bootstrap sets its variables everywhere. Under Python 3.11
// Debian's version needs -r and -t to start.
TEST(Torchrun, BringsRanksTogether) {
  if (::system("command -v torchrun >/dev/null") != 0)
    GTEST_SKIP() << "needs torchrun: install python3-torch";  // NOLINT
  const Folder folder;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string log = folder / "log";
  for (const std::string& key : {std::string(), std::string(64, 'd')}) {
    const std::string command = "WREATH_KEY=" + key +
                                " WREATH_DEBUG=INFO timeout 60 torchrun -r 1 -t 1 --nproc_per_node 3 " +
                                "--no_python " + program + " --role=sum bootstrap_ms=30000 >" + log + " 2>&1";
    EXPECT_EQ(::system(command.c_str()), 0) << text_of(log);  // NOLINT(cert-env33-c)
    EXPECT_THAT(text_of(log),
                AllOf(HasSubstr("rank 2 of 3, said by torchrun's variables"), HasSubstr("to a neighbour")));
  }
}

// The other ranks end with code 3, because they lost a peer. The job's end is the peer's.
TEST(Run, NamesTheRankThatTheOthersLost) {
  for (const char* when : {"ends=calling", "ends=linking"}) {
    const Folder folder;
    std::vector<std::string> words = sum({"-n", "3"}, "victim=1");
    words.emplace_back(when);
    Launcher run(words, {{"WREATH_RECORDER_DIR", folder.path()}});
    EXPECT_EQ(run.join(), 128 + SIGKILL) << run.err();
    EXPECT_THAT(run.err(), AllOf(HasSubstr("error: rank 1 (host "), HasSubstr("ended by signal 9")));
    EXPECT_THAT(run.err(), AllOf(HasSubstr("[0] rank 0 (host "), HasSubstr("[2] rank 2 (host "),
                                 HasSubstr("peer lost: rank 1 (host "), Not(HasSubstr("start-up failed"))));
  }
}

TEST(Run, SharesCoresOut) {
  Launcher one(shell({"-n", "1", "--verbose"}, "grep Cpus_allowed_list /proc/self/status"));
  EXPECT_EQ(one.join(), 0);
  EXPECT_THAT(one.err(), HasSubstr("): cores "));
}

TEST(Run, RefusesWhatItDoesNotUnderstand) {
  for (const auto& [arguments, words] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{}, "which program?"},
           {{"-n", "2"}, "which program?"},
           {{"-n", "0", "true"}, "-n 0: not a whole number"},
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

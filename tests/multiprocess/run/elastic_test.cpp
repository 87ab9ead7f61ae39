// Tests `wreath run --elastic` with programs that are scripts: which ranks go on, which are started anew, how the job
// ends. Nothing of a job may be left.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/multiprocess/run/launcher.hpp"

namespace wreath::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kPatienceMs = 20'000 * kSlower;
constexpr std::int64_t kSettledMs = 1300;  // after a loss the launcher waits for a second

class ElasticRun : public ::testing::Test {
 protected:
  // Returns a command line that runs `script` in a shell. The shell has $F, the test's folder, and `await NAME`, which
  // waits for a file in it.
  std::vector<std::string> elastic(std::vector<std::string> options, const std::string& script) const {
    options.insert(options.begin(), "--elastic");
    return shell(std::move(options),
                 "F=" + folder_.path() + "; await() { until [ -e $F/$1 ]; do sleep 0.02; done; }; " + script);
  }
  Arguments environment(Arguments more = {}) const {
    more.emplace("TMPDIR", temporary_.path());
    more.emplace("WREATH_RECORDER_DIR", folder_.path());
    return more;
  }
  // Returns options for hosts of a fake ssh, whose agents' processes are in files pid-HOST.
  std::vector<std::string> hosts(const std::string& names) const {
    const std::string ssh = folder_ / "ssh";
    std::ofstream(ssh) << "#!/bin/sh\n[ $1 != down ] || exit 255\n[ $1 != blind ] || rm -r " << temporary_.path()
                       << "/*\necho $$ >" << folder_.path() << "/pid-$1\nexec sh -c \"$2\"\n";
    ::chmod(ssh.c_str(), 0700);
    return {"--hosts", names, "--ssh", ssh, "--address", "127.0.0.1", "--elastic-folder", temporary_.path()};
  }
  std::vector<std::string> on(const std::string& names, std::vector<std::string> options) const {
    const std::vector<std::string> more = hosts(names);
    options.insert(options.end(), more.begin(), more.end());
    return options;
  }
  void lose(const std::string& host) const {
    ::kill(static_cast<pid_t>(std::stol(text_of(folder_ / ("pid-" + host)))), SIGKILL);
  }
  void create(const std::string& name) const { std::ofstream(folder_ / name) << '\n'; }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
  static bool says(const Launcher& run, const std::string& words) {
    return eventually(kPatienceMs, [&] { return (run.out() + run.err()).find(words) != std::string::npos; });
  }
  // Returns whether each of so many ranks has said "up". The launcher then knows, too, that the rank runs.
  static bool are_up(const Launcher& run, int ranks) {
    bool all = true;
    for (int rank = 0; rank < ranks; ++rank) all = all && says(run, "[" + std::to_string(rank) + "] up\n");
    return all;
  }
  // Returns whether no folder of an elastic job is left.
  bool nothing_left() const { return std::filesystem::is_empty(temporary_.path()); }

  Folder folder_;
  Folder temporary_;
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(ElasticRun, TellsMembersOfTheJob) {
  Launcher run(elastic({"--min", "2", "--max", "3", "-n", "2", "--spares", "1"},
                       "echo $WREATH_RANK/$WREATH_RANKS $WREATH_MIN_RANKS $WREATH_MAX_RANKS $WREATH_SPARES "
                       "$(stat -c %a $WREATH_ELASTIC) ${WREATH_JOIN-no}"),
               environment({{"WREATH_JOIN", "77"}}));
  EXPECT_EQ(run.join(), 0) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("[0] 0/3 2 3 1 700 no\n"), HasSubstr("[2] 2/3 2 3 1 700 no\n")));
  EXPECT_EQ(run.err(), "");
  EXPECT_TRUE(nothing_left());
}

TEST_F(ElasticRun, StartsAsManyAsMaxSays) {
  Launcher run(elastic({"--max", "3"}, "echo $WREATH_RANKS"), environment());
  EXPECT_EQ(run.join(), 0);
  EXPECT_EQ(count_of(run.out(), "] 3\n"), 3u);
}

TEST_F(ElasticRun, LeavesVariablesOfAnElasticJobOutOfAnotherJob) {
  Launcher run(shell({"-n", "1"}, "echo [$WREATH_ELASTIC$WREATH_JOIN$WREATH_MIN_RANKS$WREATH_MAX_RANKS$WREATH_SPARES]"),
               {{"WREATH_ELASTIC", "/x"},
                {"WREATH_JOIN", "1"},
                {"WREATH_MIN_RANKS", "1"},
                {"WREATH_MAX_RANKS", "1"},
                {"WREATH_SPARES", "1"}});
  EXPECT_EQ(run.join(), 0);
  EXPECT_EQ(run.out(), "[0] []\n");
}

TEST_F(ElasticRun, GoesOnWhenAMemberIsKilled) {
  Launcher run(elastic({"-n", "3", "--min", "2", "--max-restarts", "0"},
                       "[ $RANK = 1 ] && kill -9 $$; echo $RANK; await go; echo done"),
               environment());
  ASSERT_TRUE(says(run, "; 2 of 3 go on\n"));
  EXPECT_THAT(run.err(), AllOf(HasSubstr("wreath: warning: rank 1 (host "), HasSubstr(", pid "),
                               HasSubstr("): ended by signal 9 (Killed); 2 of 3 go on\n")));
  sleep_ms(kSettledMs);
  create("go");
  EXPECT_EQ(run.join(), 0) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("[0] done"), HasSubstr("[2] done")));
  EXPECT_EQ(count_of(run.err(), "\n"), 1u) << "no other is started: " << run.err();
  EXPECT_TRUE(nothing_left());
}

TEST_F(ElasticRun, StartsOthersWhoJoin) {
  Launcher run(elastic({"-n", "2", "--spares", "1", "--output", folder_ / "logs"},
                       "if [ $WREATH_JOIN ]; then touch $WREATH_ELASTIC/joined-$WREATH_JOIN; env; echo oh >&2; "
                       "[ $WREATH_JOIN = 3 ] && await again && exit 5; fi; "
                       "[ \"$RANK\" = 1 ] && exit 4; await go"),
               environment({{"LOCAL_RANK", "7"}, {"WREATH_RANK", "7"}, {"SLURM_PROCID", "7"}}));
  ASSERT_TRUE(says(run, "[3] oh\n")) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("ended with exit code 4; 2 of 3 go on\n"), HasSubstr("rank 3 is started on "),
                               HasSubstr(" in place of rank 1: restart 1 of 3\n")));
  EXPECT_THAT(run.out(), AllOf(HasSubstr("[3] WREATH_JOIN=3\n"), HasSubstr("[3] WREATH_ELASTIC=" + temporary_.path()),
                               HasSubstr("[3] WREATH_SPARES=1\n"), HasSubstr("[3] WREATH_KEY=")));
  for (const char* name : {"RANK=", "WREATH_RANKS=", "WORLD_SIZE=", "SLURM_PROCID="})
    EXPECT_THAT(run.out(), Not(HasSubstr(name)));
  create("again");
  ASSERT_TRUE(says(run, "[4] oh\n")) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("rank 3 (host "), HasSubstr("ended with exit code 5; 2 of 3 go on\n"),
                               HasSubstr("rank 4 is started on "), HasSubstr(" in place of rank 3: restart 2 of 3\n")));
  create("go");
  EXPECT_EQ(run.join(), 0) << run.err();
  EXPECT_EQ(text_of(folder_ / "logs/rank-3.err"), "oh\n");
  EXPECT_TRUE(nothing_left());
}

// No member admits the new rank, as with a program that does not support elastic jobs.
TEST_F(ElasticRun, EndsWhoWaitsToJoinWithTheOthers) {
  const std::string number = unlikely_number();
  Launcher run(elastic({"-n", "2"}, "if [ $WREATH_JOIN ]; then touch $F/waits; sleep " + number +
                                        "; fi; [ $RANK = 1 ] && exit 4; await waits; echo done"),
               environment());
  EXPECT_EQ(run.join(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("[0] done"));
  EXPECT_TRUE(processes_with(number).empty());
}

TEST_F(ElasticRun, DoesNotCountWhoWaitsToJoin) {
  Launcher run(elastic({"-n", "2", "--max-restarts", "1"},
                       "if [ $WREATH_JOIN ]; then touch $F/waits; sleep 100; fi; [ $RANK = 1 ] && exit 4; await waits; "
                       "exit 3"),
               environment());
  EXPECT_EQ(run.join(), 3);
  EXPECT_THAT(run.err(), HasSubstr("ended with exit code 3; 0 of 1 are left, but --min is 1: they are ended\n"));
}

TEST_F(ElasticRun, WaitsForWhoHasJoined) {
  Launcher run(elastic({"-n", "2"},
                       "if [ $WREATH_JOIN ]; then touch $WREATH_ELASTIC/joined-$WREATH_JOIN $F/joined; await go; echo "
                       "last; exit 0; fi; [ $RANK = 1 ] && exit 4; await joined; echo first"),
               environment());
  ASSERT_TRUE(says(run, "[0] first"));
  sleep_ms(3500);  // a rank that only waits is ended by then
  create("go");
  EXPECT_EQ(run.join(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("[2] last"));
}

TEST_F(ElasticRun, StartsNobodyWhenAMemberHasEndedWell) {
  Launcher run(
      elastic({"-n", "3", "--verbose"}, "[ $RANK = 0 ] && exit 0; [ $RANK = 1 ] && await zero && exit 4; await go"),
      environment());
  ASSERT_TRUE(says(run, "ended with exit code 0"));
  create("zero");
  ASSERT_TRUE(says(run, "exit code 4; 1 of 2 go on"));
  sleep_ms(kSettledMs);
  create("go");
  EXPECT_EQ(run.join(), 0);
  EXPECT_THAT(run.err(), Not(HasSubstr("is started")));
}

// Each start has its own folder and key.
TEST_F(ElasticRun, StartsAgainWhenTooFewAreLeft) {
  Launcher run(elastic({"-n", "3", "--min", "3", "--spares", "0"},
                       "echo $RANK/$WREATH_RANKS $WREATH_ELASTIC; echo $WREATH_ELASTIC $WREATH_KEY $WREATH_JOB "
                       ">>$F/start-$RANK; [ $(wc -l <$F/start-$RANK) = 2 ] && exit 0; touch $F/up-$RANK; "
                       "[ $RANK = 1 ] && await up-0 && await up-2 && exit 4; sleep 100"),
               environment());
  EXPECT_EQ(run.join(), 0) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("exit code 4; 2 of 3 are left, but --min is 3: they are ended\n"),
                               HasSubstr("wreath: warning: restart 1 of 3: 3 ranks and 0 spares begin anew, because of "
                                         "rank 1 (host ")));
  EXPECT_THAT(run.out(), HasSubstr("[2] 2/3 "));
  std::istringstream starts(text_of(folder_ / "start-1"));
  std::vector<std::string> words(6);
  for (std::string& word : words) starts >> word;
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NE(words[i], words[i + 3]);
  EXPECT_EQ(text_of(folder_ / "start-0"), text_of(folder_ / "start-1"));
  EXPECT_TRUE(nothing_left());
}

TEST_F(ElasticRun, StartsAgainWhenAMemberSaysThatTooFewAreLeft) {
  Launcher run(elastic({"-n", "4", "--min", "1", "--max-restarts", "1"},
                       "echo x >>$F/start-$RANK; [ $RANK = 2 ] && await start-3 && exit 9; sleep 100"),
               environment());
  EXPECT_EQ(run.join(), 9) << run.err();
  EXPECT_EQ(text_of(folder_ / "start-2"), "x\nx\n");
  EXPECT_THAT(run.err(),
              AllOf(HasSubstr("ended with exit code 9; the 3 others cannot go on without it: they are ended"),
                    HasSubstr("restart 1 of 1: 4 ranks"), HasSubstr("after 1 of 1 restarts")));
}

TEST_F(ElasticRun, EndsAsTheCulpritWhenRestartsAreUsedUp) {
  Launcher run(elastic({"-n", "2", "--min", "2", "--max-restarts", "2"},
                       "echo x >>$F/start-$RANK; [ $RANK = 1 ] && exit 7; exit 3"),
               environment());
  EXPECT_EQ(run.join(), 7) << run.err();
  EXPECT_EQ(text_of(folder_ / "start-0"), "x\nx\nx\n");
  EXPECT_THAT(run.err(), HasSubstr("ended with exit code 7; all 2 ranks were ended, after 2 of 2 restarts\n"));
  EXPECT_TRUE(nothing_left());
}

// A loss on Monday, which the others survived, is not the reason of an end on Tuesday.
TEST_F(ElasticRun, ForgetsWhatTheOthersSurvived) {
  Launcher run(elastic({"-n", "3", "--min", "2", "--max-restarts", "0"},
                       "[ $RANK = 1 ] && exit 5; await tuesday; [ $RANK = 2 ] && exit 7; sleep 100"),
               environment());
  ASSERT_TRUE(says(run, "2 of 3 go on"));
  sleep_ms(kSettledMs);
  create("tuesday");
  EXPECT_EQ(run.join(), 7) << run.err();
}

// The loss of a rank and the end of its peers, which follows from it, are one restart, not one for each rank.
TEST_F(ElasticRun, StartsAProgramThatKnowsNothingOfItAgainAsAWhole) {
  for (const char* when : {"ends=calling", "ends=linking"}) {
    std::vector<std::string> words = sum({"--elastic", "-n", "3", "--min", "1", "--max-restarts", "1"}, "victim=1");
    words.emplace_back(when);
    Launcher run(words, environment());
    EXPECT_EQ(run.join(), 128 + SIGKILL) << run.err();
    EXPECT_THAT(run.err(), AllOf(HasSubstr("restart 1 of 1: 3 ranks and 0 spares begin anew, because of rank 1 (host "),
                                 Not(HasSubstr("is started"))));
  }
}

TEST_F(ElasticRun, DoesNotTryAgainWhatCannotBeRun) {
  Launcher run({"--elastic", "-n", "2", "./no-such-program"}, environment());
  EXPECT_EQ(run.join(), 6);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("cannot run './no-such-program'"), Not(HasSubstr("begin anew"))));
  EXPECT_TRUE(nothing_left());
}

TEST_F(ElasticRun, GoesOnWhenNoOtherCanBeStarted) {
  const std::string program = folder_ / "program";
  std::ofstream(program) << "#!/bin/sh\nF=" << folder_.path()
                         << "; touch $F/up-$RANK\nuntil [ -e $F/go ]; do sleep 0.02; done\n[ $RANK = 0 ] || exit 4\n"
                            "until [ -e $F/end ]; do sleep 0.02; done\n";
  ::chmod(program.c_str(), 0700);
  Launcher run({"--elastic", "-n", "3", "--max-restarts", "2", program}, environment());
  for (const char* name : {"up-0", "up-1", "up-2"}) ASSERT_TRUE(eventually(kPatienceMs, [&] { return exists(name); }));
  std::filesystem::remove(program);
  create("go");
  for (const char* words : {"rank 3 (host ", "rank 4 (host "}) ASSERT_TRUE(says(run, words)) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("/program': No such file or directory, before it had joined; 1 go on\n"));
  create("end");
  EXPECT_EQ(run.join(), 0) << run.err();
}

// The processes must end at once, because the job may go on for days.
TEST_F(ElasticRun, EndsWhatADeadMemberHasStarted) {
  const std::string number = unlikely_number();
  Launcher run(elastic({"-n", "2", "--max-restarts", "0"},
                       "[ $RANK = 1 ] && { sleep " + number + " & touch $F/up; kill -9 $$; }; await up; await go"),
               environment());
  ASSERT_TRUE(says(run, "1 of 2 go on"));
  EXPECT_TRUE(eventually(kPatienceMs, [&] { return processes_with("sleep" + std::string(1, '\0') + number).empty(); }));
  create("go");
  EXPECT_EQ(run.join(), 0);
}

TEST_F(ElasticRun, LeavesNothingWhenItIsKilled) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    const std::string number = unlikely_number();
    Launcher run(elastic({"-n", "2"}, "touch $WREATH_ELASTIC/join-7; " + family(number)), environment());
    expect_nothing_left(run, number, 8, signal);
    EXPECT_TRUE(eventually(kPatienceMs, [&] { return nothing_left(); })) << signal;
  }
}

TEST_F(ElasticRun, LeavesNothingOfOtherHostsWhenItIsKilled) {
  const std::string number = unlikely_number();
  Launcher run(elastic(on("h1,h2", {"-n", "2"}), family(number)), environment());
  expect_nothing_left(run, number, 8, SIGKILL);
  EXPECT_TRUE(eventually(kPatienceMs, [&] { return nothing_left(); }));
}

TEST_F(ElasticRun, LeavesNothingWhenItIsKilledWithOneThatJoined) {
  const std::string number = unlikely_number();
  Launcher run(elastic({"-n", "2"}, "[ \"$RANK\" = 1 ] && exit 4; " + family(number)), environment());
  expect_nothing_left(run, number, 8, SIGKILL);
  EXPECT_TRUE(eventually(kPatienceMs, [&] { return nothing_left(); }));
}

TEST_F(ElasticRun, EndsOnASignalInsteadOfStartingAgain) {
  Launcher run(elastic({"-n", "2", "--min", "2", "--grace", "0.5"},
                       "trap '' TERM; [ $RANK = 0 ] && await up && exit 4; touch $F/up; while :; do sleep 0.05; done"),
               environment());
  ASSERT_TRUE(says(run, "they are ended"));
  run.signal(SIGTERM);
  EXPECT_EQ(run.join(), 128 + SIGTERM);
  EXPECT_THAT(run.err(), Not(HasSubstr("begin anew")));
  EXPECT_TRUE(nothing_left());
}

TEST_F(ElasticRun, TakesAHostThatIsLostForItsMembersDeath) {
  Launcher run(elastic(on("h1,h2", {"-n", "4", "--max-restarts", "1"}),
                       "[ $WREATH_JOIN ] && { touch $WREATH_ELASTIC/joined-$WREATH_JOIN; echo here; }; echo up; "
                       "await go"),
               environment());
  ASSERT_TRUE(are_up(run, 4)) << run.err();
  lose("h2");
  ASSERT_TRUE(says(run, "[4] here")) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("warning: host h2 is lost: "), HasSubstr("ended by signal 9"),
                               HasSubstr("rank 2 (host h2, pid "), HasSubstr("): lost with its host; 2 of 4 go on\n"),
                               HasSubstr("rank 4 is started on host h1 in place of rank 2: restart 1 of 1")));
  create("go");
  EXPECT_EQ(run.join(), 0) << run.err();
  EXPECT_TRUE(nothing_left());
}

TEST_F(ElasticRun, StartsOthersOnTheSameHost) {
  Launcher run(elastic(on("h1:3,h2:2", {"-n", "4"}), "[ $WREATH_JOIN ] && exit 0; [ $RANK = 0 ] && exit 4; await go"),
               environment());
  ASSERT_TRUE(says(run, "rank 4 is started on host h1 in place of rank 0")) << "h2 is emptier: " << run.err();
  create("go");
  EXPECT_EQ(run.join(), 0) << run.err();
}

TEST_F(ElasticRun, StartsAgainOnTheHostsThatAreLeft) {
  Launcher run(elastic(on("h1:2,h2:2", {"-n", "3", "--spares", "1", "--min", "2"}),
                       "echo up; [ $WREATH_RANKS = 2 ] && { echo two; exit 0; }; await lost; exit 3"),
               environment());
  ASSERT_TRUE(are_up(run, 4)) << run.err();
  lose("h2");
  ASSERT_TRUE(says(run, "2 of 4 go on"));
  create("lost");
  EXPECT_EQ(run.join(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("restart 1 of 3: 2 ranks and 0 spares begin anew, because of rank 2 (host h2"));
  EXPECT_THAT(run.out(), AllOf(HasSubstr("[0] two"), HasSubstr("[1] two")));
}

TEST_F(ElasticRun, MeetsOnAnotherHostWhenTheFirstIsLost) {
  Launcher run(elastic(on("h1:1,h2:1", {"-n", "2", "--min", "1"}),
                       "echo at $WREATH_ADDRESS; echo up; [ $WREATH_RANKS = 1 ] && exit 0; await lost; exit 3"),
               environment());
  ASSERT_TRUE(are_up(run, 2)) << run.err();
  lose("h1");
  ASSERT_TRUE(says(run, "1 of 2 go on")) << run.err();
  create("lost");
  EXPECT_EQ(run.join(), 0) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("[1] at 127.0.0.1\n"), HasSubstr("[0] at h2\n")))
      << "as --address said at first";
}

TEST_F(ElasticRun, EndsWhenTheHostsThatAreLeftHaveTooFewSlots) {
  Launcher run(elastic(on("h1:2,h2:2", {"-n", "4", "--min", "3"}), "echo up; sleep 100"), environment());
  ASSERT_TRUE(are_up(run, 4)) << run.err();
  lose("h2");
  EXPECT_EQ(run.join(), 6) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("error: the hosts that are left have 2 slots, but --min is 3\n"));
  EXPECT_TRUE(nothing_left());
}

TEST_F(ElasticRun, DoesWithoutAHostThatIsDown) {
  Launcher run(elastic(on("h1:2,down:1", {"-n", "3", "--min", "2"}),
                       "[ $WREATH_RANKS = 2 ] || { touch $F/in-vain; sleep 100; }"),
               environment());
  EXPECT_EQ(run.join(), 0) << run.err();
  EXPECT_FALSE(exists("in-vain")) << "ranks began that could not meet";
  EXPECT_THAT(run.err(),
              AllOf(HasSubstr("host down is lost: no agent came up there"),
                    HasSubstr("rank 2 (host down): lost with its host; the 2 others cannot go on without it")));
}

TEST_F(ElasticRun, NeedsAFolderThatAllHostsSee) {
  Launcher run(elastic(on("blind", {"-n", "1"}), "true"), environment());
  EXPECT_EQ(run.join(), 6);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("rank 0 (host blind): "), HasSubstr("is not to be seen on this host")));
}

TEST_F(ElasticRun, RefusesWhatCannotBe) {
  std::ofstream(folder_ / "file") << '\n';
  for (const auto& [arguments, words] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--elastic", "--min", "3", "--max", "2", "true"}, "--min 3 is above --max 2"},
           {{"--elastic", "-n", "3", "--max", "2", "true"}, "-n 3 is above --max 2"},
           {{"--elastic", "-n", "1", "--min", "2", "true"}, "-n 1 is below --min 2"},
           {{"--elastic", "--max", "5000", "true"}, "5000"},
           {{"--elastic", "-n", "4000", "--spares", "200", "true"}, "-n 4000 and --spares 200: at most 4096"},
           {{"--elastic", "--min", "-1", "true"}, "--min"},
           {{"--elastic", "--spares", "-1", "true"}, "--spares"},
           {{"--elastic", "--max-restarts", "-1", "true"}, "--max-restarts"},
           {{"--elastic", "--max-restarts", "x", "true"}, "--max-restarts"},
           {{"-n", "2", "--min", "1", "true"}, "--min requires --elastic"},
           {{"-n", "2", "--max", "2", "true"}, "--max requires --elastic"},
           {{"-n", "2", "--spares", "1", "true"}, "--spares requires --elastic"},
           {{"-n", "2", "--max-restarts", "1", "true"}, "--max-restarts requires --elastic"},
           {{"-n", "2", "--elastic-folder", "/tmp", "true"}, "--elastic-folder requires --elastic"},
           {{"--elastic", "-n", "2", "--elastic-folder", "", "true"}, "--elastic-folder: it is empty"},
           {{"--elastic", "-n", "2", "--elastic-folder", "/no/such", "true"}, "/no/such: No such file or directory"},
           {{"--elastic", "-n", "2", "--elastic-folder", folder_ / "file", "true"}, "/file: Not a directory"},
           {{"--elastic", "-n", "2", "--hosts", "a,b", "true"}, "needs --elastic-folder"},
           {{"--elastic", "--hosts", "a,b", "--elastic-folder", "/tmp", "true"}, "-n: how many ranks?"},
           {{"--elastic", "--hosts", "a:1,b:2", "--spares", "3", "--elastic-folder", "/tmp", "true"}, "-n 0"},
           {{"--elastic", "-n", "3", "--hosts", "a:1,b:2", "--spares", "1", "--elastic-folder", "/tmp", "true"},
            "-n 3 and --spares 1: the hosts have 3 slots"}}) {
    Launcher run(arguments, environment());
    EXPECT_EQ(run.join(), 2) << run.err();
    EXPECT_THAT(run.err(), HasSubstr(words));
  }
}

}  // namespace
}  // namespace wreath::testing_support

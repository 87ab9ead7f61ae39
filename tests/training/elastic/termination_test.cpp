// SIGTERM to train_gpt makes all ranks save a last checkpoint, and sets the exit code of the ranks that it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tests/support/shell.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;
using testing_support::Outcome;
using testing_support::run_line;

// `train` becomes train_gpt. `came TEXT` waits until the log has TEXT. `saved` prints the step of the last checkpoint.
constexpr const char* kTools = R"(
cd $(mktemp -d) && trap 'cat $PWD/log; rm -r $PWD' EXIT
for i in $(seq 400); do echo "the $((i * i % 97))th line of $i"; done >text
shape='--data text --layers 2 --width 32 --heads 2 --context 16 --batch 6 --decay-steps 100000 --sample 0'
train() { exec $BIN/train_gpt $shape --no-final-validation --validate-every 0 --log-every 1 "$@"; }
came() { for i in $(seq 300); do grep -q "$1" log && return; sleep 0.1; done; echo "no $1"; exit 7; }
saved() { ls saved | tail -n 1 | sed 's/^step-0*//'; }
pids() { sed -n 's/^wreath: info: rank [0-9]* (host .*, pid \([0-9]*\)): cores.*/\1/p' log; }
ends_with() { code=0; wait $1 || code=$?; [ $code = $2 ] || { echo "it ended with $code, not $2"; exit 7; }; }
)";

class Termination : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* const program : {WREATH_BINARY_DIR "/train_gpt", WREATH_BINARY_DIR "/wreath"}) {
      if (::access(program, X_OK) != 0) GTEST_SKIP() << "this build has no " << program << ": run it in the preset dev";
    }
  }
  static Outcome run(const std::string& script) {
    return run_line("BIN=" WREATH_BINARY_DIR "; " + std::string(kTools) + script);
  }
};

// The steps before and after the signal are those of a run that nothing ends.
TEST_F(Termination, SavesTheStateThatAResumedRunGoesOnFrom) {
  const Outcome outcome = run(R"(
train --dp 2 --tp 2 --steps 1000000 --checkpoint saved --csv loss.csv >log 2>&1 & job=$!
came 'step  *20 '; kill -TERM $job; ends_with $job 143
came 'SIGTERM: the state after'
more=$(($(saved) + 5))
(train --dp 2 --steps $more --checkpoint saved --resume --csv loss.csv) >>log 2>&1 || exit 8
(train --dp 2 --tp 2 --steps $((more - 5)) --csv undisturbed.csv) >>log 2>&1 || exit 8
[ $(wc -l <loss.csv) = $((more + 1)) ] || { echo "steps are missing"; exit 9; }
n=$(wc -l <undisturbed.csv)
cut -d, -f1,2 undisturbed.csv >a; head -n $n loss.csv | cut -d, -f1,2 | diff a - || exit 9)");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
}

TEST_F(Termination, OfOneRankIsOfAll) {
  const Outcome outcome = run(R"(
$BIN/wreath run -n 2 --verbose -- $BIN/train_gpt $shape --no-final-validation --dp 2 --steps 1000000 --log-every 1 \
  --checkpoint saved >log 2>&1 & job=$!
came 'step  *20 '; kill -TERM $(pids | tail -n 1); ends_with $job 143
[ $(saved) -ge 20 ] || exit 9)");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("SIGTERM: the state after"));
}

// A launcher and a batch system may both send the signal.
TEST_F(Termination, TwiceAtOnceIsOnce) {
  const Outcome outcome = run(R"(
$BIN/wreath run -n 2 --verbose -- $BIN/train_gpt $shape --no-final-validation --dp 2 --steps 1000000 --log-every 1 \
  --stage-sleep-ms 100 --checkpoint saved >log 2>&1 & job=$!
came 'step  *2 '; kill -TERM $(pids); kill -TERM $job; ends_with $job 143
[ $(saved) -ge 2 ] || exit 9)");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
}

TEST_F(Termination, ASecondOneEndsAtOnce) {
  const Outcome outcome = run(R"sh(
train --steps 100 --stage-sleep-ms 60000 --checkpoint saved >log 2>&1 & job=$!
came 'a step is'; kill -TERM $job; sleep 1
kill -0 $job || { echo "the first one ended it"; exit 8; }
kill -TERM $job; ends_with $job 143
[ ! -e saved ] || [ -z "$(saved)" ] || exit 9)sh");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
}

TEST_F(Termination, EndsARunWithoutCheckpointsAtOnce) {
  const Outcome outcome = run(R"(
train --steps 100 --stage-sleep-ms 60000 >log 2>&1 & job=$!
came 'a step is'; kill -TERM $job; ends_with $job 143)");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
}

// The other members of an elastic job go on from the checkpoint that the member saved.
TEST_F(Termination, OfAMemberOfAnElasticJobIsItsLeave) {
  const Outcome outcome = run(R"(
$BIN/wreath run --elastic -n 3 --min 1 --max-restarts 3 --verbose -- $BIN/train_gpt $shape --no-final-validation \
  --dp 3 --zero 1 --steps 1000000 --log-every 1 --checkpoint saved >log 2>&1 & job=$!
came 'step  *20 '; kill -TERM $(pids | tail -n 1)
came 'SIGTERM: the state after'; came 'came; 3 go on'
kill -TERM $job; ends_with $job 143)");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("with the state of the last checkpoint"));
}

TEST_F(Termination, AnErrorOfAllRanksIsToldOnce) {
  const Outcome outcome = run(R"(
: >log
for arguments in '--data none' '--heads 3'; do
  $BIN/wreath run -n 3 -- $BIN/train_gpt --dp 3 --batch 6 $arguments >told 2>&1; echo "exit $?"; cat told
  [ $(grep -c '^\[[0-9]\] wreath: error: ' told) = 1 ] || exit 9
done)");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("wreath: error: rank 0: none: cannot be read"));
  EXPECT_THAT(outcome.text, HasSubstr("must be a multiple of --heads 3"));
}

}  // namespace
}  // namespace wreath

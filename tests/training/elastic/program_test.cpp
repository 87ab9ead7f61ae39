// train_gpt itself runs under `wreath run --elastic`. A rank that is killed is replaced, and the job goes on with as
// many ranks as before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tests/support/processes.hpp"
#include "tests/support/shell.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;
using testing_support::Outcome;
using testing_support::rounds;
using testing_support::run_line;

// The script kills the youngest rank, waits until another has replaced it, and does this KILLS times.
constexpr const char* kScript = R"(
cd $(mktemp -d) && log=$PWD/log
$BIN/wreath run --elastic -n 3 --min 1 --max-restarts $((KILLS + 2)) --verbose -- $BIN/train_gpt --dp 3 --steps 100000000 \
  --layers 1 --width 32 --heads 2 --context 16 --batch 6 --log-every 20 --no-final-validation >$log 2>&1 &
job=$!
fail() { cat $log; kill $job; wait $job; rm -r $PWD; exit 7; }
came() { for i in $(seq 300); do [ $(grep -c "$1" $log) -ge $2 ] && return; sleep 0.1; done; fail; }
youngest() { sed -n 's/^wreath: info: rank [0-9]* (host .*, pid \([0-9]*\)): cores.*/\1/p' $log | tail -n 1; }
came 'step ' 1
for turn in $(seq $KILLS); do
  kill -9 $(youngest)
  came 'came; 3 go on, 3 of them as dp3' $turn
done
kill -TERM $job; wait $job; cat $log; rm -r $PWD
)";

TEST(ElasticProgram, GetsBackTheRanksThatItLost) {
  for (const char* const program : {WREATH_BINARY_DIR "/train_gpt", WREATH_BINARY_DIR "/wreath"}) {
    if (::access(program, X_OK) != 0) GTEST_SKIP() << "this build has no " << program << ": run it in the preset dev";
  }
  const int kills = rounds(2, 10);
  const std::string given = "BIN=" WREATH_BINARY_DIR "; KILLS=" + std::to_string(kills) + "; ";
  const Outcome outcome = run_line(given + kScript);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("restart " + std::to_string(kills) + " of " + std::to_string(kills + 2)));
}

}  // namespace
}  // namespace wreath

// Lists situations of ranks that have met. Their calls differ, cross, or are not made, or one rank is stopped, dead or
// gone.
#include "tests/faults/sentences/row.hpp"

namespace wreath::testing_support::sentences {
namespace {

constexpr auto kMismatch = ErrorCode::Mismatch;
constexpr auto kTimeout = ErrorCode::Timeout;
constexpr auto kPeerLost = ErrorCode::PeerLost;

constexpr std::int64_t kSoonMs = 3'000;
constexpr std::int64_t kLostMs = 1'500;
constexpr std::int64_t kLateMs = kClockMs * 9 / 4;

const std::string kClock = std::to_string(kClockMs);
const std::string kMember = R"( \(host [^ ]+, pid \d+\))";

std::string member(const std::string& rank) { return "rank " + rank + kMember; }
std::string member(int rank) { return member(std::to_string(rank)); }

// Returns both calls, in the words of the error.
std::vector<std::string> calls(const std::string& one, const std::string& other) {
  return {kMember + " called [^,]*" + one, kMember + " called [^,]*" + other};
}

const std::vector<Row> kDiffer{
    {.situation = "CountsOfSmallCallsDiffer",
     .scripts = {"all_reduce 9;all_reduce 100", "all_reduce 9;all_reduce 101", "all_reduce 9;all_reduce 100"},
     .errors = {{{0, 1, 2},
                 kMismatch,
                 {0, 1, 2},
                 calls("all_reduce #2 float32 x 100", "all_reduce #2 float32 x 101"),
                 "peer lost|timeout"}},
     .within_ms = kSoonMs},
    {.situation = "CountsOfLargeCallsDiffer",
     .scripts = {"all_reduce 1000000", "all_reduce 1000000", "all_reduce 1000001"},
     .errors = {{{0, 1, 2},
                 kMismatch,
                 {0, 1, 2},
                 calls("all_reduce #1 float32 x 1000000", "all_reduce #1 float32 x 1000001")}},
     .within_ms = kSoonMs},
    {.situation = "ASmallAndALargeCallDiffer",
     .scripts = {"all_reduce 1", "all_reduce 1000000", "all_reduce 1000000"},
     .errors = {{{0, 1, 2}, kMismatch, {0, 1, 2}, {"called all_reduce #1 float32 x 1000000", member(0) + " called"}}},
     .within_ms = kSoonMs},
    // A call without elements is over at once.
    {.situation = "OneCallsWithNothing",
     .scripts = {"all_reduce 0", "all_reduce 1000", "all_reduce 1000"},
     .errors = {{{1, 2}, kMismatch, {0, 1, 2}, calls("all_reduce #1 float32 x 0", "all_reduce #1 float32 x 1000")}},
     .within_ms = kSoonMs},
    {.situation = "DataTypesDiffer",
     .scripts = {"all_reduce 5000 float32", "all_reduce 5000 float32", "all_reduce 5000 int32"},
     .errors = {{{0, 1, 2}, kMismatch, {0, 1, 2}, calls("all_reduce #1 float32 x 5000", "all_reduce #1 int32 x 5000")}},
     .within_ms = kSoonMs},
    {.situation = "OperatorsDiffer",
     .scripts = {"all_reduce 5000 float32 sum", "all_reduce 5000 float32 max", "all_reduce 5000 float32 sum"},
     .errors = {{{0, 1, 2},
                 kMismatch,
                 {0, 1, 2},
                 calls("all_reduce #1 float32 x 5000 sum", "all_reduce #1 float32 x 5000 max")}},
     .within_ms = kSoonMs},
    {.situation = "RootsDiffer",
     .scripts = {"broadcast 4 0;all_reduce 4", "broadcast 4 0;all_reduce 4", "broadcast 4 2;all_reduce 4"},
     .errors = {{{0, 1, 2},
                 kMismatch,
                 {0, 1, 2},
                 calls("broadcast #1 float32 x 4 root 0", "broadcast #1 float32 x 4 root 2")}},
     .within_ms = kSoonMs},
    {.situation = "CollectivesDiffer",
     .scripts = {"all_reduce 4000", "all_reduce 4000", "reduce 4000 0;watch"},
     .errors = {{{0, 1, 2}, kMismatch, {0, 1, 2}, calls("all_reduce #1 float32 x 4000", "reduce #1 float32 x 4000")}},
     .within_ms = kSoonMs},
    // Small messages are sent before they are received, if the receiver is not quick enough to disagree first.
    {.situation = "CountsOfAMessageDiffer",
     .scripts = {"send 1 100 float32;watch", "recv 0 101 float32", "watch"},
     .errors =
         {{{0, 1, 2}, kMismatch, {0, 1}, {"send #1 to rank 1 float32 x 100", "recv #1 from rank 0 float32 x 101"}}},
     .within_ms = kSoonMs},
    {.situation = "CountsOfALargeMessageDiffer",
     .scripts = {"send 1 1000000 float32 recv 1 5 int8", "recv 0 2000000 float32 send 0 5 int8", "watch"},
     .errors = {{{0, 1, 2},
                 kMismatch,
                 {0, 1},
                 {"send #1 to rank 1 float32 x 1000000", "recv #1 from rank 0 float32 x 2000000"}}},
     .within_ms = kSoonMs},
    {.situation = "DataTypesOfAMessageDiffer",
     .scripts = {"send 1 5 float32 send 1 1000000 float32", "recv 0 5 float32 recv 0 1000000 int32", "watch"},
     .errors = {{{0, 1, 2},
                 kMismatch,
                 {0, 1},
                 {"send #2 to rank 1 float32 x 1000000", "recv #2 from rank 0 int32 x 1000000"}}},
     .within_ms = kSoonMs},
    // Nothing moves, and a question to the peer finds out why.
    {.situation = "OneSendsNothing",
     .scripts = {"send 1 0 float32;watch", "recv 0 100 float32", "watch"},
     .errors = {{{0, 1, 2}, kMismatch, {0, 1}, {"send #1 to rank 1 float32 x 0", "recv #1 from rank 0 float32 x 100"}}},
     .within_ms = kSoonMs},
};

const std::string group = ", and a group of the two calls would not";
const std::vector<Row> kWait{
    // Each rank would receive the other's message after its own has gone.
    {.situation = "SendToEachOtherFirst",
     .scripts = {"send 1 4000000 float32", "send 0 4000000 float32", "watch"},
     .errors = {{{0, 1, 2},
                 kTimeout,
                 {0, 1},
                 {"it waits in send #1 to rank [01] float32 x 4000000: both ranks wait in a send for the other's "
                  "recv" +
                  group},
                 "has made no call"}},
     .within_ms = kLateMs},
    {.situation = "ReceiveFromEachOtherFirst",
     .scripts = {"recv 1 100 float32", "recv 0 100 float32", "watch"},
     .errors = {{{0, 1, 2},
                 kTimeout,
                 {0, 1},
                 {"it waits in recv #1 from rank [01] float32 x 100: both ranks wait in a recv for the other's send" +
                  group},
                 "has made no call"}},
     .within_ms = kLateMs},
    {.situation = "ASenderIsLate",
     .scripts = {"recv 2 5 int8 recv 1 100 float32", "watch", "send 0 5 int8;watch"},
     .errors = {{{0},
                 kTimeout,
                 {1},
                 {member(1) + " has not entered send #1 to rank 0 within " + kClock + " ms"},
                 "group of the two",
                 "wreath: warning: rank 0"},
                {{1, 2}, kTimeout, {1}, {member(1) + " has not entered send #1 to rank 0 within " + kClock + " ms"}}},
     .within_ms = kLateMs},
    {.situation = "AReceiverIsLate",
     .scripts = {"send 1 4000000 float32", "watch", "sleep;watch"},
     .errors =
         {{{0, 1, 2}, kTimeout, {1}, {member(1) + " has not entered recv #1 from rank 0 within " + kClock + " ms"}}},
     .within_ms = kLateMs},
    {.situation = "OneNeverEntersASmallCall",
     .scripts = {"all_reduce 9;all_reduce 10", "all_reduce 9;watch", "all_reduce 9;all_reduce 10"},
     .errors = {{{0, 1, 2},
                 kTimeout,
                 {1},
                 {member(1) + " has not entered the call within " + kClock + " ms; its last call is all_reduce #1"},
                 "stopped"}},
     .within_ms = kLateMs},
    {.situation = "OneNeverEntersALargeCall",
     .scripts = {"all_reduce 1000000", "watch", "all_reduce 1000000"},
     .errors = {{{0, 2},
                 kTimeout,
                 {1},
                 {member(1) + " has not entered the call within " + kClock + " ms; it has made no call yet"}},
                {{1}, kTimeout, {1}, {member(1) + " has not entered"}}},
     .within_ms = kLateMs},
    {.situation = "OneMakesACallMore",
     .scripts = {"all_reduce 5000;sleep;watch", "all_reduce 5000;all_reduce 5000", "all_reduce 5000;sleep;watch"},
     .errors = {{{1},
                 kTimeout,
                 {0, 2},
                 {"all_reduce #2 float32 x 5000: timeout: rank [02]" + kMember + " has not entered the call"},
                 "",
                 "wreath: warning: rank 1"}},
     .within_ms = kLateMs},
    {.situation = "OneIsStopped",
     .scripts = {"all_reduce 9;all_reduce 1000000;all_reduce 1000000", "all_reduce 9;stop;watch",
                 "all_reduce 9;all_reduce 1000000;all_reduce 1000000"},
     .errors = {{{0, 2},
                 kTimeout,
                 {1},
                 {member(1) + " does not answer: its process may be stopped"},
                 "has not entered|waiting for rank [02]|way to"}},
     .within_ms = kLateMs},
    {.situation = "OneIsStoppedBeforeASmallCall",
     .scripts = {"all_reduce 9;all_reduce 10;all_reduce 10", "all_reduce 9;stop;watch",
                 "all_reduce 9;all_reduce 10;all_reduce 10"},
     .errors = {{{0, 2},
                 kTimeout,
                 {1},
                 {member(1) + " does not answer: its process may be stopped"},
                 "has not entered|waiting for rank [02]|way to"}},
     .within_ms = kLateMs},
    {.situation = "ASenderIsStopped",
     .scripts = {"recv 1 100 float32", "stop;watch", "watch"},
     .errors =
         {{{0, 2}, kTimeout, {1}, {member(1) + " does not answer: its process may be stopped"}, "has not entered"}},
     .within_ms = kLateMs},
    // The clock of a stall is shorter here than the clock of a host's death.
    {.situation = "TheWayToAHostIsCut",
     .scripts = {"forever", "forever", "forever", "forever"},
     .errors = {{{0, 1, 2, 3},
                 kTimeout,
                 {0, 1, 2, 3},
                 {member("[0-3]") + " does not answer: its process may be stopped, or the way to its host is cut"}}},
     .transports = {"tcp"},
     .environment = {{"WREATH_KEY", std::string(64, 'e')}},
     .act = Act::CutTheWay,
     .hosts = Hosts::Wire},
    // The rank that reports the error waits for another rank, and says so.
    {.situation = "MessagesGetLost",
     .scripts = {"all_reduce 100000", "all_reduce 100000"},
     .errors = {{{0, 1},
                 kTimeout,
                 {0, 1},
                 {"nothing moved for \\d+ ms although all ranks entered; " + std::string("rank [01]") + kMember +
                  " waiting for rank [01]" + kMember},
                 R"(rank (\d) \([^)]*\) waiting for rank \1 )"}},
     .within_ms = kLateMs,
     .environment = {{"WREATH_FAULTS", "drop=1"}}},
    // Every rank that reads the error knows which rank reports it, and about which rank.
    {.situation = "MessagesAreCutShort",
     .scripts = {"all_reduce 100000", "all_reduce 100000", "all_reduce 100000"},
     .errors = {{{0, 1, 2},
                 kMismatch,
                 {0, 1, 2},
                 {member("[0-2]") + " sends another count of elements than is expected by " + member("[0-2]")},
                 R"(this rank|rank (\d) \([^)]*\) sends another count of elements than is expected by rank \1 )"}},
     .environment = {{"WREATH_FAULTS", "truncate=1"}}},
};

const std::string ended = "(its process has ended|connection closed)";
const std::vector<Row> kLoseOne{
    {.situation = "OneLeavesBeforeASmallCall",
     .scripts = {"all_reduce 9;all_reduce 10", "all_reduce 9;all_reduce 10", "all_reduce 9;leave"},
     .errors = {{{0, 1},
                 kPeerLost,
                 {2},
                 {member(2) + " destroyed its communicator after call #1"},
                 "ended|connection closed"}},
     .within_ms = kLostMs},
    {.situation = "OneLeavesBeforeALargeCall",
     .scripts = {"all_reduce 9;all_reduce 1000000", "all_reduce 9;all_reduce 1000000", "all_reduce 9;leave"},
     .errors = {{{0, 1},
                 kPeerLost,
                 {2},
                 {member(2) + " destroyed its communicator after call #1"},
                 "ended|connection closed"}},
     .within_ms = kLostMs},
    {.situation = "ASenderLeaves",
     .scripts = {"sleep;recv 1 100 float32", "leave", "watch"},
     .errors = {{{0, 2},
                 kPeerLost,
                 {1},
                 {member(1) + " destroyed its communicator after call #0"},
                 "ended|connection closed"}},
     .within_ms = kLostMs},
    {.situation = "OneIsKilled",
     .scripts = {"all_reduce 9;all_reduce 1000000", "all_reduce 9;kill", "all_reduce 9;all_reduce 1000000"},
     .errors = {{{0, 2}, kPeerLost, {1}, {member(1) + ": " + ended}, "destroyed|start-up"}},
     .within_ms = kLostMs},
    {.situation = "ASenderIsKilled",
     .scripts = {"recv 1 100 float32", "sleep;kill", "watch"},
     .errors = {{{0, 2}, kPeerLost, {1}, {member(1) + ": " + ended}, "destroyed"}},
     .within_ms = kLostMs},
    {.situation = "OneExitsWithoutAWord",
     .scripts = {"all_reduce 9;all_reduce 10", "all_reduce 9;exit", "all_reduce 9;all_reduce 10"},
     .errors = {{{0, 2}, kPeerLost, {1}, {member(1) + ": " + ended}, "destroyed"}},
     .within_ms = kLostMs},
    {.situation = "OneAborts",
     .scripts = {"all_reduce 9;abort", "all_reduce 9;watch", "all_reduce 9;all_reduce 10"},
     .errors = {{{1, 2}, ErrorCode::Aborted, {0}, {": aborted: by " + member(0)}, "peer lost"}},
     .within_ms = kLostMs},
    {.situation = "ALinkIsReset",
     .scripts = {"forever", "forever", "forever", "forever"},
     .errors = {{{0, 1, 2, 3},
                 kPeerLost,
                 {0, 1, 2, 3},
                 {member("[0-3]") + " to " + member("[0-3]") + ": .*[Cc]onnection"},
                 "its process"}},
     .transports = {"tcp"},
     .environment = {{"WREATH_KEY", std::string(64, 'e')}},
     .act = Act::ResetALink,
     .hosts = Hosts::Wire},
};

// Makes a row where rank 0's own buffer ends too soon.
Row with_half_a_buffer(const std::string& situation, const std::string& direction, const std::string& transport) {
  return Row{.situation = situation,
             .scripts = {"half_a_buffer " + direction + " 1",
                         direction == "send" ? "recv 0 8388608 uint8" : "send 0 8388608 uint8", "watch"},
             .errors = {{{0, 1, 2},
                         ErrorCode::InvalidArgument,
                         {0},
                         {member(0) + ": .*a buffer of its call is not all memory of its process"},
                         "peer lost"}},
             .transports = {transport},
             .environment = {{"WREATH_SINGLE_COPY_BYTES", "1"}}};
}

const std::vector<Row> kOwnMistakes{
    with_half_a_buffer("ASentBufferIsNoMemoryOverTcp", "send", "tcp"),
    with_half_a_buffer("ASentBufferIsNoMemoryOverShm", "send", "shm"),
    with_half_a_buffer("AReceivedBufferIsNoMemoryOverShm", "recv", "shm"),
    {.situation = "OneGivesNoBuffer",
     .scripts = {"no_buffer", "all_reduce 10"},
     .errors = {{{0, 1}, ErrorCode::InvalidArgument, {0}, {member(0) + ": .*input = null"}, "peer lost"}},
     .within_ms = kSoonMs},
    {.situation = "OneIsOutOfMemory",
     .scripts = {"all_reduce 9;all_reduce 8000000", "all_reduce 9;limit_memory 0;all_reduce 8000000",
                 "all_reduce 9;all_reduce 8000000"},
     .errors = {{{0, 1, 2}, ErrorCode::System, {1}, {member(1) + ": .*no memory for \\d+ bytes"}, "peer lost"}},
     .transports = {"tcp"}},
};

// Ranks that make calls as they should say nothing.
const std::vector<Row> kWithoutAnError{
    // A wire to a rank that left ends, while its peer is in a call that waits for a third rank.
    {.situation = "OneLeavesACallInWhichOthersStillWait",
     .scripts = {"recv 1 1000 float32 recv 2 1000 float32", "send 0 1000 float32;leave",
                 "sleep;sleep;sleep;sleep;sleep;sleep;send 0 1000 float32"},
     .arrival_ms = 10'000},
    {.situation = "OneLeavesAReduceInWhichOthersStillWait",
     .scripts = {"reduce 100000 0", "sleep;sleep;sleep;sleep;sleep;sleep;reduce 100000 0", "reduce 100000 0;leave"},
     .arrival_ms = 10'000},
    {.situation = "OneTakesWhatAPeerSentBeforeItLeft",
     .scripts = {"sleep;recv 1 1000 float32", "send 0 1000 float32;leave", ""}},
    // Calls of all ranks have numbers of their own: ranks without a part in an exchange do not count it.
    {.situation = "MessagesAreNotCountedByOthers",
     .scripts = {"send 1 9 float32 recv 1 7 float32;all_reduce 9;send 1 9 float32 recv 1 7 float32;all_reduce 9",
                 "recv 0 9 float32 send 0 7 float32;all_reduce 9;recv 0 9 float32 send 0 7 float32;all_reduce 9",
                 "all_reduce 9;all_reduce 9"}},
};

}  // namespace

std::vector<Row> rows_of_calls() {
  std::vector<Row> all;
  for (const auto* rows : {&kDiffer, &kWait, &kLoseOne, &kOwnMistakes, &kWithoutAnError})
    all.insert(all.end(), rows->begin(), rows->end());
  return all;
}

}  // namespace wreath::testing_support::sentences

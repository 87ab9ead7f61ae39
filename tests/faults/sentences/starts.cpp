// Situations of ranks that do not all meet: who is missing, what differs, and what a machine refuses.
#include "tests/faults/sentences/row.hpp"

namespace wreath::testing_support::sentences {
namespace {

constexpr auto kStartupFailed = ErrorCode::StartupFailed;
constexpr auto kInvalid = ErrorCode::InvalidArgument;

const std::vector<std::string> kAny{"tcp"};  // what is said of the start does not depend on it
const Arguments kKey{{"WREATH_KEY", std::string(64, 'a')}};
const Arguments kOtherKey{{"WREATH_KEY", std::string(64, 'b')}};
const std::string kFirewall = "firewall";

std::string process(int rank) { return "rank " + std::to_string(rank) + R"( \(host [^ ]+, pid \d+\))"; }

// What rank 1 is told by its own environment.
Row with_variable(const std::string& situation, const std::string& name, const std::string& value) {
  return Row{.situation = situation,
             .scripts = {"", ""},
             .errors = {{{1}, kInvalid, {-1}, {name + "='?" + value}}},
             .transports = kAny,
             .starts = false,
             .own = {{}, {{name, value}}}};
}

const std::vector<Row> kKeys{
    {.situation = "OneHasAnotherKey",
     .scripts = {"", ""},
     .errors = {{{0},
                 kStartupFailed,
                 {1},
                 {"rank 1 of 2 did not arrive within", "did not prove the job's key: do all ranks have the same key"}},
                {{1},
                 kStartupFailed,
                 {-1},
                 {"answered, but the other end refused this rank's key: its own is another"},
                 kFirewall}},
     .transports = kAny,
     .starts = false,
     .own = {kKey, kOtherKey}},
    {.situation = "RanksOfOtherHostsHaveNoKey",
     .scripts = {"", ""},
     .errors = {{{1},
                 kStartupFailed,
                 {-1},
                 {"MASTER_ADDR=192.0.2.1 is another host, and this job has no key", "WREATH_KEY", "WREATH_INSECURE=1"},
                 kFirewall}},
     .transports = kAny,
     .starts = false,
     .own = {{}, {{"MASTER_ADDR", "192.0.2.1"}}}},
    {.situation = "RanksAreOfSeveralHostsAndHaveNoKey",
     .scripts = {"", ""},
     .errors = {{{0, 1},
                 kStartupFailed,
                 {0, 1},
                 {"several hosts", "UNIX socket, for want of a key", "give WREATH_KEY"},
                 "knows no IP address"}},
     .transports = kAny,
     .starts = false,
     .own = {{{"NCCL_HOSTID", "0"}}, {{"NCCL_HOSTID", "1"}}}},
};

const std::vector<Row> kMissing{
    {.situation = "OneDoesNotArrive",
     .scripts = {"", "watch_without_start", ""},
     .errors = {{{0, 2}, kStartupFailed, {1}, {"^rank 1 of 3 did not arrive within"}, "[^o] (0|2)"}},
     .transports = kAny,
     .starts = false},
    {.situation = "RankZeroDoesNotArrive",
     .scripts = {"watch_without_start", ""},
     .errors = {{{1},
                 kStartupFailed,
                 {-1},
                 {"rank 1 found no meeting point at 127.0.0.1:\\d+ .. 127.0.0.1:\\d+ from [^ ]+ .lo. within \\d+ ms",
                  "Connection refused", "rank 0 must be running"},
                 kFirewall}},
     .transports = kAny,
     .starts = false,
     .environment = kKey},
    {.situation = "TwoAreOfOneNumber",
     .scripts = {"", "", ""},
     .errors = {{{0, 1, 2},
                 kStartupFailed,
                 {1},
                 {R"(two processes claim rank 1: pid \d+ on host [^ ]+ and pid \d+ on host )"}}},
     .transports = kAny,
     .starts = false,
     .own = {{}, {}, {{"RANK", "1"}}}},
    {.situation = "NumbersOfRanksDiffer",
     .scripts = {"", ""},
     .errors = {{{0, 1}, kStartupFailed, {0, 1}, {"the number of ranks differs", process(0), process(1)}}},
     .transports = kAny,
     .starts = false,
     .own = {{}, {{"WORLD_SIZE", "3"}}}},
    {.situation = "OneEndsBeforeAllHaveMet",
     .scripts = {"", "die_during_the_start", "watch_without_start"},
     .errors = {{{0}, ErrorCode::PeerLost, {1}, {process(1) + " left during start-up"}, "did not arrive"}},
     .transports = kAny,
     .starts = false},
    {.situation = "OneEndsBeforeAllAreLinked",
     .scripts = {"", "meet_and_die_before_the_start", ""},
     .errors = {{{0, 2},
                 ErrorCode::PeerLost,
                 {1},
                 {"before the first call: peer lost: " + process(1) + ": (its process|connection closed)"},
                 "start-up failed"}},
     .transports = {"shm", "tcp"},
     .starts = false},
    {.situation = "TheServerOfTheMeetingEnds",
     .scripts = {"die_during_the_start", "", "watch_without_start"},
     .errors = {{{1},
                 ErrorCode::PeerLost,
                 {0},
                 {"the meeting point at .* is lost: the process of rank 0 has ended"},
                 "interrupted"}},
     .transports = kAny,
     .starts = false},
    {.situation = "TheServerOfTheMeetingIsStopped",
     .scripts = {"stop_during_the_start", "", "watch_without_start"},
     .errors = {{{1}, kStartupFailed, {0}, {"does not answer: the process of rank 0 may be stopped"}, "is lost"}},
     .transports = kAny,
     .starts = false},
    {.situation = "OneIsStoppedDuringTheStart",
     .scripts = {"", "stop_during_the_start", "late_start"},
     .errors = {{{0, 2}, kStartupFailed, {1}, {"rank 1 of 3 did not answer within"}, "arrive"}},
     .transports = kAny,
     .starts = false},
};

const std::vector<Row> kPlaces{
    {.situation = "AnotherUserHoldsTheirPlace",
     .scripts = {"", "watch_without_start"},
     .errors = {{{0},
                 kStartupFailed,
                 {-1},
                 {"user 65534 of this host holds the place", "WREATH_JOB", "WREATH_KEY"},
                 "another job"}},
     .transports = kAny,
     .starts = false,
     .act = Act::HoldTheirPlace},
    {.situation = "AllPortsAreTaken",
     .scripts = {"", "watch_without_start"},
     .errors = {{{0}, kStartupFailed, {-1}, {R"(ports \d+ \.\. \d+ at MASTER_ADDR=127.0.0.1: all in use)"}, kFirewall}},
     .transports = kAny,
     .starts = false,
     .environment = kKey,
     .act = Act::TakeTheirPorts},
    {.situation = "TheAddressIsOfNoHost",
     .scripts = {"watch_without_start", ""},
     .errors = {{{1}, kStartupFailed, {-1}, {"rank 1 found no meeting point at 255.255.255.255"}, kFirewall}},
     .transports = kAny,
     .starts = false,
     .environment = {{"WREATH_KEY", std::string(64, 'a')}, {"MASTER_ADDR", "255.255.255.255"}}},
    {.situation = "TheAddressIsNotRankZeros",
     .scripts = {"", "watch_without_start"},
     .errors = {{{0},
                 kStartupFailed,
                 {-1},
                 {"MASTER_ADDR=192.0.2.1 is not an address of this host, where rank 0 runs"},
                 kFirewall}},
     .transports = kAny,
     .starts = false,
     .environment = {{"WREATH_KEY", std::string(64, 'a')}, {"MASTER_ADDR", "192.0.2.1"}}},
    {.situation = "NobodyKnowsTheHost",
     .scripts = {"", ""},
     .errors = {{{0, 1}, kStartupFailed, {-1}, {"cannot look up host 'no-such-host.invalid': "}, kFirewall}},
     .transports = kAny,
     .starts = false,
     .within_ms = 30'000,
     .environment = {{"WREATH_KEY", std::string(64, 'a')}, {"MASTER_ADDR", "no-such-host.invalid"}}},
    {.situation = "NobodyIsAtTheAddress",
     .scripts = {"watch_without_start", "", ""},
     .errors = {{{2},
                 kStartupFailed,
                 {-1},
                 {"rank 2 found no meeting point at 10.73.0.9:\\d+ .. 10.73.0.9:\\d+ from 10.73.0.2 .eth0. within",
                  "No route to host|no answer at all"}}},
     .transports = kAny,
     .starts = false,
     .environment = {{"WREATH_KEY", std::string(64, 'a')}, {"MASTER_ADDR", "10.73.0.9"}},
     .hosts = Hosts::Namespaces},
    {.situation = "TheInterfaceIsNotThere",
     .scripts = {"", "", "", ""},
     .errors =
         {{{0, 1, 2, 3}, kStartupFailed, {-1, 0, 1, 2, 3}, {"WREATH_SOCKET_IFNAME==ib0", "eth0 10.73.0."}, kFirewall}},
     .transports = kAny,
     .starts = false,
     .environment = {{"WREATH_KEY", std::string(64, 'a')}, {"WREATH_SOCKET_IFNAME", "=ib0"}},
     .hosts = Hosts::Namespaces},
    with_variable("TheRankIsTooLarge", "RANK", "4"),
    with_variable("TheRankIsNegative", "RANK", "-1"),
    with_variable("TheNumberOfRanksIsNone", "WORLD_SIZE", "many"),
    with_variable("ThePortIsTooLarge", "MASTER_PORT", "70000"),
};

const std::vector<Row> kRefused{
    {.situation = "OneHasNoMemoryToStart",
     .scripts = {"", "limit_memory 1;start", ""},
     .errors = {{{0, 2}, ErrorCode::System, {1}, {process(1) + ": cannot start the progress thread: "}, "peer lost"}},
     .starts = false},
    {.situation = "OneHasNoDescriptorsToStart",
     .scripts = {"", "limit_descriptors;start", ""},
     .errors = {{{0, 2}, kStartupFailed, {1}, {process(1) + ": .*RLIMIT_NOFILE"}, "peer lost"}},
     .starts = false,
     .start_ms = 10'000,
     .within_ms = 15'000},
};

}  // namespace

std::vector<Row> rows_of_starts() {
  std::vector<Row> all;
  for (const auto* rows : {&kKeys, &kMissing, &kPlaces, &kRefused}) all.insert(all.end(), rows->begin(), rows->end());
  return all;
}

}  // namespace wreath::testing_support::sentences

// These parts of `wreath run` make decisions: hosts, lines, messages, words and verdicts.
#include <gmock/gmock.h>

#include "tools/run/hosts.hpp"
#include "tools/run/lines.hpp"
#include "tools/run/messages.hpp"
#include "tools/run/plan.hpp"
#include "tools/run/verdict.hpp"

namespace wreath::launcher::parts {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Hosts, HaveNamesAndSlots) {
  const std::vector<Host> hosts = parse_hosts("a,b:4,[fd00::1]:2,fd00::2").value();
  ASSERT_EQ(hosts.size(), 4u);
  EXPECT_EQ(hosts[0].name, "a");
  EXPECT_EQ(hosts[0].slots, 0);
  EXPECT_EQ(hosts[1].slots, 4);
  EXPECT_EQ(hosts[2].name, "fd00::1");
  EXPECT_EQ(hosts[2].slots, 2);
  EXPECT_EQ(hosts[3].name, "fd00::2");
}

TEST(Hosts, AreRefusedWithTheirNames) {
  for (const char* bad :
       {"", "a,,b", "a:", "a:0", "a:x", "a:9999", "[fd00::1", "[fd00::1]2", "a,a", "-oProxyCommand=x"})
    EXPECT_FALSE(parse_hosts(bad)) << bad;
  EXPECT_THAT(parse_hosts("node7:x").error().message, HasSubstr("node7:x"));
}

TEST(Hosts, ComeFromFiles) {
  const std::vector<Host> hosts = parse_hostfile("# all\n\na slots=2\n b:3 # the big one\nc\n", "hosts").value();
  ASSERT_EQ(hosts.size(), 3u);
  EXPECT_EQ(hosts[0].slots, 2);
  EXPECT_EQ(hosts[1].name, "b");
  EXPECT_EQ(hosts[1].slots, 3);
  EXPECT_THAT(parse_hostfile("a\nb max=3\n", "hosts").error().message, AllOf(HasSubstr("hosts:2"), HasSubstr("max=3")));
  EXPECT_FALSE(parse_hostfile("# nothing\n", "hosts"));
}

std::vector<std::vector<int>> placed(const std::string& hosts, int ranks) {
  std::vector<std::vector<int>> all;
  const std::vector<Placement> placements = place(parse_hosts(hosts).value(), ranks).value();
  for (const Placement& one : placements) all.push_back(one.ranks);
  return all;
}

TEST(Placement, IsInBlocks) {
  EXPECT_THAT(placed("a,b", 5), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4)));
  EXPECT_THAT(placed("a:1,b:4", 3), ElementsAre(ElementsAre(0), ElementsAre(1, 2)));
  EXPECT_THAT(placed("a:2,b:1", 0), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_THAT(placed("a,b,c", 2), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(placed("a:2,b", 3), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

TEST(Placement, NeedsANumberAndRoom) {
  EXPECT_THAT(place(parse_hosts("a,b").value(), 0).error().message, HasSubstr("-n"));
  EXPECT_THAT(place(parse_hosts("a:2,b:2").value(), 9).error().message,
              AllOf(HasSubstr("-n 9"), HasSubstr("4 slots"), HasSubstr("a:7")));
}

TEST(Lines, AreWhole) {
  Lines lines("[3] ");
  EXPECT_EQ(lines.add("one\ntw"), "[3] one\n");
  EXPECT_EQ(lines.add("o\n\nthree"), "[3] two\n[3] \n");
  EXPECT_EQ(lines.end(), "[3] three\n");
  EXPECT_EQ(lines.end(), "");
}

TEST(Lines, AreLeftOutWhereTheFilterSaysSo) {
  Lines lines("[3] ", [](std::string_view line) { return line != "no\n"; });
  EXPECT_EQ(lines.add("yes\nn"), "[3] yes\n");
  EXPECT_EQ(lines.add("o\nyes\n"), "[3] yes\n");
  EXPECT_EQ(lines.add("no"), "");
  EXPECT_EQ(lines.end(), "") << "a last line without an end is filtered, too";
}

TEST(Lines, AreBrokenWhenTheyNeverEnd) {
  Lines lines("");
  std::size_t bytes = 0;
  for (int i = 0; i < 40; ++i) bytes += lines.add(std::string(std::size_t{1} << 16, 'x')).size();
  EXPECT_GT(bytes, std::size_t{1} << 20);
}

TEST(Messages, SurviveAnyCutOfTheStream) {
  const std::vector<Message> sent{{Kind::Started, 0, 4711, "0,1"},
                                  {Kind::Output, 3, 2, std::string("a\0b\n", 4)},
                                  {Kind::Ended, 2, 11, ""},
                                  {Kind::Done, -1, 0, ""}};
  std::string stream;
  for (const Message& message : sent) stream += encode(message);
  MessageReader reader;
  std::vector<Message> got;
  for (const char byte : stream) {
    reader.add({&byte, 1});
    for (auto next = reader.next(); next && *next; next = reader.next()) got.push_back(**next);
  }
  ASSERT_EQ(got.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(got[i].kind, sent[i].kind);
    EXPECT_EQ(got[i].rank, sent[i].rank);
    EXPECT_EQ(got[i].value, sent[i].value);
    EXPECT_EQ(got[i].text, sent[i].text);
  }
}

TEST(Messages, OfSomebodyElseAreRefused) {
  MessageReader reader;
  reader.add("Last login: today on tty1");
  EXPECT_FALSE(reader.next());
}

TEST(Messages, BeginAfterWhatALoginShellSays) {
  MessageReader reader;
  std::string noise;
  reader.add("Welcome\n\nwreath-");
  EXPECT_FALSE(reader.skip_to_greeting(noise));
  reader.add("agent 1\n" + encode(Message{Kind::Done, -1, 0, ""}));
  EXPECT_TRUE(reader.skip_to_greeting(noise));
  EXPECT_EQ(noise, "Welcome\n");
  EXPECT_TRUE(reader.next().value());
}

TEST(Messages, CarryJobs) {
  HostJob job;
  job.ranks = {2, 3};
  job.all_ranks = 4;
  job.command = {"sh", "-c", "echo 'a b'", "donn\xe9",
                 "donn\xc3\xa9"
                 "es \xff\x80"};
  job.environment = {"A=1", "B=\xe9"};
  job.folder = "/data/\xe9t\xe9";
  job.bind = Bind::None;
  const HostJob back = decode_job(encode(job)).value();
  EXPECT_EQ(back.ranks, job.ranks);
  EXPECT_EQ(back.command, job.command);
  EXPECT_EQ(back.environment, job.environment);
  EXPECT_EQ(back.folder, job.folder);
  EXPECT_EQ(back.bind, Bind::None);
  for (const char* bad : {"", "{}", "[1]", "{\"ranks\":\"x\"}"}) EXPECT_FALSE(decode_job(bad)) << bad;
}

TEST(Words, AreSplitAsByAShell) {
  EXPECT_THAT(split_words("ssh -p 22"), ElementsAre("ssh", "-p", "22"));
  EXPECT_THAT(split_words(" a 'b c'\"d\" '' "), ElementsAre("a", "b cd", ""));
  EXPECT_TRUE(split_words("a 'b").empty());
  EXPECT_EQ(quote("it's"), "'it'\\''s'");
}

RankEnd ended(int rank, int code) { return {rank, "h", 100 + rank, code << 8, ""}; }
RankEnd killed(int rank, int signal) { return {rank, "h", 100 + rank, signal, ""}; }

TEST(Verdict, NamesTheFirstRankThatFailed) {
  Verdict verdict;
  EXPECT_FALSE(verdict.add(ended(0, 0)));
  EXPECT_EQ(verdict.code(), 0);
  EXPECT_TRUE(verdict.add(ended(2, 7)));
  EXPECT_FALSE(verdict.add(killed(1, 11)));
  EXPECT_EQ(verdict.code(), 7);
  EXPECT_EQ(describe(*verdict.culprit()), "rank 2 (host h, pid 102): ended with exit code 7");
}

TEST(Verdict, PrefersACulpritToThoseWhoLostIt) {
  Verdict verdict;
  EXPECT_TRUE(verdict.add(ended(0, 3)));
  EXPECT_FALSE(verdict.add(ended(1, 3)));
  EXPECT_TRUE(verdict.add(killed(2, 9)));
  EXPECT_EQ(verdict.code(), 137);
  EXPECT_THAT(describe(*verdict.culprit()), AllOf(HasSubstr("rank 2"), HasSubstr("signal 9 (Killed)")));
}

TEST(Verdict, OfARankThatCouldNotStartIs6) {
  Verdict verdict;
  EXPECT_TRUE(verdict.add({1, "h", 0, 0, "cannot run 'x': No such file or directory"}));
  EXPECT_EQ(verdict.code(), 6);
  EXPECT_EQ(describe(*verdict.culprit()), "rank 1 (host h): cannot run 'x': No such file or directory");
}

}  // namespace
}  // namespace wreath::launcher::parts

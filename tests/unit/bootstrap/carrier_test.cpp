// Tests the text that launchers carry, and the carriage by PMIx with functions in place of its library.
#include "src/bootstrap/carrier.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "src/bootstrap/pmix.hpp"

namespace wreath {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CarriedText, BringsThePlaceAndTheKey) {
  const std::string text = make_carried_text(true, {"10.0.0.1", "fd00::1"});
  EXPECT_THAT(text, AllOf(Not(HasSubstr(" ")), Not(HasSubstr("=")), Not(HasSubstr(";")))) << "PMI could not carry it";
  const CarriedPlace place = read_carried_text(text, "PMI").value();
  EXPECT_NE(place.key, nullptr);
  EXPECT_GE(place.port, 61'000);
  EXPECT_THAT(place.addresses, ElementsAre("10.0.0.1", "fd00::1"));
  constexpr std::size_t kUpToTheKey = std::string_view("wreath1/key/").size() + 2 * kKeyBytes;
  const std::string other = make_carried_text(true, {"10.0.0.1", "fd00::1"});
  EXPECT_NE(text.substr(0, kUpToTheKey), other.substr(0, kUpToTheKey)) << "each job has a key of its own";
}

TEST(CarriedText, HasANameAloneWhereRanksHaveAKey) {
  const CarriedPlace place = read_carried_text(make_carried_text(false, {"10.0.0.1"}), "PMI").value();
  EXPECT_EQ(place.key, nullptr);
  EXPECT_EQ(place.name.size(), 64u);
}

TEST(CarriedText, HasAsManyAddressesAsFit) {
  const std::vector<std::string> many(100, "fd00:1111:2222:3333:4444:5555:6666:7777");
  const std::string text = make_carried_text(true, many);
  EXPECT_LE(text.size(), kMaxCarriedBytes);
  EXPECT_GE(read_carried_text(text, "PMI").value().addresses.size(), 8u);
  EXPECT_LE(make_carried_text(true, std::vector(100, std::string(60, 'f'))).size(), kMaxCarriedBytes);
}

TEST(CarriedText, IsReadAsAStrangers) {
  const std::string digits(64, '7');
  for (const std::string& text :
       {std::string(), std::string("wreath1/"), "wreath2/key/" + digits + "/61000/10.0.0.1", std::string(100'000, 'w'),
        "wreath1/key/" + digits + "/61000/", "wreath1/key/" + digits + "/0/10.0.0.1",
        "wreath1/key/" + digits + "/65536/10.0.0.1", "wreath1/key/" + digits + "/61000/host",
        "wreath1/key/" + digits + "/61000/10.0.0.1,,", "wreath1/key/" + digits + "/-1/10.0.0.1",
        "wreath1/key/" + digits.substr(1) + "/61000/10.0.0.1", "wreath1/nane/" + digits + "/61000/10.0.0.1",
        std::string("wreath1/name/x/61000/10.0.0.1")}) {
    const auto place = read_carried_text(text, "PMI");
    ASSERT_FALSE(place) << text;
    EXPECT_EQ(place.error().code, ErrorCode::StartupFailed);
    EXPECT_THAT(place.error().message, AllOf(HasSubstr("PMI brought no place of rank 0"), Not(HasSubstr("7777"))));
  }
}

// Stands for PMIx's library and server.
struct TestPmix {
  std::string text;
  std::string put;  // others read it once it is committed
  std::uint32_t rank = 1;
  int inside = 0;
  int fences = 0;
  // The calls with this number, from 1 on, fail.
  int fails = 0;
  int calls = 0;
  bool number = false;
};
TestPmix test_pmix;

int count_call() { return ++test_pmix.calls == test_pmix.fails ? -25 : kPmixSuccess; }

PmixFunctions pmix_functions() {
  PmixFunctions functions;
  functions.initialise = [](PmixProcess* self, PmixInfo*, std::size_t) {
    std::strcpy(self->name_space, "job");
    self->rank = test_pmix.rank;
    const int code = count_call();
    test_pmix.inside += code == kPmixSuccess ? 1 : 0;
    return code;
  };
  functions.finalise = [](const PmixInfo*, std::size_t) { return --test_pmix.inside; };
  functions.put = [](std::uint8_t scope, const char* key, PmixValue* value) {
    EXPECT_EQ(scope, kPmixGlobal);
    EXPECT_STREQ(key, "wreath-place");
    EXPECT_EQ(value->type, kPmixString);
    test_pmix.put = value->data.string;
    return count_call();
  };
  functions.commit = [] {
    test_pmix.text = test_pmix.put;
    return count_call();
  };
  functions.fence = [](const PmixProcess* processes, std::size_t, const PmixInfo* infos, std::size_t count) {
    EXPECT_EQ(processes, nullptr);
    EXPECT_EQ(count, 1u);
    EXPECT_STREQ(infos->key, "pmix.collect");
    EXPECT_EQ(infos->value.type, kPmixBool);
    EXPECT_TRUE(infos->value.data.flag);
    ++test_pmix.fences;
    return count_call();
  };
  functions.get = [](const PmixProcess* process, const char*, const PmixInfo*, std::size_t, PmixValue** value) {
    EXPECT_EQ(process->rank, 0u);
    EXPECT_STREQ(process->name_space, "job");
    if (const int code = count_call(); code != kPmixSuccess) return code;
    *value = static_cast<PmixValue*>(std::calloc(1, sizeof(PmixValue)));
    (*value)->type = test_pmix.number ? 14 : kPmixString;
    // A number is no pointer.
    (*value)->data.string = test_pmix.number ? reinterpret_cast<char*>(14) : ::strdup(test_pmix.text.c_str());
    return kPmixSuccess;
  };
  functions.explain = [](int) -> const char* { return "UNREACHABLE"; };
  return functions;
}

Carriage carriage_of(int rank) { return {rank, 2, rank == 0 ? "text of 0" : "", Deadline::after_ms(1000)}; }

TEST(Pmix, CarriesRank0sText) {
  test_pmix = {};
  test_pmix.rank = 0;
  EXPECT_EQ(carry_by_pmix(pmix_functions(), carriage_of(0)).value(), "text of 0");
  test_pmix.rank = 1;
  EXPECT_EQ(carry_by_pmix(pmix_functions(), carriage_of(1)).value(), "text of 0");
  EXPECT_EQ(test_pmix.fences, 2);
  EXPECT_EQ(test_pmix.inside, 0) << "mpirun takes a process that does not leave PMIx for a failure";
}

TEST(Pmix, NamesTheCallThatFails) {
  const std::vector<std::string> calls[] = {{"PMIx_Init", "PMIx_Put", "PMIx_Commit", "PMIx_Fence"},
                                            {"PMIx_Init", "PMIx_Fence", "PMIx_Get"}};
  for (const int rank : {0, 1}) {
    for (const std::string& call : calls[rank]) {
      test_pmix = {};
      test_pmix.rank = static_cast<std::uint32_t>(rank);
      test_pmix.fails = static_cast<int>(&call - calls[rank].data()) + 1;
      const auto got = carry_by_pmix(pmix_functions(), carriage_of(rank));
      ASSERT_FALSE(got) << call;
      EXPECT_THAT(got.error().message, HasSubstr("rank " + std::to_string(rank) + ", at the launcher's PMIx: " + call +
                                                 ": UNREACHABLE (-25)"));
      EXPECT_EQ(test_pmix.inside, 0);
    }
  }
}

TEST(Pmix, BelievesNoOtherRankAndNoOtherKindOfValue) {
  test_pmix = {};
  test_pmix.rank = 3;
  EXPECT_THAT(carry_by_pmix(pmix_functions(), carriage_of(1)).error().message,
              HasSubstr("PMIx calls this process rank 3, and the variables rank 1"));
  test_pmix.rank = 1;
  test_pmix.number = true;
  EXPECT_EQ(carry_by_pmix(pmix_functions(), carriage_of(1)).value(), "") << "read_carried_text refuses it";
  test_pmix.number = false;
  test_pmix.text = std::string(100'000, 'x');
  EXPECT_EQ(carry_by_pmix(pmix_functions(), carriage_of(1)).value().size(), kMaxCarriedBytes + 1);
}

}  // namespace
}  // namespace wreath

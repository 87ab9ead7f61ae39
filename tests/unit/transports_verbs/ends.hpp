// Gives tests adapters of the verbs transport over the stand-in for libibverbs, and pairs of channels between them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/adapter_end.hpp"
#include "tests/support/fake_verbs.hpp"
#include "transports/verbs/adapter.hpp"

namespace wreath::test {

inline VerbsSettings settings_for(const std::string& adapters) {
  VerbsSettings settings;
  settings.adapters = adapters;
  settings.timeout = 14;
  return settings;
}

// Opens the first adapter of a rank.
inline Result<std::unique_ptr<VerbsAdapter>> open_first(const VerbsSettings& settings, int rank, int ranks) {
  auto adapters = VerbsAdapter::open(settings, rank, ranks);
  if (!adapters) return adapters.error();
  return std::unique_ptr<VerbsAdapter>(static_cast<VerbsAdapter*>(adapters->front().release()));
}

struct VerbsEnd : AdapterEnd<VerbsAdapter> {
  explicit VerbsEnd(const VerbsSettings& settings, int ranks = 2)
      : AdapterEnd(open_first(settings, 0, ranks).value()) {}
};

// Each test has a network of its own, whose adapters give up early, and leaves nothing open.
class VerbsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fake_) << "the stand-in for libibverbs is not first in LD_LIBRARY_PATH: run it by ctest";
    use({});
    FakeBehaviour behaviour;
    behaviour.delay_us = 20;
    behaviour.time_divisor = 16;
    behave(behaviour);
  }
  void TearDown() override { EXPECT_EQ(fake_.counters().alive, 0u); }
  void use(const FakeNetwork& network) { ASSERT_TRUE(fake_.configure(&network)); }
  void behave(const FakeBehaviour& behaviour) { fake_.behave(&behaviour); }

  const FakeVerbs fake_ = FakeVerbs::find();
};

}  // namespace wreath::test

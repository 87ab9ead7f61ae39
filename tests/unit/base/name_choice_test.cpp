// Tests that names are chosen as NCCL chooses interfaces and adapters.
#include "src/base/name_choice.hpp"

#include <gtest/gtest.h>

namespace wreath {
namespace {

TEST(NameChoice, IsAsInNccl) {
  EXPECT_TRUE(admits("", "eth0"));
  EXPECT_TRUE(admits("eth,ib", "ib1"));
  EXPECT_FALSE(admits("eth,ib", "lo"));
  EXPECT_TRUE(admits("=eth0", "eth0"));
  EXPECT_FALSE(admits("=eth", "eth0"));
  EXPECT_FALSE(admits("^docker,lo", "docker0"));
  EXPECT_TRUE(admits("^docker,lo", "eth0"));
  EXPECT_TRUE(admits("^=eth", "eth0"));
  EXPECT_FALSE(admits("^=eth0", "eth0"));
}

TEST(NameChoice, EndsInAPortForNamesThatHaveOne) {
  EXPECT_TRUE(admits("mlx5", "mlx5_1", 2));
  EXPECT_TRUE(admits("mlx5_1:2", "mlx5_1", 2));
  EXPECT_FALSE(admits("mlx5_1:2", "mlx5_1", 1));
  EXPECT_TRUE(admits("mlx5:1", "mlx5_1", 1));
  EXPECT_TRUE(admits("=mlx5_0:1,mlx5_1:2", "mlx5_1", 2));
  EXPECT_FALSE(admits("=mlx5_0:1,mlx5_1:2", "mlx5_10", 2));
  EXPECT_FALSE(admits("^mlx5_1:2", "mlx5_1", 2));
  EXPECT_TRUE(admits("^mlx5_1:2", "mlx5_1", 1));
  EXPECT_FALSE(admits("mlx5_1:two", "mlx5_1", 2));
  EXPECT_FALSE(admits("mlx5_1:2x", "mlx5_1", 2));
  EXPECT_TRUE(admits("=eth0:1", "eth0:1"));  // an alias of an interface
}

}  // namespace
}  // namespace wreath

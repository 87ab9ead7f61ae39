// The norm of a gradient is close to that of long double, and has the same bits however the gradient is divided.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "training/optimizer/optimizer.hpp"
#include "training/random/philox.hpp"

namespace wreath::training::norms {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> drawn(std::size_t count, float scale) {
  const RandomStream stream(3, "gradient");
  std::vector<float> gradient(count);
  for (std::size_t i = 0; i < count; ++i)
    gradient[i] = scale * stream.normal(i) * std::exp(3 * stream.normal(i + count));
  return gradient;
}

double exact(const std::vector<float>& gradient) {
  long double sum = 0;
  for (const float g : gradient) sum += static_cast<long double>(g) * g;
  return static_cast<double>(std::sqrt(sum));
}

// Returns the norm that every rank of `shape` computes from the pieces that `pieces_of` makes for it.
template <typename PiecesOf>
std::vector<double> norms(const MeshShape& shape, bool divided, const PiecesOf& pieces_of) {
  std::vector<double> norms(static_cast<std::size_t>(shape.ranks()));
  const auto body = [&](std::shared_ptr<Communicator> world) {
    CommunicationAccounting accounting;
    Mesh mesh = Mesh::create(std::move(world), shape, accounting).value();
    norms[static_cast<std::size_t>(mesh.rank())] = gradient_norm(pieces_of(mesh), divided, mesh);
  };
  if (shape.ranks() == 1) {
    body(nullptr);
  } else {
    wreath::test::LocalRanks ranks(shape.ranks(), {});
    ranks.run([&](Communicator& communicator) { body(std::make_shared<Communicator>(std::move(communicator))); });
  }
  return norms;
}

double norm_alone(const std::vector<float>& gradient) {
  const Parameter parameter;
  return norms({}, false, [&](Mesh&) { return std::vector<Piece>{{&parameter, 0, {}, gradient}}; })[0];
}

TEST(GradientNorm, IsCloseToLongDoubles) {
  for (const std::size_t count : {1u, 2u, 17u, 4095u, 4096u, 4097u, 100'003u}) {
    for (const float scale : {1.0f, 1e-30f, 1e30f, 1e-42f}) {
      const std::vector<float> gradient = drawn(count, scale);
      // By docs/decisions/0011 each square is off by at most 2^-39 of the highest one, so the norm is off by n / 2 of
      // that.
      const double bound = std::ldexp(static_cast<double>(count), -40) + 1e-15;
      EXPECT_NEAR(norm_alone(gradient) / exact(gradient), 1.0, bound) << count << " x " << scale;
    }
  }
}

TEST(GradientNorm, HoldsItsBoundWhereEveryElementRoundsAway) {
  std::vector<float> gradient(100'000, std::ldexp(0.999f, -19) / std::sqrt(2.0f));
  gradient[0] = 1;
  EXPECT_NEAR(norm_alone(gradient) / exact(gradient), 1.0, std::ldexp(1e5, -40));
  EXPECT_NE(norm_alone(gradient), exact(gradient));
}

TEST(GradientNorm, OfPowersOfTwoIsExact) {
  EXPECT_EQ(norm_alone({3, 4}), 5);
  EXPECT_EQ(norm_alone(std::vector<float>(1 << 20, 0.5f)), 512);
  EXPECT_EQ(norm_alone({std::numeric_limits<float>::denorm_min()}), std::ldexp(1.0, -149));
  const double highest = std::numeric_limits<float>::max();
  EXPECT_NEAR(norm_alone(std::vector<float>(4, std::numeric_limits<float>::max())) / (2 * highest), 1,
              std::ldexp(4.0, -40));
}

// All squares are high: a float64 holds the sum of one block, but not of all blocks.
TEST(GradientNorm, AddsIntegersExactly) {
  const RandomStream stream(5, "gradient");
  std::vector<float> gradient(50'003);
  __int128 sum = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = 0.99f + 0.009f * stream.uniform(i);
    const double scaled = std::ldexp(static_cast<double>(gradient[i]), 20);
    sum += static_cast<__int128>(std::nearbyint(scaled * scaled));
  }
  EXPECT_EQ(norm_alone(gradient), std::ldexp(std::sqrt(static_cast<double>(sum)), -20));
}

TEST(GradientNorm, SaysWhatIsNotFinite) {
  EXPECT_EQ(norm_alone({}), 0);
  EXPECT_EQ(norm_alone({0, -0.0f}), 0);
  EXPECT_EQ(norm_alone({1, -kInfinity, 2}), kInfinity);
  EXPECT_TRUE(std::isnan(norm_alone({1, kInfinity, kNan})));
  EXPECT_TRUE(std::isnan(norm_alone({-kNan})));
}

TEST(GradientNorm, HasTheSameBitsHoweverReplicasDivideIt) {
  const std::vector<float> gradient = drawn(20'011, 1);
  const double expected = norm_alone(gradient);
  const Parameter parameter;
  for (const std::vector<std::size_t>& cuts : {std::vector<std::size_t>{0, 10'000, 20'011},
                                               {0, 1, 20'011},
                                               {0, 4'999, 5'003, 20'011},
                                               {0, 7, 7, 13'000, 20'011}}) {
    const auto ranks = static_cast<int>(cuts.size()) - 1;
    const auto of_rank = [&](Mesh& mesh) {
      const auto rank = static_cast<std::size_t>(mesh.rank());
      return std::vector<Piece>{
          {&parameter, 0, {}, std::span<const float>(gradient).subspan(cuts[rank], cuts[rank + 1] - cuts[rank])}};
    };
    EXPECT_EQ(norms({.dp = ranks}, true, of_rank), std::vector<double>(cuts.size() - 1, expected));
  }
  // An infinity of one rank is the norm of all ranks.
  const std::vector<float> last{kInfinity};
  const auto one_infinite = [&](Mesh& mesh) {
    return std::vector<Piece>{{&parameter, 0, {}, mesh.rank() == 1 ? last : gradient}};
  };
  EXPECT_EQ(norms({.dp = 2}, true, one_infinite), (std::vector<double>{kInfinity, kInfinity}));
}

// A value that several ranks hold counts once: over tensor ranks, context ranks, replicas, and both ends of a pipeline.
TEST(GradientNorm, CountsEveryParameterOnce) {
  const std::vector<float> divided_over_tp = drawn(4'000, 1);
  const std::vector<float> whole = drawn(999, 2);
  const std::vector<float> tied = drawn(77, 3);
  const std::vector<float> of_stages = drawn(600, 4);
  std::vector<float> all;
  for (const auto& part : {divided_over_tp, whole, tied, of_stages}) all.insert(all.end(), part.begin(), part.end());
  const double expected = norm_alone(all);
  Parameter sharded, repeated, shared, staged;
  sharded.sharded_axis = 0;
  shared.tied = true;
  staged.sharded_axis = 0;
  for (const MeshShape shape :
       {MeshShape{1, 1, 1, 2}, MeshShape{1, 2, 1, 1}, MeshShape{1, 2, 1, 2}, MeshShape{2, 1, 1, 2},
        MeshShape{1, 1, 2, 2}, MeshShape{2, 2, 1, 1}, MeshShape{1, 2, 2, 1}}) {
    const auto of_rank = [&](Mesh& mesh) {
      const auto part = [](std::span<const float> of, int index, int parts) {
        const std::size_t count = of.size() / static_cast<std::size_t>(parts);
        return of.subspan(count * static_cast<std::size_t>(index), count);
      };
      const MeshPlace& at = mesh.place();
      std::vector<Piece> pieces{{&shared, 0, {}, tied}};
      pieces.push_back({&staged, 0, {}, part(part(of_stages, at.pp, shape.pp), at.tp, shape.tp)});
      if (at.pp == shape.pp - 1) pieces.push_back({&sharded, 0, {}, part(divided_over_tp, at.tp, shape.tp)});
      if (at.pp == 0) pieces.push_back({&repeated, 0, {}, whole});
      return pieces;
    };
    EXPECT_EQ(norms(shape, false, of_rank), std::vector<double>(static_cast<std::size_t>(shape.ranks()), expected))
        << name(shape);
  }
}

}  // namespace
}  // namespace wreath::training::norms

// Gives what the curves of meshes are compared with: one rank's run, how far noise moves it, and faults that must show.
#pragma once

#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test {

// The bounds are relative. This one is for the loss at every step; where three times the spread is more, that is the
// bound.
inline constexpr double kLossBound = 5e-7;
// The bound for the first step's gradients, by parameter.
inline constexpr double kGradientBound = 1e-5;
// The bound for the norm of the first step's gradients.
inline constexpr double kNormBound = 1e-6;
// The factor by which a planted fault must exceed the bound.
inline constexpr double kFaultFactor = 5;

// Sets plain gradient descent at a constant rate, without clipping. At a fifth of the rate a layer norm moves too
// little for a fault there to show in the loss. At four times the rate the steps diverge.
void use_plain_descent(TrainOptions& options);

// Returns the largest relative difference to `alone` of eight runs whose gradients are off by up to one unit in the
// last place.
double spread_around(const TrainingRun& alone, const TrainOptions& options);

// Makes each replica step by its own gradient of one layer norm. The gradient is kept from the strategy, and put in
// place of the mean.
void keep_a_layer_norm_apart(Trainer& trainer);
// Makes two replicas step by the sums of their gradients instead of the means.
void take_sums_for_means(Trainer& trainer);

}  // namespace wreath::gpt::test

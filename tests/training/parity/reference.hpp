// What curves on meshes are held to: one rank's run, how far noise moves it, and faults that must show.
#pragma once

#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test {

// Relative: of the loss at every step, and of the first step's gradients by parameter and norm. Beside the first stands
// three times the spread.
inline constexpr double kLossBound = 5e-7;
inline constexpr double kGradientBound = 1e-5;
inline constexpr double kNormBound = 1e-6;
// How far beyond the bound a planted fault must go.
inline constexpr double kFaultFactor = 5;

// Plain gradient descent at a constant rate, without clipping. At a fifth of the rate a layer norm moves too little for
// a fault there to show in the loss; at four times it the steps diverge.
void use_plain_descent(TrainOptions& options);

// The largest relative difference to `alone` of eight runs whose gradients are off by up to one unit in the last place.
double spread_around(const TrainingRun& alone, const TrainOptions& options);

// Each replica steps by its own gradient of one layer norm: it is kept away from the strategy, and put in place of the
// mean.
void keep_a_layer_norm_apart(Trainer& trainer);
// Of two replicas.
void take_sums_for_means(Trainer& trainer);

}  // namespace wreath::gpt::test

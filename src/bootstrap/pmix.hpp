// Carries rank 0's text by PMIx, through its client library, which is loaded where it is installed. mpirun of Open MPI
// and srun --mpi=pmix serve it.
#pragma once

#include <string>

#include "src/bootstrap/carrier.hpp"
#include "src/bootstrap/pmix_abi.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Carries by PMIx, and leaves it again. A server that does not answer is left behind, in a thread of its own.
Result<std::string> carry_by_pmix(const Carriage& carriage);

// Does the same by these functions, in this thread, without a bound on its time.
Result<std::string> carry_by_pmix(const PmixFunctions& pmix, const Carriage& carriage);

}  // namespace wreath

// SPDX-License-Identifier: Apache-2.0
// How a hooked symbol and CUPTI's callback inside the real function meet: both run on the same thread, one
// within the other. The hook raises t_in_symbol_hook, clears t_correlation, calls, and finds the correlation
// id of the call in t_correlation (0: CUPTI is not ours, or did not see the call). A callback that finds no
// hook below itself stands for a call that went around the symbols (a static runtime inside cuBLAS, Triton's
// launcher) and records it on its own. Thread and signal safety: thread locals; nothing else.
#pragma once

#include <cstdint>

#include "libinject/base/compiler.h"

namespace gpuwatch::cuda {

extern GW_TLS uint32_t t_correlation;
extern GW_TLS uint32_t t_in_symbol_hook;  // depth

}  // namespace gpuwatch::cuda

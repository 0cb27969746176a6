// SPDX-License-Identifier: Apache-2.0
// Another profiler, as a library beside the program that uses it. Each of the ways is the sequence of CUPTI
// calls of a known tool; everything that CUPTI gives it is written to the file that OTHER_PROFILER_OUT names.
//   kineto        torch.profiler up to August 2026: subscribes once, for ever; buffer callbacks, kinds on,
//   ...,
//                 kinds off, forced flush
//   kineto-bare   torch.profiler since: no subscriber, its own clock
//   teardown      as kineto with TEARDOWN_CUPTI=1: unsubscribes and finalizes in the exit callback of a CUDA
//   call callbacks     subscribes by name, follows each runtime call, unsubscribes
#pragma once

void other_profiler_start(const char* way);
void other_profiler_stop();

// SPDX-License-Identifier: Apache-2.0
// Another profiler, as a library that the program links. Each of the ways is the sequence of CUPTI
// calls of a known tool; everything that CUPTI gives it is written to the file that OTHER_PROFILER_OUT names.
//   kineto        torch.profiler up to August 2026: subscribes once and never unsubscribes; buffer callbacks,
//                 kinds on, ..., kinds off, forced flush
//   kineto-bare   torch.profiler since: no subscriber, its own clock
//   teardown      as kineto with TEARDOWN_CUPTI=1: unsubscribes and finalizes in a call's exit callback
//   callbacks     subscribes by name, follows each runtime call, unsubscribes
#pragma once

void other_profiler_start(const char* way);
void other_profiler_stop();

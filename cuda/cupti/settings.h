// SPDX-License-Identifier: Apache-2.0
// What we switch on in CUPTI, and how it stood before: activity kinds, attributes, the clock of records. They
// are the process's, not the subscriber's, so whoever comes after us must find them as they were.
// Thread safety: under g_use. Errors: set_up() says whether kernels are recorded.
#pragma once

#include "cuda/cupti/api.h"

namespace gpuwatch::cuda::cupti {

// `own_clock`: another tool replaced the clock of records. CUPTI has no way back to its default, so records
// get CLOCK_REALTIME, which is the default, from a function of ours.
bool set_up(const Api& api, bool own_clock) noexcept;

// No more callbacks and records. What has been recorded is still to be fetched.
void withdraw(const Api& api, CUpti_SubscriberHandle subscriber) noexcept;

// Attributes as they were; and `clock`, if not null, as the clock of records.
void put_back(const Api& api, CUpti_TimestampCallbackFunc clock) noexcept;

}  // namespace gpuwatch::cuda::cupti

// SPDX-License-Identifier: Apache-2.0
#include "hooks/cupti/cupti.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

#include "cuda/cupti/other_tools.h"
#include "cuda/cupti/session.h"
#include "hooks/core/operations.h"
#include "libinject/base/errno_guard.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"
#include "libinject/runtime/own_library.h"

namespace gpuwatch::hooks::cupti {
namespace {

constexpr size_t count_wanted() {
  size_t count = 0;
  for (const OperationInfo& info : kOperations) count += trace::wants_callback(info.op_class);
  return count;
}

struct Named {
  std::string_view name;
  cuda::cupti::ApiOperation operation;
};

constexpr auto kByName = [] {
  std::array<Named, count_wanted()> table{};
  size_t n = 0;
  for (uint16_t op = 0; op < static_cast<uint16_t>(Op::kCount); ++op) {
    const OperationInfo& info = kOperations[op];
    if (trace::wants_callback(info.op_class)) table[n++] = {info.name, {op, info.op_class}};
  }
  std::sort(table.begin(), table.end(), [](const Named& a, const Named& b) { return a.name < b.name; });
  return table;
}();

// "cudaMemcpyAsync_ptsz_v7000" and "cuMemcpyHtoDAsync_v2_ptsz" without what tells variants apart.
constexpr std::string_view base_name(std::string_view name) {
  for (;;) {
    const size_t last = name.rfind('_');
    if (last == name.npos || last == 0) return name;
    // substr() would bring libstdc++ in, for its exception.
    const std::string_view suffix(name.data() + last + 1, name.size() - last - 1);
    const bool is_version =
        suffix.size() > 1 && suffix[0] == 'v' && suffix.find_first_not_of("0123456789", 1) == suffix.npos;
    if (!is_version && suffix != "ptsz" && suffix != "ptds") return name;
    name.remove_suffix(name.size() - last);
  }
}
static_assert(base_name("cudaMemcpyAsync_ptsz_v7000") == "cudaMemcpyAsync");
static_assert(base_name("cuMemcpyHtoDAsync_v2_ptsz") == "cuMemcpyHtoDAsync");
static_assert(base_name("__cudaLaunchKernel_ptsz_v13000") == "__cudaLaunchKernel");

cuda::cupti::ApiOperation find(const char* cupti_name) noexcept {
  const std::string_view name = base_name(cupti_name);
  const auto* at = std::lower_bound(kByName.begin(), kByName.end(), name,
                                    [](const Named& row, std::string_view text) { return row.name < text; });
  return at != kByName.end() && at->name == name ? at->operation : cuda::cupti::ApiOperation{};
}

constinit std::atomic<bool> g_started{false};
constexpr uint32_t kExitLimitMs = 100;

}  // namespace

void on_cuda_evidence(const void*) noexcept {
  if (g_started.exchange(true)) return;
  if (!runtime::config().is_on(runtime::Source::kCupti)) {
    record::put_source("cupti", {trace::SourceState::Off});
    return;
  }
  const base::ErrnoGuard keep_errno;
  // It subscribes to CUPTI, which takes one subscriber, later than we would, and cannot be seen coming.
  if (const char* holder = runtime::other_tool_in("CUDA_INJECTION64_PATH")) {
    base::Text<256> text;
    text.add("held by ").add(holder).add(" (CUDA_INJECTION64_PATH): no device timeline");
    record::put_source("cupti", {trace::SourceState::Held, text.c_str(), holder});
    return;
  }
  const record::Quiet quiet;
  cuda::cupti::start_session(find);
}

void before_exit() noexcept {
  if (g_started.load(std::memory_order_acquire)) cuda::cupti::finish_session(kExitLimitMs);
}

bool make_way(const char* tool) noexcept {
  return cuda::cupti::other_tools::enter(nullptr, cuda::cupti::other_tools::Needs::kCupti, tool);
}

void take_back() noexcept {
  cuda::cupti::other_tools::leave();
}

}  // namespace gpuwatch::hooks::cupti
